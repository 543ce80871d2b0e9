"""Kernel tests of OpenCL under oclgrind: data races, out-of-bounds accesses, barriers that some work-items miss.

    python -m benchmarks.gpu.oclgrind [--kind KIND] [--group GROUP] [--seconds N] [--kept FILE] [--write PAGE]

PAGE is docs/results/opencl.md.

(apt install oclgrind.) Every case of tests/kernel_cases.py, with attention of fewer queries and keys, on every kind of
device that tests/gpu/test_opencl_kernels.py knows. Some cases share a process, as oclgrind ends it on what it does not
know; where something is found, or not finished in ``--seconds`` a case, they are run by themselves. Where two devices
get the same files, the second is not run. What came of each case is kept in a file, and it is not run again while its
files are the same; the table is of all that is there. Ends with 1 where something was found or a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.table import put_into

LIBRARY = Path("/usr/lib/oclgrind/liboclgrind-rt.so")
TESTS = ROOT / "tests"
sys.path[:0] = [str(TESTS / "gpu"), str(TESTS)]
KINDS = ("host_pocl", "generic_opencl", "mali_g78", "adreno_740")
PLACES = ("<!-- oclgrind -->", "<!-- end of oclgrind -->")
#: Cases of one process; oclgrind checks a kernel for every launch.
EACH = 8
SILENT, SAME, REFUSED, FOUND, WRONG, SLOW, ENDED = (
    "silent", "the same files", "refused", "found", "wrong", "too slow", "oclgrind ended"
)  # fmt: skip


@dataclass
class Kept:
    """Results of cases: {KIND: {GROUP: {CASE: [verdict, seconds, words, number]}}}, and files without findings.

    A case whose number (of the files compiled for it) is another one by now is run again.
    """

    path: Path
    verdicts: dict[str, dict[str, dict[str, list[Any]]]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Kept:
        if not path.is_file():
            return Kept(path)
        found = json.loads(path.read_text())
        return Kept(path, found["verdicts"], found["files"])

    def of(self, kind: str, group: str) -> dict[str, list[Any]]:
        return self.verdicts.setdefault(kind, {}).setdefault(group, {})

    def write(self) -> None:
        self.path.write_text(json.dumps({"verdicts": self.verdicts, "files": self.files}, indent=1))


@cache
def groups() -> dict[str, dict[str, Any]]:
    """The cases, by group: those of the tests, but for attention."""
    from attention_cases import small_attentions
    from handed_on import handed_on
    from kernel_cases import cases

    return {**cases(), "attentions": dict(small_attentions()), "handed on": handed_on()}


def device_of(kind: str) -> Any:
    """The device as oclgrind stands for it: with no extension but doubles."""
    from edgec.device.load import load_device

    device = load_device(kind)
    return replace(device, gpu=replace(device.gpu, opencl_extensions=()))


def calculated(kind: str, group: str, names: Sequence[str], templates: Sequence[Path]) -> None:
    """In a process of its own, whose OpenCL is oclgrind's: run these cases, and say what is wrong with the results."""
    import numpy as np
    from opencl_networks import joined, network
    from small_graphs import arrays, doubled
    from test_cuda_kernels import difference

    from edgec.ir import evaluate

    whole = joined({name: groups()[group][name] for name in names})
    given = arrays(whole, 5)
    wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in given.items()}
    want = evaluate.run(doubled(whole), wide)
    scratch = tempfile.TemporaryDirectory(prefix="edgec-oclgrind-")
    with scratch as folder, network(whole, Path(folder, "net"), device_of(kind), templates=templates) as run:
        results = run(given)
    told = {name: difference(got, want[name], 1e-5) for name, got in results.items()}
    print(*(f"wrong: {name}: {what}" for name, what in told.items() if what), sep="\n")


def environment(log: Path) -> dict[str, str]:
    """Environment that runs a program under oclgrind; its findings go to ``log``."""
    found = {"EC_OPENCL_LIBRARY": str(LIBRARY), "OCLGRIND_DATA_RACES": "1", "OCLGRIND_LOG": str(log)}
    # Unoptimized: accesses are where the kernels have them, and oclgrind 21.10 does not know all that clang's
    # optimizations leave behind (llvm.experimental.noalias.scope.decl).
    found["OCLGRIND_BUILD_OPTIONS"] = "-O0"
    path = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **found, "PYTHONPATH": path}


def checked(
    kind: str, group: str, names: Sequence[str], seconds: float, templates: Sequence[Path] = ()
) -> tuple[str, str]:
    """(verdict, first of what was found or said) of some cases of a group on one kind of device."""
    with tempfile.TemporaryDirectory(prefix="edgec-oclgrind-") as folder:
        log = Path(folder, "log")
        command = [
            sys.executable,
            "-m",
            __spec__.name,
            "--kind",
            kind,
            "--group",
            group,
            "--cases",
            json.dumps(list(names)),
        ]
        command += [word for folder in templates for word in ("--templates", str(folder))]
        try:
            done = subprocess.run(
                command, env=environment(log), capture_output=True, text=True, timeout=seconds * len(names), check=False
            )
        except subprocess.TimeoutExpired:
            done = None
        findings = log.read_text(errors="replace").strip() if log.is_file() else ""
    if findings:  # also of a run that did not come to its end
        return FOUND, findings[:2000]
    if done is None:
        return SLOW, f"{seconds:.0f} s"
    said = f"{done.stderr}\n{done.stdout}"
    if done.returncode < 0 or "OCLGRIND FATAL ERROR" in said or "LLVM ERROR" in said:
        marks = ("Assertion `", "LLVM ERROR", "Undefined", "FATAL")
        why = [line for mark in marks for line in said.splitlines() if mark in line]
        return ENDED, (why or said.strip().splitlines()[-1:] or [str(done.returncode)])[0][-300:]
    wrong = "wrong:" in done.stdout
    return (WRONG, said.strip()[-1000:]) if done.returncode or wrong else (SILENT, "")


def run(kind: str, group: str, kept: Kept, seconds: float, templates: Sequence[Path]) -> None:
    """Check what is not known yet of a group on a kind of device."""
    from opencl_networks import built

    of = kept.of(kind, group)
    new: dict[str, str] = {}
    for name, graph in groups()[group].items():
        number = built(graph, device_of(kind))
        if not isinstance(number, str):
            of[name] = [REFUSED, 0.0, "", None]
        elif name in of and of[name][3] == number:
            continue
        elif number in kept.files:
            of[name] = [SAME, 0.0, kept.files[number], number]
        else:
            new[name] = number
    waiting = list(in_parts(list(new), EACH))
    while waiting:
        names = waiting.pop(0)
        begun = time.monotonic()
        verdict, words = checked(kind, group, names, seconds, templates)
        if verdict != SILENT and len(names) > 1:
            waiting[:0] = in_parts(names, len(names) // 2)
            continue
        took = (time.monotonic() - begun) / len(names)
        for name in names:
            of[name] = [verdict, round(took, 1), words, new[name]]
            if verdict == SILENT:
                kept.files[new[name]] = kind
            else:
                print(f"{kind:15} {group:18} {name:40} {verdict}: {words}", flush=True)
        kept.write()
    kept.write()
    print(f"{kind:15} {group:18} {summary(of)}", flush=True)


def in_parts(names: list[str], each: int) -> Iterator[list[str]]:
    for k in range(0, len(names), each):
        yield names[k : k + each]


def summary(of: dict[str, list[Any]]) -> str:
    """The verdicts on a group, in words."""
    counts = {v: [n for n, found in of.items() if found[0] == v] for v in (FOUND, WRONG, SLOW, ENDED)}
    ran = sum(found[0] == SILENT for found in of.values())
    same = sorted({found[2] for found in of.values() if found[0] == SAME})
    parts = [f"{ran} silent"] if ran else []
    parts += [f"{sum(found[0] == SAME for found in of.values())} as {' and '.join(same)}"] if same else []
    parts += [f"{verdict}: {', '.join(names)}" for verdict, names in counts.items() if names]
    return "; ".join(parts) or "none is taken"


def table(kept: Kept) -> str:
    """Groups by kinds of device; what was not run is empty."""
    names = sorted({group for of in kept.verdicts.values() for group in of})
    lines = ["| cases | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for group in names:
        cells = [kept.verdicts.get(kind, {}).get(group) for kind in KINDS]
        lines.append("| " + " | ".join([group, *(summary(of) if of else "" for of in cells)]) + " |")
    return "\n".join(lines)


def write(kept: Kept, page: Path) -> None:
    put_into(page, table(kept), PLACES)


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--kind", action="append", choices=KINDS)
    p.add_argument("--group", action="append")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--seconds", type=float, default=120, help="for one case")
    p.add_argument("--kept", type=Path, default=Path("oclgrind.json"), help="what came of each case")
    p.add_argument("--write", type=Path, help="a page to put the table of everything that is kept into")
    p.add_argument("--templates", type=Path, action="append", default=[], help="a folder of templates of your own")
    p.add_argument("--cases", help=argparse.SUPPRESS)
    options = p.parse_args()
    if not LIBRARY.is_file():
        sys.exit(f"there is no {LIBRARY}: apt install oclgrind")
    names = options.group or sorted(groups())
    if options.cases:
        return calculated(options.kind[0], names[0], json.loads(options.cases), options.templates)
    kept = Kept.read(options.kept)
    pairs = [(kind, group) for group in names for kind in options.kind or KINDS]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda pair: run(*pair, kept, options.seconds, options.templates), pairs))
    if options.write:
        write(kept, options.write)
    found = [of for by in kept.verdicts.values() for group in by.values() for of in group.values()]
    sys.exit(any(of[0] in (FOUND, WRONG) for of in found))


if __name__ == "__main__":
    main()
