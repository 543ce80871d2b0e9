"""The text of generated kernels for the graphs of the kernel tests, as checksums by device.

Results of kernels are compared elsewhere, on a drawn part of the graphs; that any text changed shows here. A line of
``emitted.txt`` has a group of graphs and a device, their number of functions and of characters, and a checksum of all
of it. ``pytest tests/golden --update-golden`` writes the lines, after a look at the code that changed.
"""

from __future__ import annotations

import zlib
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from kernel_cases import GROUPS

from edgec.device.load import load_device
from edgec.emit.language import language_of
from edgec.emit.source import generate
from edgec.errors import EdgecError
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions

KEPT = Path(__file__).with_name("emitted.txt")
DEVICES = ("x86_64_avx2", "cortex_m55", "cuda_sm90", "adreno_740", "neoverse_v1", "webgpu")
#: Graphs of a group: enough for each form of a kernel.
MOST = 12


def emitted(group: str, number: int) -> str:
    """The line of a group, on one of the devices."""
    device = load_device(DEVICES[number % len(DEVICES)])
    functions, texts = 0, []
    for _, graph in islice(GROUPS[group](), MOST):
        try:
            options = ScheduleOptions(2, numeric="reassociates")
            program = schedule(plan(graph, gpu=device.is_gpu, head=largest_head(device)), device, options)
            made = generate(program, "net", language=language_of(device))
        except EdgecError as error:
            texts.append(error.message)
            continue
        functions += len(made.functions)
        calls = [f"{c.function.name}{c.arguments}{c.barrier}{c.condition}" for c in made.calls]
        texts += [*(f.text + f.prototype for f in made.functions), *calls]
    text = "\n".join(texts)
    return f"{group} | {device.name} | {functions} | {len(text)} | {zlib.crc32(text.encode()):08x}"


@pytest.mark.parametrize("number, group", list(enumerate(sorted(GROUPS))))
def test_emitted(number: int, group: str, update_golden: bool) -> None:
    lines = {}
    if KEPT.is_file():
        lines = {line.partition(" | ")[0]: line for line in KEPT.read_text(encoding="utf-8").splitlines()}
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state
    found = emitted(group, number)
    if update_golden:
        KEPT.write_text("".join(f"{line}\n" for _, line in sorted({**lines, group: found}.items())), encoding="utf-8")
    else:
        assert lines.get(group) == found, "pytest tests/golden --update-golden"
