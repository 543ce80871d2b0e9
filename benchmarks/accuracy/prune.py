"""Pruning without training on EfficientNet-Lite0: zeros, latency, accuracy for every method and level, and by a bound.

    python -m benchmarks.accuracy.prune --write docs/guide/pruning.md

The network is read from its wheel, pictures from ``imagenet_even`` in the folder of trained models (EDGEC_MODELS, or
../shared/models): some calibrate, the others are counted. Times are on one thread, the least of several turns that
all networks take one after the other. Pruning and counting takes minutes a network, timing seconds: ``--keep DIR`` has
the former done once, and another run with the same words goes on from there and times.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import edgec
from benchmarks.accuracy.decisions import Example, pictures
from benchmarks.cpu.sparse import _guarded
from benchmarks.cpu.sparse_page import put
from benchmarks.networks import catalog as networks
from benchmarks.table import markdown
from edgec.artifact.network import Network
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

    @property
    def folder(self) -> str:
        return re.sub(r"[^\w.]+", "-", f"{self.told} {self.asked}").strip("-")


@dataclass(frozen=True)
class Made:
    """An artefact, its share of zeros, how many kernels leave them out, and how many pictures it reads right; without
    an artefact, why there is none."""

    folder: str | None
    told: str
    zeros: float = 0.0
    sparse: int = 0
    right: int = 0


def cases(
    schemes: Sequence[str],
    methods: Sequence[str],
    levels: Sequence[float],
    channels: Sequence[float],
    budgets: Sequence[str],
) -> Iterator[Case]:
    """Every kind at every level, chosen by the last method; the others for the first kind at the middle level."""
    yield Case()
    middle = sorted(levels)[len(levels) // 2]
    yield from (Case(schemes[0], method, middle) for method in methods[:-1])
    for scheme in schemes:
        given = channels if scheme == "channel" else levels
        if ":" in scheme:
            stay, of = map(int, scheme.split(":"))
            given = [1 - stay / of]
        yield from (Case(scheme, methods[-1], level) for level in given)
    yield from (Case("vector", methods[-1], None, budget) for budget in budgets)


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--schemes", nargs="+", default=["vector=16", "block=16x4", "2:4", "vector=1", "channel"])
    p.add_argument("--methods", nargs="+", default=["magnitude", "wanda", "obs"])
    p.add_argument("--levels", nargs="+", type=float, default=[0.3, 0.5, 0.7])
    p.add_argument("--channels", nargs="+", type=float, default=[0.05, 0.1, 0.3], help="levels of --schemes channel")
    p.add_argument("--max-loss", nargs="*", default=["top1_drop=2", "top1_drop=5"])
    p.add_argument("--calibrate", type=int, default=150, help="pictures that calibrate; all others are counted")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="networks pruned and compiled at the same time")
    p.add_argument("--network", type=Path, help=f"{NETWORK}.onnx, by default from its wheel")
    p.add_argument("--keep", type=Path, help="a folder for networks and counts, to go on from")
    p.add_argument("--write", type=Path, help="put the table between its marks in a page")
    p.add_argument("--guard", help="a command that prints a line when the machine is ours, ended when timing is done")
    given = p.parse_args(arguments)
    path = given.network or next(n.path for n in networks.find(only=[NETWORK])[0])
    examples = list(pictures(networks.models_folder() / "imagenet_even"))
    order = np.random.default_rng(0).permutation(len(examples))
    chosen, counted = order[: given.calibrate], [examples[i] for i in order[given.calibrate :]]
    with tempfile.TemporaryDirectory(prefix="edgec-prune-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        data = folder / "calibration.npz"
        np.savez(data, image=np.concatenate([examples[i][0] for i in chosen]), labels=[examples[i][1] for i in chosen])
        asked = list(cases(given.schemes, given.methods, given.levels, given.channels, given.max_loss))
        made: dict[Case, Made] = {}
        with ProcessPoolExecutor(given.jobs) as pool:
            folders = [folder / case.folder for case in asked]
            n = len(asked)
            for case, one in zip(asked, pool.map(_counted, [path] * n, asked, [data] * n, folders, [counted] * n)):
                made[case] = one
                print(f"{case.told} {case.asked}: {one.told}", file=sys.stderr, flush=True)
        runs = {case: Network(one.folder) for case, one in made.items() if one.folder is not None}
        with _guarded(given.guard):
            seconds = _timed(runs, counted[0][0])
    rows = [_row(c, m, made[asked[0]].right, len(counted), seconds) for c, m in made.items()]
    heads = ["kind, chosen by", "asked", "zeros or gone", "sparse kernels", "top-1", "points", "ms", "over dense"]
    left_out = {"--guard", given.guard, "--keep", str(given.keep), "--network", str(path)}
    command = shlex.join(["python", "-m", "benchmarks.accuracy.prune", *(w for w in sys.argv[1:] if w not in left_out)])
    text = f"Written by `{command}`: {len(counted)} pictures, {given.calibrate} others calibrate.\n\n"
    text += markdown(heads, rows, 2)
    print(text)
    if given.write:
        put(given.write, "accuracy", text)
    return 0


def _counted(path: Path, case: Case, data: Path, folder: Path, examples: Sequence[Example]) -> Made:
    """The network pruned, compiled and counted; what an earlier run left in ``folder``, where there is something."""
    kept = folder.parent / f"{folder.name}.json"
    if kept.is_file():
        return Made(**json.loads(kept.read_text()))
    made = _made(path, case, data, folder)
    if made.folder is not None:
        run = Network(made.folder)
        made = replace(made, right=sum(int(np.argmax(_result(run, x))) == label for x, label in examples))
    kept.write_text(json.dumps(asdict(made)))
    return made


def _made(path: Path, case: Case, data: Path, folder: Path) -> Made:
    """The network pruned and compiled, or why that cannot be. Single zeros, which gain nothing, come as masks."""
    begun = time.monotonic()
    settings = {"prune": case.scheme, "prune_by": case.method, "calibrate": data} if case.scheme else {}
    if case.sparsity is not None:
        settings["sparsity"] = case.sparsity
    if case.budget is not None:
        settings["max_loss"] = case.budget
    shutil.rmtree(folder, ignore_errors=True)
    try:
        if case.scheme == "vector=1":
            masks = folder.parent / f"{folder.name}.npz"
            np.savez(masks, **edgec.masks(path, **settings))  # type: ignore[arg-type]
            settings = {"masks": masks, "calibrate": data}
        built = edgec.build(path, folder, **settings)  # type: ignore[arg-type]
    except EdgecError as error:
        return Made(None, str(error).splitlines()[0])
    pruned, program = built.stages["compress"].pruned, built.stages["schedule"]
    zeros = pruned.report.zeros if pruned is not None else 0.0
    sparse = sum(k.sparsity is not None and k.sparsity.taken for k in program.kernels)
    told = f"{zeros:.0%} zeros, {sparse} sparse kernels ({time.monotonic() - begun:.0f} s)"
    return Made(str(folder), told, zeros, sparse)


def _result(run: Network, x: np.ndarray) -> np.ndarray:
    return next(iter(run.run({run.inputs[0].onnx_name: x}).values()))


def _timed(runs: dict[Case, Network], x: np.ndarray, turns: int = 40) -> dict[Case, float]:
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(turns):
        for case, run in runs.items():
            begun = time.perf_counter()
            _result(run, x)
            best[case] = min(best[case], time.perf_counter() - begun)
    return best


def _row(case: Case, made: Made, dense: int, count: int, seconds: dict[Case, float]) -> list[str]:
    if made.folder is None:
        return [case.told, case.asked, made.told, "", "", "", "", ""]
    zeros, sparse, points = ("",) * 3
    if case.scheme:
        zeros, sparse, points = f"{made.zeros:.0%}", str(made.sparse), f"{100 * (made.right - dense) / count:+.1f}"
    top1, ms = f"{made.right / count:.1%}", f"{1e3 * seconds[case]:.2f}"
    return [case.told, case.asked, zeros, sparse, top1, points, ms, f"{seconds[Case()] / seconds[case]:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
