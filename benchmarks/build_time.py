"""Seconds from a model's file to C, stage by stage: networks of a folder, language models, and chains of layers.

    python -m benchmarks.networks.make DIR resnet50_224 bert_base_128       # networks that PyTorch exports
    python -m benchmarks.build_time DIR [--language FILE ...] [--chains 1250 2500 ...] [--write FILE]

Every build is a process of its own, on one core, without the C compiler and without the cache. The times are those of
the processor, of which other work on the machine takes little. A chain is residual blocks of convolutions with weights
of their own: twice the nodes shall take at most twice the time. ``--repeats`` says how often; the page has medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import ROOT, environment

#: Seconds that a build may take: import to C, on one core.
GOALS = {"resnet50_224": 4.0, "bert_base_128": 5.0, "smollm2-135m": 15.0, "raft": 15.0}
CHAINS = (1250, 2500, 5000, 10000, 20000)
_CHANNELS, _SIDE, _BLOCK = 4, 6, 5


@dataclass(frozen=True)
class Row:
    """A build: nodes of the model, kernels, processor seconds of each stage and of the rest, and peak memory."""

    name: str
    nodes: int
    kernels: int
    stages: dict[str, float]
    peak_mib: int

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


def chain(nodes: int, path: Path) -> Path:
    """A model of some ``nodes``: blocks of two convolutions of 3 x 3, two ReLUs and a sum, in fp32."""
    random = np.random.default_rng(nodes)
    made, weights, value = [], [], "x"
    for k in range(max(1, nodes // _BLOCK)):
        for part in "ab":
            drawn = random.standard_normal((_CHANNELS, _CHANNELS, 3, 3), dtype=np.float32) / 6
            weights.append(numpy_helper.from_array(drawn, f"w{k}{part}"))
        names = [f"{part}{k}" for part in "cdefg"]
        made += [
            helper.make_node("Conv", [value, f"w{k}a"], [names[0]], f"conv{k}a", pads=[1] * 4),
            helper.make_node("Relu", [names[0]], [names[1]], f"relu{k}a"),
            helper.make_node("Conv", [names[1], f"w{k}b"], [names[2]], f"conv{k}b", pads=[1] * 4),
            helper.make_node("Add", [value, names[2]], [names[3]], f"add{k}"),
            helper.make_node("Relu", [names[3]], [names[4]], f"relu{k}b"),
        ]
        value = names[4]
    shape = [1, _CHANNELS, _SIDE, _SIDE]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", value)]
    graph = helper.make_graph(made, "chain", infos[:1], infos[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def built_here(path: Path) -> Row:
    """The row of one build in this process; the clock of the stages is that of the processor."""
    time.perf_counter = time.process_time
    import edgec

    with tempfile.TemporaryDirectory() as folder:
        first = ROOT / "apps" / "digits" / "digits.onnx"  # modules are imported then, and templates read
        edgec.build(first, Path(folder) / "first", compile=False)
        begun = time.process_time()
        built = edgec.build(path, Path(folder) / "out", compile=False, threads=1)
        ended = time.process_time()
        stages = {name: seconds for name, seconds in built.seconds.items() if name != "compile"}
    stages["files"] = ended - begun - sum(stages.values())
    used = resource.getrusage(resource.RUSAGE_SELF)
    kernels = len(built.program.kernels)
    nodes = len(onnx.load(path, load_external_data=False).graph.node) if path.suffix == ".onnx" else 0
    return Row(path.stem, nodes, kernels, stages, used.ru_maxrss >> 10)


def measured(path: Path, repeats: int) -> Row:
    """The build with the median of the seconds; raises CalledProcessError where it fails."""
    rows = []
    for _ in range(repeats):
        command = [sys.executable, "-m", "benchmarks.build_time", "--single", str(path)]
        done = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE, text=True)
        rows.append(Row(**json.loads(done.stdout.splitlines()[-1])))
    return sorted(rows, key=lambda r: r.seconds)[(len(rows) - 1) // 2]


def goal(name: str) -> float | None:
    return next((seconds for known, seconds in GOALS.items() if name.startswith(known)), None)


def page(rows: Sequence[Row], chains: Sequence[Row], repeats: int) -> str:
    """The page: a table of networks with their stages, and one of chains."""
    when = datetime.now(timezone.utc).date().isoformat()
    names = list(dict.fromkeys(n for r in [*rows, *chains] for n in r.stages))
    times = "one run each" if repeats == 1 else f"the median of {repeats} runs"
    lines = [
        "# Build time", "",
        "Written by `python -m benchmarks.build_time`: seconds of the processor from the model's file to C, on one "
        f"core of {_processor()}, {when}; {times}. Without the C compiler, Python's start and imports. "
        "*files* is the rest of the build: reading and hashing the model, and writing the folder.",
        "`python -m benchmarks.networks.make DIR` writes the networks; raft_small is that of princeton-vl, with random "
        "weights, at 128 x 192.",
        "", "## Networks", "",
        f"| network | nodes | kernels | {' | '.join(names)} | all | goal | peak MiB |",
        "|---|---:|---:|" + "---:|" * (len(names) + 3),
    ]  # fmt: skip
    for row in rows:
        bound = goal(row.name)
        lines.append(
            _line(row, names, "" if bound is None else f"{bound:g}{'' if row.seconds <= bound else ', missed'}")
        )
    if chains:
        lines += [
            "", "## Chains of residual blocks", "",
            "Twice the nodes, twice the time, if building is linear in them.", "",
            f"| chain | nodes | kernels | {' | '.join(names)} | all | ms a node | peak MiB |",
            "|---|---:|---:|" + "---:|" * (len(names) + 3),
        ]  # fmt: skip
        lines += [_line(row, names, f"{1e3 * row.seconds / row.nodes:.2f}") for row in chains]
    return "\n".join(lines) + "\n"


def _line(row: Row, names: Sequence[str], last: str) -> str:
    stages = " | ".join(f"{row.stages.get(n, 0.0):.2f}" for n in names)
    nodes = f"{row.nodes:,}" if row.nodes else ""
    return f"| {row.name} | {nodes} | {row.kernels:,} | {stages} | {row.seconds:.2f} | {last} | {row.peak_mib:,} |"


def _processor() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "an " + next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return f"a machine with {platform.machine()}"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("folder", type=Path, nargs="?", help="of NAME.onnx")
    p.add_argument("--language", type=Path, nargs="*", default=[], metavar="FILE", help="GGUF files")
    p.add_argument("--chains", type=int, nargs="*", default=CHAINS, metavar="NODES")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--write", type=Path, metavar="FILE")
    p.add_argument("--single", type=Path, help=argparse.SUPPRESS)
    given = p.parse_args()
    with suppress(AttributeError):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if given.single:
        print(json.dumps(asdict(built_here(given.single))))
        return
    rows = []
    for path in [*(sorted(given.folder.glob("*.onnx")) if given.folder else []), *given.language]:
        rows.append(measured(path, given.repeats))
        print(f"{rows[-1].name}: {rows[-1].seconds:.2f} s", flush=True)
    chains = []
    with tempfile.TemporaryDirectory() as scratch:
        for nodes in given.chains:
            path = chain(nodes, Path(scratch) / f"chain{nodes}.onnx")
            chains.append(measured(path, given.repeats))
            print(f"{nodes} nodes: {chains[-1].seconds:.2f} s", flush=True)
    text = page(rows, chains, given.repeats)
    if given.write:
        given.write.write_text(text, "utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
