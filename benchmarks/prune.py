"""Pruning without training on EfficientNet-Lite0: zeros, latency, accuracy for every method and level, and by a budget.

    python benchmarks/prune.py --write docs/pruning.md

The network is read from its wheel, pictures from ``imagenet_even`` in the folder of trained models (EDGEC_MODELS, or
../shared/models): some calibrate, the others are counted. Times are on one thread, the least of several turns that
all networks take one after the other.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import networks
import numpy as np
from accuracy import Example, pictures
from sparse import _guarded
from sparse_page import put
from table import markdown

import edgec
from edgec.api import Built
from edgec.errors import EdgecError

NETWORK = "efficientnet_lite0"


@dataclass(frozen=True)
class Case:
    """One way to prune; without a ``sparsity`` within ``budget``, without a ``scheme`` the dense network."""

    scheme: str = ""
    method: str = "obs"
    sparsity: float | None = None
    budget: str | None = None

    @property
    def told(self) -> str:
        if not self.scheme:
            return "dense"
        return f"{self.scheme}, {self.method}" if self.scheme != "channel" else "channel"

    @property
    def asked(self) -> str:
        return self.budget or ("" if self.sparsity is None else f"{self.sparsity:g}")


def cases(schemes: Sequence[str], methods: Sequence[str], levels: Sequence[float], budget: str) -> Iterator[Case]:
    yield Case()
    for scheme in schemes:
        for method in methods if scheme != "channel" else ("obs",):
            yield from (Case(scheme, method, level) for level in levels)
    yield Case("vector", "obs", None, budget)


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--schemes", nargs="+", default=["vector=16", "block=16x4", "channel"])
    p.add_argument("--methods", nargs="+", default=["magnitude", "wanda", "obs"])
    p.add_argument("--levels", nargs="+", type=float, default=[0.3, 0.5, 0.7])
    p.add_argument("--budget", default="top1_drop=2")
    p.add_argument("--calibrate", type=int, default=48, help="pictures that calibrate; all others are counted")
    p.add_argument("--network", type=Path, help=f"{NETWORK}.onnx, by default from its wheel")
    p.add_argument("--write", type=Path, help="put the table between its marks in a page")
    p.add_argument("--guard", help="a command that prints a line when the machine is ours, ended when timing is done")
    given = p.parse_args(arguments)
    path = given.network or next(n.path for n in networks.find([NETWORK]) if n.name == NETWORK)
    examples = list(pictures(networks.models_folder() / "imagenet_even"))
    order = np.random.default_rng(0).permutation(len(examples))
    chosen, counted = order[: given.calibrate], [examples[i] for i in order[given.calibrate :]]
    with tempfile.TemporaryDirectory(prefix="edgec-prune-") as folder:
        data = Path(folder) / "calibration.npz"
        np.savez(data, image=np.concatenate([examples[i][0] for i in chosen]))
        built: dict[Case, Built | str] = {}
        right: dict[Case, int] = {}
        for case in cases(given.schemes, given.methods, given.levels, given.budget):
            begun = time.monotonic()
            built[case] = made = _built(path, case, data)
            if isinstance(made, Built):
                right[case] = _right(made, counted)
            told = made if isinstance(made, str) else f"{right[case] / len(counted):.1%}"
            print(f"{case.told} {case.asked}: {told} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
        runs = {c: b for c, b in built.items() if isinstance(b, Built)}
        with _guarded(given.guard):
            seconds = _timed(runs, counted[0][0])
    rows = [_row(c, b, right.get(c, 0), len(counted), seconds) for c, b in built.items()]
    heads = ["kind, chosen by", "asked", "zeros or gone", "top-1", "points", "ms", "over dense"]
    words = [w for w in sys.argv[1:] if w != "--guard" and w != (given.guard or "")]
    command = shlex.join(["python", "benchmarks/prune.py", *(w for w in words if w not in ("--network", str(path)))])
    text = f"Written by `{command}`: {len(counted)} pictures, {given.calibrate} others calibrate.\n\n"
    text += markdown(heads, rows, 2)
    print(text)
    if given.write:
        put(given.write, "accuracy", text)
    return 0


def _built(path: Path, case: Case, data: Path) -> Built | str:
    """The network pruned and compiled, or why that cannot be."""
    settings = {"prune": case.scheme, "prune_by": case.method, "calibrate": data} if case.scheme else {}
    if case.sparsity is not None:
        settings["sparsity"] = case.sparsity
    if case.budget is not None:
        settings["loss_budget"] = case.budget
    try:
        return edgec.build(path, **settings)  # type: ignore[arg-type]
    except EdgecError as error:
        return str(error).splitlines()[0]


def _right(built: Built, examples: Sequence[Example]) -> int:
    return sum(int(np.argmax(built(x))) == label for x, label in examples)


def _timed(runs: dict[Case, Built], x: np.ndarray, turns: int = 25) -> dict[Case, float]:
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(turns):
        for case, built in runs.items():
            begun = time.perf_counter()
            built(x)
            best[case] = min(best[case], time.perf_counter() - begun)
    return best


def _row(case: Case, built: Built | str, right: int, count: int, seconds: dict[Case, float]) -> list[str]:
    if isinstance(built, str):
        return [case.told, case.asked, built, "", "", "", ""]
    dense = next(s for c, s in seconds.items() if not c.scheme)
    report = built.run.context.pruned.report if built.run.context.pruned is not None else None
    zeros = "" if report is None else f"{report.zeros:.0%}"
    top1 = f"{right / count:.1%}"
    first = [case.told, case.asked, zeros, top1]
    return [*first, _points(right, count), f"{1e3 * seconds[case]:.2f}", f"{dense / seconds[case]:.2f}"]


_dense_right: list[int] = []


def _points(right: int, count: int) -> str:
    """Points beside the dense network, whose row comes first."""
    if not _dense_right:
        _dense_right.append(right)
        return ""
    return f"{100 * (right - _dense_right[0]) / count:+.1f}"


if __name__ == "__main__":
    sys.exit(main())
