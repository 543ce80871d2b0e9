"""Small networks compressed with every kind of setting: layers, figures, and the graph that is left.

A line of ``compressed_networks.txt`` has a network with its settings, a checksum of the report with figures to two
digits, and one of operators with their types; numbers of constants are tested elsewhere. ``pytest tests/golden
--update-golden`` writes the lines.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_graphs import hold
from test_decided_networks import NETWORKS

from edgec import pipeline
from edgec.compress.compress import Compressed
from edgec.errors import EdgecError
from edgec.frontend.source import read
from edgec.ir.graph import Graph
from edgec.options import resolve
from edgec.pipeline.context import Context

KEPT = Path(__file__).with_name("compressed_networks.txt")
#: Settings by a short name; DATA stands for a file of samples.
SETTINGS: dict[str, dict[str, Any]] = {
    "int8 drawn": {"quantize": "int8", "calibrate": "random"},
    "int8": {"quantize": "int8", "calibrate": "DATA"},
    "int8 plain": {"quantize": "int8", "calibrate": "DATA", "corrections": "none", "observer": "percentile"},
    "int8 best": {"quantize": "int8", "calibrate": "DATA", "corrections": "bias,gptq", "observer": "best"},
    "int8 entropy": {"quantize": "int8", "calibrate": "DATA", "corrections": "equalize,smooth", "observer": "entropy"},
    "int8 within": {"quantize": "int8", "calibrate": "DATA", "max_loss": "max_rel=0.02", "observer": "mse"},
    "int8 close": {"quantize": "int8", "calibrate": "DATA", "max_loss": "cosine=0.9999"},
    "dynamic": {"quantize": "int8-dynamic"},
    "four bits": {"quantize": "int4-weight"},
    "vector": {"prune": "vector", "sparsity": 0.5, "calibrate": "DATA"},
    "vector by magnitude": {"prune": "vector", "sparsity": 0.7, "prune_by": "magnitude", "calibrate": "DATA"},
    "two of four": {"prune": "2:4", "prune_by": "wanda", "calibrate": "DATA"},
    "blocks": {"prune": "block=8x4", "sparsity": 0.5, "calibrate": "random"},
    "patterns": {"prune": "pattern=4of9", "calibrate": "DATA"},
    "channels": {"prune": "channel", "sparsity": 0.3, "calibrate": "DATA"},
    "zeros and bytes": {"prune": "vector", "sparsity": 0.5, "quantize": "int8", "calibrate": "DATA"},
    "as many zeros as may be": {"prune": "vector", "sparsity": "auto", "max_loss": "max_rel=0.5", "calibrate": "DATA"},
}
DEVICES = ("x86_64_avx512_vnni", "cortex_m55", "neoverse_v1", "cuda_sm90", "cortex_a55")


def two_digits(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.1e}"
    if isinstance(value, dict):
        return {k: two_digits(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [two_digits(v) for v in value]
    return value


def operators(graph: Graph) -> str:
    """Operators, types and attributes, in an order, without the values of constants."""
    nodes = graph.nodes()
    number = {n: k for k, n in enumerate(nodes)}
    texts = [
        f"{n.op} {n.type} {'' if n.is_const else two_digits(n.attributes)} {[number[a] for a in n.args]}" for n in nodes
    ]
    return "\n".join([*texts, repr([(name, number[n]) for name, n in graph.outputs])])


def line(name: str, way: str, data: Path, number: int) -> str:
    told, device = f"{name}, {way}", DEVICES[number % len(DEVICES)]
    settings = {k: str(data) if v == "DATA" else v for k, v in SETTINGS[way].items()}
    try:
        run = pipeline.run(read(NETWORKS[name]()), Context(resolve({"device": device, **settings})), until="compress")
    except EdgecError as error:
        return f"{told} | {device} | {error.message}"
    made: Compressed = run.result
    report = two_digits(asdict(made.report)) if made.report is not None else None
    pruned = two_digits(asdict(made.pruned.report)) if made.pruned is not None else None
    texts = (repr([report, pruned, sorted(made.bf16_layers or ()), made.has_rounded_weights]), operators(made.graph))
    count = len(made.graph.nodes())
    return f"{told} | {device} | {count} | {' '.join(f'{zlib.crc32(t.encode()):08x}' for t in texts)}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", SETTINGS)
@pytest.mark.parametrize("name", ["attention", "mobile", "classifier"])
def test_compressed_networks(name: str, way: str, update_golden: bool, tmp_path: Path) -> None:
    parsed = read(NETWORKS[name]())
    graph = pipeline.run(parsed, Context(resolve({"device": "generic"})), until="import").result
    random = np.random.default_rng(7)
    arrays = {str(n.attributes["name"]): random.standard_normal((4, *n.type.shape)) for n in graph.inputs}
    np.savez(tmp_path / "data.npz", **{k: v.astype(np.float32) for k, v in arrays.items()})
    hold(KEPT, [line(name, way, tmp_path / "data.npz", [*SETTINGS].index(way))], update_golden)
