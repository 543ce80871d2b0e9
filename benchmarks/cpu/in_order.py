"""Cycles of a loop on Cortex-A53 and A55, by rules that were measured on such cores.

llvm-mca's models of the two leave out what limits sums of products there, that vectors of 128 bits go through units and
a way to memory of 64, and have A53 wait with a load until the multiply-add before it is written. The rules here are
those that authors of kernels by hand found (ncnn, docs/developer-guide/arm-a53-a55-dual-issue.md; onnxruntime's pull
request 10754). They say nothing of latencies: those here are of LLVM's model of Cortex-A55 (AArch64SchedA55.td),
rounded to one number a kind, and taken for A53 as well; Arm's own guide was not at hand:

* two instructions start in a cycle, in their order; each waits for what it reads, and all behind it wait too;
* one of them is a multiply-add, or other arithmetic, of 128 bits;
* a vector load of 128 bits takes two cycles with nothing beside it;
* a vector load of 64 bits starts beside arithmetic on A55, on A53 beside an insert or an integer instruction alone;
* an insert starts beside arithmetic on A55 alone; loads of integers, sums of addresses and branches everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Cycles until a result can be read.
LATENCY = {"arithmetic": 4, "wide load": 5, "vector load": 4, "load": 3, "insert": 2, "integer": 1}
#: What does not start beside one another, for lack of a unit.
_EVERYWHERE = {("arithmetic", "arithmetic"), ("load", "load"), ("load", "vector load"), ("vector load", "vector load")}
APART = {
    "cortex-a55": _EVERYWHERE,
    "cortex-a53": _EVERYWHERE | {("arithmetic", "vector load"), ("arithmetic", "insert"), ("insert", "insert")},
}
_REGISTER = re.compile(r"\b(?:([xw])|[vqdshb])(\d+)\b|\bsp\b")
#: Arithmetic whose result is also an operand.
_ADDS_UP = re.compile(r"fml[as]|[su]dot|usdot|sudot|[su]?ml[as]|[su]mlal|[su]adalp|ins$|bs[ml]mla")


def kind(name: str, operands: str) -> str:
    if name.startswith("ld"):
        if operands[0] not in "qdshb{v":
            return "load"
        return "wide load" if operands[0] == "q" else "vector load"
    if name.startswith("prfm"):
        return "load"
    if name in ("ins", "fmov"):
        return "insert"
    return "arithmetic" if re.search(r"\bv\d+\.", operands) else "integer"


def registers(text: str) -> list[str]:
    return [f"{'x' if m[1] else 'v'}{m[2]}" if m[2] else "sp" for m in _REGISTER.finditer(text)]


def effect(line: str) -> tuple[str, set[str], set[str]]:
    """(kind, registers it reads, registers it writes); flags are one register."""
    name, _, operands = line.strip().replace("\t", " ").partition(" ")
    found = registers(operands)
    if name in ("cmp", "cmn", "tst"):
        return "integer", set(found), {"flags"}
    if name.startswith(("b", "cb", "tb")) and "." not in operands.replace(".L", ""):
        return "integer", {*found, "flags"}, set()
    if name.startswith(("prfm", "st")):
        return kind(name, operands), set(found), set()
    count = 2 if name == "ldp" else len(registers(operands.partition("}")[0])) if operands.startswith("{") else 1
    written, read = set(found[:count]), set(found[count:])
    if _ADDS_UP.match(name):
        read |= written
    if re.search(r"\]!|\], ", operands):  # the address is counted on
        written |= set(found[count : count + 1])
    return kind(name, operands), read, written


def cycles(body: Sequence[str], core: str, rounds: int = 100) -> float:
    """Cycles of one round of a loop."""
    apart = APART[core]
    ready: dict[str, int] = {}
    now, started = 0, list[str]()
    for what, read, written in [*map(effect, body)] * rounds:
        start = max([now, *(ready.get(r, 0) for r in read)])
        fits = start == now and len(started) < 2 and not any({(what, a), (a, what)} & apart for a in started)
        if started and (not fits or what == "wide load"):
            start = max(start, now + 1)
        if start > now:
            now, started = start, []
        started.append(what)
        busy = 2 * sum(r.startswith("v") for r in written) if what == "wide load" else 0
        ready |= dict.fromkeys(written, now + LATENCY[what] + max(0, busy - 2))
        if busy:
            now, started = now + busy, []
    return now / rounds
