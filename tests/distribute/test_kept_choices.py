"""Divisions of small networks for every goal, over links of every speed: parts, predicted times, the verdict.

A line of ``choices.txt`` has a network, what was wanted and the links, the split that was taken with its workers, times
to four digits, and a checksum of all parts of all divisions that were tried. Results are the same with any division;
that one changed shows here. ``pytest tests/distribute --update-golden`` writes the lines; look at those that changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from divided_cases import in_tiles
from test_tensor_networks import NETWORKS, SUMS

from edgec import pipeline
from edgec.distribute import ilp
from edgec.distribute.choose import MISSING, Choice, Tried, Wanted, choose, jobs_of, priced
from edgec.distribute.links import FRAME, HANDLING, Links
from edgec.distribute.places import Speed
from edgec.distribute.prices import Prices
from edgec.distribute.timeline import Seconds
from edgec.errors import EdgecError
from edgec.frontend.source import read
from edgec.options import resolve
from edgec.pipeline.context import Context

KEPT = Path(__file__).with_name("choices.txt")
MADE = {**NETWORKS, "tiles": in_tiles}
FAST, SLOW = Speed(1e12, 1e-9), Speed(1e7, 2e-5)
LINKS = {
    "at once": Links((FAST,) * 3, (FAST,) * 3, FAST),
    "here": Links((None,) * 3, (HANDLING,) * 3, HANDLING, cores=2, frame_s=FRAME),
    "uneven": Links((None, SLOW, FAST), (FAST, HANDLING, FAST), HANDLING, shared=SLOW, cores=3, frame_s=1e-6),
}
WANTED = (
    {}, {"goal": "latency"}, {"split": "pipeline", "force": True}, {"split": "rows", "force": True, "goal": "latency"},
    {"split": "tensor", "force": True}, {"split": "tensor"}, {"memory": 20_000}, {"memory": 6_000, "goal": "latency"},
    {"memory": 100},
)  # fmt: skip
#: Processors of three speeds.
DEVICES = ("x86_64_avx2", "neoverse_v1", "cortex_a55")


@cache
def prices() -> Prices:
    return Prices(tuple(resolve({"device": d, "threads": 1}) for d in DEVICES), (1.0, 0.75, 2.0))


def four(*numbers: float) -> str:
    return " ".join(f"{n:.4g}" for n in numbers)


def parts_of(tried: Tried) -> Iterator[str]:
    """All that is decided of a division."""
    d = tried.division
    yield f"{d.split} {d.workers} {dict(d.sums)} {d.other} {tried.in_flight} {d.tensors}"
    for part, job in zip(d.parts, jobs_of(d), strict=True):
        size = len(part.graph.nodes())
        yield f"{part.worker} {four(part.seconds)} {part.reads} {[*part.writes]} {part.variants} {size}"
        yield f"{job.worker} {four(job.seconds)} {job.bytes_in} {job.bytes_out} {job.after} {job.bytes_added}"


def without_solver(choice: Choice) -> str:
    return choice.verdict.replace(f"; {MISSING}", "")


def line(choice: Choice) -> str:
    """A line about a choice, and a checksum of its parts."""
    found = choice.tried
    text = "\n".join(p for t in (found, *choice.others) for p in (*parts_of(t), four(t.seconds("latency"))))
    times = four(found.predicted.latency_s, found.predicted.period_s, choice.alone_s)
    taken = f"{found.division.split} {found.division.workers} | {times} | {len(choice.others)}"
    return f"{taken} | {without_solver(choice)} | {zlib.crc32(text.encode()):08x}"


def lines(name: str, links: str) -> Iterator[str]:
    run = pipeline.run(read(MADE[name]()), Context(prices().options[0]), until="compress")
    graph = run.result.graph
    plan = prices().planned(graph, 0)
    wanted: list[dict[str, Any]] = [*WANTED, *({"shard": (text,)} for text in SUMS.get(name, ()))]
    for request in wanted[[*LINKS].index(links) :: len(LINKS)]:
        told = f"{name} | {links} | {request}"
        try:
            choice = choose(graph, plan, prices(), LINKS[links], Wanted(**request))
        except EdgecError as error:
            yield f"{told} | {error.message} / {error.hint}"
            continue
        yield f"{told} | {line(choice)}"
        longer = [2 * p.seconds + 1e-3 for p in choice.division.parts]
        slower = priced(choice.division, LINKS[links], [Seconds(s, s) for s in longer])
        beside = choice.beside(slower, Wanted(**request).goal)
        yield f"{told} | measured | {beside.division.split} {beside.division.workers} | {without_solver(beside)}"


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", MADE)
def test_kept_choices(name: str, links: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ilp, "is_there", lambda: False)  # what a solver finds in its time is of the machine
    found, begin = sorted(lines(name, links)), f"{name} | {links} | "
    kept = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.is_file() else []
    if update_golden:
        others = [k for k in kept if not k.startswith(begin)]
        KEPT.write_text("\n".join(sorted([*others, *found])) + "\n", encoding="utf-8")
    else:
        assert [k for k in kept if k.startswith(begin)] == found


@pytest.mark.parametrize("split", ["auto", "pipeline", "rows", "tensor"])
@pytest.mark.parametrize("shard", [(), ("a=1",)])
@pytest.mark.parametrize("memory", [None, 64])
def test_what_was_asked_for(split: str, shard: tuple[str, ...], memory: int | None) -> None:
    """Tensors are divided although one device is quicker where they are named, or memory asks for it."""
    if shard and split in ("pipeline", "rows"):
        with pytest.raises(EdgecError, match=f"is not for --split {split}"):
            Wanted(split, shard=shard, memory=memory)
        return
    wanted = Wanted(split, shard=shard, memory=memory)
    assert wanted.is_tensor == (split in ("auto", "tensor"))
    assert wanted.is_asked == (split == "tensor" or shard != () or memory is not None)
