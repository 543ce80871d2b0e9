"""Networks simplified by edgec's rules, compared with onnxsim, onnxslim and onnxruntime's extended level.

    python -m benchmarks.networks.make networks
    python -m benchmarks.networks.make_transformers networks
    python -m benchmarks.rules.simplify --folder networks --write docs/results/simplification.md

One table: operators, FLOPs and bytes moved of every network (see `effort.py` for what they are), seconds of edgec's
rewriting, and how far the rewritten graph's results lie from the original's on random inputs. The exit code is 1 where
edgec is not lowest somewhere, or not within the bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Network
from benchmarks.rules.effort import Effort, of_imported, of_simplified
from benchmarks.rules.simplifiers import SIMPLIFIERS, numbered, with_shapes
from benchmarks.table import markdown
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx import import_model
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph
from edgec.rewrite import simplify

BOUND = 1e-4
COLUMNS = ("original", *SIMPLIFIERS, "edgec")


@dataclass(frozen=True)
class Difference:
    """Of results: of floats the largest over the largest value, of integers (None where there are none) as it is."""

    relative: float = 0.0
    steps: int | None = None

    def __str__(self) -> str:
        floats = f"{self.relative:.1e}"
        return floats if self.steps is None else f"{self.steps} LSB" + (f", {floats}" if self.relative else "")

    def is_within(self, theirs: Difference) -> bool:
        """Within the bounds, or as near as what another one made of the same network."""
        return self.relative <= max(BOUND, theirs.relative) and (self.steps or 0) <= max(1, theirs.steps or 0)


@dataclass
class Row:
    """One network: the effort by simplifier (a sentence where there is none), and what edgec's rewriting took."""

    name: str
    efforts: dict[str, Effort | str] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0
    error: Difference = field(default_factory=lambda: Difference())
    their_error: Difference = field(default_factory=lambda: Difference())
    is_deterministic: bool = True

    @property
    def is_right(self) -> bool:
        return self.is_deterministic and self.error.is_within(self.their_error)

    @property
    def is_lowest(self) -> bool:
        ours = self.efforts["edgec"]
        others = [e for e in self.efforts.values() if isinstance(e, Effort)]
        return isinstance(ours, Effort) and all(
            getattr(ours, what) <= getattr(e, what) for e in others for what in ("operators", "flops", "bytes")
        )


def measure(network: Network, check: bool = True) -> Row:
    """Every simplifier on one network, with the shapes of its inputs fixed."""
    row = Row(network.name)
    shapes = dict(network.shapes)
    if network.inputs is not None:
        with np.load(network.inputs) as arrays:
            shapes.update({name: arrays[name].shape for name in arrays.files})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fixed.onnx"
        onnx.save(with_shapes(onnx.load(network.path), shapes), path)
        original = import_model(path)
        row.efforts["original"] = _effort(onnx.load(path))
        for name, simplifier in SIMPLIFIERS.items():
            try:
                row.efforts[name] = _effort(simplifier(path))
            except Exception as problem:  # another tool's failure is a result, not the end
                row.efforts[name] = f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0][:100]}"
        begun = time.perf_counter()
        simplified, applied = simplify(original)
        row.seconds, row.steps = time.perf_counter() - begun, len(applied)
        row.is_deterministic = simplify(original) == (simplified, applied)
        row.efforts["edgec"] = of_simplified(simplified)
        if check:
            row.error, row.their_error = _errors(path, simplified)
    return row


def _effort(model: onnx.ModelProto) -> Effort:
    """The effort of what another tool made; its operators are the nodes of its file."""
    operators = sum(n.op_type != "Constant" for n in model.graph.node)
    return of_imported(operators, import_model(numbered(model)))


def _errors(path: Path, simplified: Graph) -> tuple[Difference, Difference]:
    """Differences of results with edgec's rewriting, and with onnxruntime's optimizations, from those without."""
    given = random_inputs(simplified, seed=0)
    levels = onnxruntime.GraphOptimizationLevel
    plain, optimized = (_run(path, level, given) for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_EXTENDED))
    return _difference(run(simplified, given), plain), _difference(optimized, plain)


def _run(path: Path, level: Any, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, given)))


def _difference(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> Difference:
    relative, steps = 0.0, None
    for name, expected in want.items():
        a, b = got[name].astype(np.float64), expected.astype(np.float64)
        largest = float(np.abs(a - b).max(initial=0.0))
        if expected.dtype.kind in "iu":
            steps = max(steps or 0, int(largest))
        else:
            relative = max(relative, largest / max(float(np.abs(b).max(initial=0.0)), 1e-30))
    return Difference(relative, steps)


# ---- the page


def _cells(row: Row, what: str) -> list[str]:
    """One number an effort; the lowest are set in bold."""
    numbers = [getattr(e, what) for e in row.efforts.values() if isinstance(e, Effort)]
    cells = []
    for effort in (row.efforts.get(c, "") for c in COLUMNS):
        if isinstance(effort, str):
            cells.append("fails")
        else:
            text = shortened(getattr(effort, what))
            cells.append(f"**{text}**" if getattr(effort, what) == min(numbers) else text)
    return cells


def shortened(number: int) -> str:
    """Four digits, and a unit."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= 10 * size or (number >= size and unit != "k"):
            return f"{number / size:.4g} {unit}"
    return str(number)


def page(rows: Sequence[Row], command: str) -> str:
    parts = [_PAGE.format(command=command, versions=_versions(), bound=BOUND, networks=len(rows))]
    for what, title in (("operators", "Operators"), ("flops", "FLOPs"), ("bytes", "Bytes moved")):
        body = [[r.name, *_cells(r, what)] for r in rows]
        parts.append(f"## {title}\n\n{markdown(['network', *COLUMNS], body)}\n")
    body = [[r.name, f"{r.seconds:.2f}", str(r.steps), str(r.error), str(r.their_error)] for r in rows]
    parts.append(f"## Time and error\n\n{markdown(['network', 'seconds', 'steps', 'error', 'of onnxruntime'], body)}\n")
    failures = [f"* {r.name}, {c}: {e}" for r in rows for c, e in r.efforts.items() if isinstance(e, str)]
    if failures:
        parts.append("## What failed\n\n" + "\n".join(failures) + "\n")
    return "\n".join(parts)


def _versions() -> str:
    return ", ".join(f"{p} {version(p)}" for p in ("onnxsim", "onnxslim", "onnxruntime"))


_PAGE = """\
# Simplification

Written by `{command}`; {versions}. {networks} networks, each with fixed input shapes; the same file goes to every tool.

Counted figures, the same for all tools:

* **Operators**: for the other tools, the nodes of the ONNX file they write, without constants. onnxruntime's extended
  level replaces several nodes by one of its own (`FusedConv`, `SkipLayerNormalization`, ...): one node each. For edgec
  the named operators that its graph consists of (`edgec/rewrite/names`), of which each is one operator of ONNX or one
  of those that onnxruntime fuses: a convolution with its padding, bias, residual and clipping activation, a layer
  normalization, a softmax, an attention with its heads and mask, a gelu. Another addition, an activation that needs its
  operand twice, a reshape, a slice are operators of their own, and so are the parts of a split together. In quantized
  networks, the computation from narrow integers to narrow integers is one operator, as it is for onnxruntime
  (`QLinearConv`, `QLinearAdd`, `QLinearSoftmax`): a contraction, or one function, with its requantization.
* **FLOPs**: of the graph of core operators, as edgec imports the file that each tool writes, before any rule. Constant
  parts are free. A function costs what `edgec/ir/functions.py` says, a division 4, an exponential 10. Integers count
  like floats: a multiply-add is two, whatever its types; casts are free, adding or subtracting a zero point is not.
* **Bytes moved**: the bytes that each operator, as counted above, reads and writes; values inside an operator are not
  counted, a reshape moves nothing, a gather or slice reads only the elements it picks, constants up to 16 KiB are free.

Importing already merges equal subexpressions and folds constants, for all tools. The lowest number is bold.
*Error* is the largest difference of the rewritten graph's outputs from onnxruntime's without optimizations, over the
largest value, on random inputs; the bound is {bound:.0e}, or the error of onnxruntime's own optimizations if that is
larger. Integer outputs are compared in steps (LSB), of which one is allowed. In quantized networks with float outputs
many roundings add up: onnxruntime computes them in floats without optimizations and in integers with them; where those
differ, edgec's integers are as close. Seconds are those of edgec's rewriting only, on one core; rewriting a second time
gave the identical graph and steps for every network.
"""


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--folder", type=Path, action="append", default=[], help="more networks: every .onnx in it")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="networks by name")
    p.add_argument("--no-download", action="store_true", help="take the wheels that are there")
    p.add_argument("--no-check", action="store_true", help="leave results uncompared")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    options = p.parse_args()
    trained = (*networks.TRAINED, *networks.QUANTIZED)
    found, missing = networks.find(options.folder, options.only, not options.no_download, options.cache, trained)
    for entry in missing:
        print(f"left out: {entry.name}: {entry.reason}")
    rows = []
    for network in found:
        row = measure(network, not options.no_check)
        rows.append(row)
        numbers = {c: (e.operators, e.flops, e.bytes) if isinstance(e, Effort) else e for c, e in row.efforts.items()}
        mark = "" if row.is_lowest else "  NOT LOWEST"
        print(f"{row.name}: {row.seconds:.2f} s, error {row.error} ({row.their_error}){mark}", flush=True)
        for column, values in numbers.items():
            print(f"  {column:12} {values}", flush=True)
    if options.write:
        folders = " ".join(f"--folder {f.name}" for f in options.folder)
        command = f"python -m benchmarks.rules.simplify {folders} --write {options.write}"
        options.write.write_text(page(rows, command), encoding="utf-8")
    return 0 if all(r.is_lowest and r.is_right for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
