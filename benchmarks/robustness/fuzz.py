"""Mutated files for every reader: each has to be read, or to end in an EdgecError, in bounded time.

`python -m benchmarks.robustness.fuzz --cases N` draws N cases from one seed, in parallel. It can be stopped and goes on
where it was (``--state``). A finding is made smaller and kept in a folder, as the file and what it led to.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from benchmarks.robustness.targets import TARGETS, Target
from edgec import files
from edgec.errors import EdgecError
from edgec.execute.invariants import InvariantError
from edgec.ir.verify import VerifyError

#: Seconds of the processor for a case, cases that a process takes at a time, and attempts to make one smaller.
PATIENCE, BLOCK, ATTEMPTS = 30, 250, 400
#: Bytes of addresses that a process may have: a case that fills the memory is a finding, and ends nothing else.
MEMORY = 4 << 30


@dataclass(frozen=True)
class Outcome:
    """The end of one case: ``kind`` is read, refused, or the place of a mistake; ``told`` is the traceback of that."""

    target: str
    kind: str
    content: bytes = b""
    told: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind not in ("read", "refused")


class _Hang(Exception):
    """A case took too long."""


@contextmanager
def _patience() -> Iterator[None]:
    def late(*_: object) -> None:
        raise _Hang(f"more than {PATIENCE} s")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="edgec-fuzz-")


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder; one for all cases of a process, since making one takes longer than most of them."""
    folder = Path(_place().name)
    try:
        yield folder
    finally:
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def tried(target: Target, content: bytes) -> Outcome:
    """The outcome of reading a file."""
    with _folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with _patience():
                target.read(content, folder)
        except (VerifyError, InvariantError) as mistake:
            return _mistake(target, content, mistake)
        except EdgecError as refusal:
            if any(isinstance(cause, MemoryError) for cause in _causes(refusal)):
                return _mistake(target, content, refusal, "a refusal after all memory was taken")
            if len(str(refusal)) > 20_000:
                return Outcome(target.name, "a refusal of more than 20,000 characters", content)
            return Outcome(target.name, "refused")
        except Exception as mistake:
            return _mistake(target, content, mistake)
    return Outcome(target.name, "read")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _mistake(target: Target, content: bytes, mistake: Exception, named: str = "") -> Outcome:
    *_, first = _causes(mistake)
    frames = [f for f in traceback.extract_tb(first.__traceback__) if "/edgec/" in f.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    named = named or type(mistake).__name__
    return Outcome(target.name, f"{named} in {place}", content, traceback.format_exc()[-4000:])


def case(seed: int, number: int) -> tuple[Target, bytes]:
    """The case of a number: its target and its file depend on these two numbers alone."""
    rng = random.Random(f"{seed} {number}")
    (target,) = rng.choices(TARGETS, [t.share for t in TARGETS])
    content = rng.choice(target.files)
    return target, rng.choice(target.mutations)(rng, content)


def smaller(outcome: Outcome) -> Outcome:
    """The same finding by a shorter file: parts are left out as long as it stays."""
    target = next(t for t in TARGETS if t.name == outcome.target)
    step, left = max(len(outcome.content) // 2, 1), ATTEMPTS
    while step and left:
        place = 0
        while place < len(outcome.content) and left:
            left -= 1
            shorter = outcome.content[:place] + outcome.content[place + step :]
            found = tried(target, shorter)
            if found.kind == outcome.kind:
                outcome = found
            else:
                place += step
        step //= 2
    return outcome


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def block(seed: int, first: int, count: int) -> tuple[Counter[tuple[str, str]], list[Outcome]]:
    """Cases ``first`` and following: how often each target ended in which way, and one finding of each kind."""
    counts: Counter[tuple[str, str]] = Counter()
    findings: dict[tuple[str, str], Outcome] = {}
    for number in range(first, first + count):
        outcome = tried(*case(seed, number))
        counts[outcome.target, outcome.kind] += 1
        if outcome.is_finding:
            findings.setdefault((outcome.target, outcome.kind), outcome)
    return counts, list(findings.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--state", type=Path, default=Path("fuzz-state.json"), help="what is done; findings lie beside it"
    )
    given = parser.parse_args(arguments)
    state = (
        json.loads(given.state.read_text()) if given.state.is_file() else {"seed": given.seed, "done": [], "counts": {}}
    )
    if state["seed"] != given.seed:
        parser.error(f"{given.state} is of seed {state['seed']}")
    counts = Counter(state["counts"])
    done = set(state["done"])
    waiting = [k for k in range(0, given.cases, BLOCK) if k not in done]
    given.state.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(given.jobs, initializer=_bounded) as pool:
        running = [(k, pool.submit(block, given.seed, k, min(BLOCK, given.cases - k))) for k in waiting]
        for first, future in running:
            found, findings = future.result()
            counts.update({f"{target}: {kind}": n for (target, kind), n in found.items()})
            for outcome in findings:
                name = sha256(f"{outcome.target} {outcome.kind}".encode()).hexdigest()[:12]
                place = given.state.with_name(f"finding-{outcome.target}-{name}")
                if not place.is_file():
                    outcome = smaller(outcome)
                    files.replace(place, outcome.content)
                    files.replace(place.with_suffix(".txt"), f"{outcome.kind}\n{outcome.told}")
            done.add(first)
            files.replace(given.state, json.dumps({"seed": given.seed, "done": sorted(done), "counts": dict(counts)}))
    for name, count in sorted(counts.items()):
        print(f"{count:>9} {name}")
    spent = os.times()
    print(f"{sum(counts.values()):>9} cases, {sum(spent[:4]):.0f} s of the processor in this run")
    return int(any(not name.endswith((": read", ": refused")) for name in counts))


if __name__ == "__main__":
    raise SystemExit(main())
