"""The space of variants of a product on a CPU: every decision that its schedules have as data, in all combinations.

A variant is a string (`edgec.schedule.variants`), its candidate has the record that it stands for and the cycles that
the model of the device predicts. Registers limit tiles; tiles that take several times the predicted cycles of the
cheapest one are left out. Row tiles of a task are only so many that there remain tasks to be shared out between
threads, as these are measured on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from edgec.device.device import Device
from edgec.ir.index import upper
from edgec.ir.nest import most
from edgec.rewrite.rule import Numeric
from edgec.schedule.contract.cheapest import contract, cycles_beside
from edgec.schedule.contract.contract import Contract, swept, tile_cycles
from edgec.schedule.contract.sparse import form_of, has_zeros
from edgec.schedule.contract.winograd import Winograd, cycles_of, outputs_for, winograd
from edgec.schedule.flat import Flat, Weights

#: Predicted cycles of a tile over those of the cheapest one, from which on it is left out.
HOPELESS = 2.0
#: Tasks that are left to be shared out.
TASKS = 16
#: Rounds of a loop that compilers are asked to unroll, at most.
UNROLLED = 64


@dataclass(frozen=True)
class Candidate:
    """A variant by its name, its record (weights are not packed), and predicted cycles of one thread.

    ``beside`` are those to pack panels at run time, and to store results lane by lane.
    """

    variant: str
    record: Contract | Winograd
    cycles: float
    beside: float = 0.0


def candidates(flat: Flat, device: Device, numeric: Numeric) -> list[Candidate]:
    """Every variant of a product on a CPU, the least predicted cycles first; of equal ones, the fewest words first.

    ``exact`` sums have no form of Winograd's method, and keep the order of their terms.
    """
    found: dict[str, Candidate] = {}
    plain = contract(flat, device, Weights())
    if plain is not None:
        of = [plain]
        if numeric != "exact" and device.precision == "fp32" and plain.dots is None:
            forms = [("swapped",)] if plain.l_mode == "packed" else [("swapped",), ("gathered",), ("scattered",)]
            others = (contract(replace(flat, decided=words), device, Weights()) for words in forms)
            of += [c for c in others if c is not None and _lies(c) != _lies(plain)]
        for c in of:
            found |= {each.variant: each for each in _tiled(c, device) if each.variant not in found}
        if has_zeros(flat) and (form := form_of(plain)) is not None:
            for cycles, r, v in form.tiles(device):
                name = f"sparse {r}x{v}"
                found[name] = Candidate(name, replace(plain, rows=r, vectors=v), cycles)
    for outputs in dict.fromkeys(outputs_for(flat, device)) if numeric != "exact" else ():
        record = winograd(flat, device, Weights(), outputs)
        if record is not None:
            found.setdefault(record.variant, Candidate(record.variant, record, cycles_of(record, device)))
    return sorted(found.values(), key=lambda c: (c.cycles, c.variant.count(" "), c.variant))


def _lies(c: Contract) -> tuple[object, ...]:
    """The facts that tell the forms of a product apart: the factor that gives the lanes, and how it is had."""
    return c.l, c.l_mode


def _tiled(c: Contract, device: Device) -> Iterator[Candidate]:
    """A contraction in all its tiles, each with all other decisions."""
    tiles = tile_cycles(c, device)
    around, least = prod(map(most, c.outer)), min(tiles.values())
    for (rows, vectors), cycles in tiles.items():
        if cycles > HOPELESS * least:
            continue
        usual = swept(replace(c, rows=rows, vectors=vectors), device)
        beside = cycles_beside(usual)
        for words in product(_chunks(usual), _orders(usual), _unrolls(usual)):
            decided = (*c.decided, *(w for w in words if w))
            record = _decided(replace(usual, decided=decided), *words)
            yield Candidate(str(record.variant), record, around * cycles + beside, beside)


def _chunks(c: Contract) -> list[str]:
    """Row tiles of a task: the usual ones, a quarter, and four times as many."""
    tiles, around = upper(c.tiles), prod(map(most, c.outer)) * upper(c.panels)
    least = min(TASKS, -(-tiles // c.tile_chunk) * around)
    others = dict.fromkeys((max(1, c.tile_chunk // 4), min(tiles, c.tile_chunk * 4)))
    return ["", *(f"chunk{n}" for n in others if n != c.tile_chunk and -(-tiles // n) * around >= least)]


def _orders(c: Contract) -> list[str]:
    """The usual order of panels and row tiles, and the other one, where both are loops."""
    is_one = upper(c.panels) == 1 or upper(c.tiles) == 1
    return ["", *([] if is_one or c.l_mode == "gathered" else ["rows" if c.panel_first else "panels"])]


def _unrolls(c: Contract) -> list[str]:
    """Unrolled or not, as far as compilers are asked at all."""
    if not c.k or c.dots is not None or c.fp16 is not None or c.micro.order is not None:
        return [""]
    rounds = most(c.k[-1])
    if rounds == 1 or rounds > UNROLLED:
        return [""]
    return ["", "unroll1" if rounds <= c.unrolled else f"unroll{rounds}"]


def _decided(c: Contract, chunk: str, order: str, unroll: str) -> Contract:
    """The record with what words say."""
    return replace(
        c,
        tile_chunk=int(chunk.removeprefix("chunk")) if chunk else c.tile_chunk,
        panel_first=order == "panels" if order else c.panel_first,
        unrolled=int(unroll.removeprefix("unroll")) if unroll else c.unrolled,
    )
