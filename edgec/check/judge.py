"""The verdict on outputs beside a reference: by groups of channels, and by the rounding of the network.

One number for a whole output is too soft where its channels have different units: boxes of 640 pixels hide scores that
are off by 0.03. So every index along an axis is held against the largest value there. And it is too hard where the
network amplifies rounding: then a difference may be as large as that of its graph in floats from double precision, or
as that of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isfinite

import numpy as np

from edgec.check.compare import Difference, compare, compare_all
from edgec.check.decisions import is_near_tie
from edgec.check.float64 import exact_results
from edgec.check.narrow import Narrow
from edgec.errors import EdgecError
from edgec.execute.executor import run_graph
from edgec.frontend.language.facts import facts_of
from edgec.frontend.states import states
from edgec.ir.graph import Graph

Arrays = Mapping[str, np.ndarray]
#: Indices along an axis that are groups: more of them are positions rather than kinds of values.
MOST_GROUPS = 512
#: Values that a group has at least: a single one may be near zero by cancellation.
LEAST_VALUES = 4
#: Part of the tolerance on the largest value of all that a group may always be off by, in fp32 and in narrower types,
#: whose rounding of large terms reaches small results.
FLOOR, NARROW_FLOOR, NARROW = 0.01, 0.25, 1e-3
#: Multiple of that distance that passes: for other orders of summation on two sides, and Winograd's transforms; of a
#: network that itself rounds to 16 bits; of one whose every value is rounded to them, where kernels round fewer.
SLACK, OTHER_SLACK, NARROW_SLACK = 8.0, 2.0, 4.0
#: Part of the elements of a quantized output that may be one step off, and multiple of those that rounding moves. The
#: lesser part is for networks whose reference is the formulas exactly, as integer arithmetic is.
STEPPED, FEW, STEPPED_SLACK = 0.05, 0.01, 4.0
#: What a language model remembers may be this many times farther off than its logits: one token with a huge activation
#: takes all further layers along, and logits of later tokens show what is wrong with it.
REMEMBERED_SLACK = 2.0
#: Differences beyond this are no rounding; of a network that rounds to 16 bits, beyond this multiple of the tolerance.
MOST_ROUNDING, OTHER_ROUNDING = 1e-2, 4.0
#: Multiple of the reference's own distance from double precision that passes, and of the greatest that rounding makes
#: which that distance may be itself: what is farther is no rounding, but another function.
REFERENCE_SLACK, RANDOM_SLACK = 2.0, 8.0
#: Beginning of the excuse of an output whose reference is too far from double precision to prove anything.
UNSURE = "no proof: the reference itself is"


@dataclass(frozen=True)
class OwnError:
    """Results in double precision, the reference's, and others that differ from double precision by rounding alone."""

    exact: Arrays
    reference: Arrays
    rounded: tuple[Arrays, ...]


@dataclass
class Judge:
    """Compares results of one network with its reference.

    ``graph`` is the imported one, ``tolerance`` relative, ``mismatch_tolerance`` the part of integers that may differ,
    ``steps`` those of quantized outputs by name, ``narrow`` the 16 bits that the build rounds to, if it does.
    ``is_usual`` is false where the user gave the tolerance: then it bounds the largest difference of an output, and
    nothing else. ``own_error`` finds that of the reference's results (the second) for inputs; None where it cannot.
    ``plain`` is the reference without its optimizations: what agrees with it is right, whatever those change.
    """

    graph: Graph
    tolerance: float
    mismatch_tolerance: float = 0.0
    steps: Mapping[str, float] = field(default_factory=dict)
    is_usual: bool = True
    narrow: Narrow | None = None
    own_error: Callable[[Arrays, Arrays], OwnError | None] | None = None
    plain: Callable[[Arrays], Arrays] | None = None
    #: Of the inputs that were asked for last: distances of floats from double precision, and in the narrow type.
    _rounding: dict[bool, tuple[Arrays, dict[str, tuple[float, float]]]] = field(default_factory=dict)
    _known: tuple[Arrays, OwnError | None] | None = None

    def differences(self, got: Arrays, want: Arrays, inputs: Arrays) -> tuple[Difference, ...]:
        """Every output beside its reference; ``inputs`` are those that both had."""
        found = []
        for d in compare_all(got, want, self.steps):
            if self.is_usual and d.quantized and d.name in got and not d.note:
                d = self._counted(d, got[d.name], want[d.name], inputs)
            elif self.is_usual and d.mismatches is None and not d.note and not d.quantized and want[d.name].size:
                group, relative = self._worst_group(got[d.name], want[d.name])
                d = replace(d, group=group, group_rel=relative)
                if not d.within(self.tolerance):
                    d = self._excused(d, inputs)
            elif self.is_usual and d.mismatches and not d.note and not self.within(d):
                d = self._decided(d, got[d.name], want[d.name], inputs)
            rounds = d.quantized or (d.mismatches is None and want[d.name].dtype == np.float32)
            if self.is_usual and self.narrow is None and rounds and isfinite(d.max_rel) and not self.within(d):
                d = self._as_reference(d, got[d.name], want, inputs)
            found.append(d)
        if self.plain is not None and not all(map(self.within, found)):
            found = self._beside_plain(found, got, self.plain(inputs), inputs)
        return tuple(found)

    def _beside_plain(self, found: list[Difference], got: Arrays, want: Arrays, inputs: Arrays) -> list[Difference]:
        """The same differences, excused where the reference without its optimizations gives what was computed."""
        alone = replace(self, plain=None, _known=None)
        passed = {d.name for d in alone.differences(got, want, inputs) if alone.within(d)}
        why = "the reference's own optimizations change it, and without them it is this"
        return [replace(d, excused=why) if not self.within(d) and d.name in passed else d for d in found]

    def _as_reference(self, d: Difference, got: np.ndarray, want: Arrays, inputs: Arrays) -> Difference:
        """The same difference, excused where the results are as near double precision as the reference's are."""
        own = self._reference_error(inputs, want)
        if own is None or self.tolerance > NARROW:
            return d
        exact, always = own.exact[d.name], self._always(d, own.exact[d.name])
        off, far = self._distance(got, exact, d), self._distance(own.reference[d.name], exact, d)
        by_rounding = tuple(map(max, zip(*(self._distance(o[d.name], exact, d) for o in own.rounded))))
        theirs = tuple(map(max, far, by_rounding))
        if not all(map(isfinite, (*off, *theirs))):
            return d
        if any(a > max(least, RANDOM_SLACK * b) for a, b, least in zip(far, by_rounding, always)):
            return d
        if any(a > max(least, REFERENCE_SLACK * b) for a, b, least in zip(off, theirs, always)):
            return d
        said = f"{theirs[1]:.0f} steps" if d.quantized else f"{max(theirs):.1e}"
        proves = theirs[0] <= (STEPPED * exact.size if d.quantized else MOST_ROUNDING)
        word = "the reference itself is" if proves else UNSURE
        return replace(d, excused=f"{word} {said} from double precision")

    def _distance(self, value: np.ndarray, exact: np.ndarray, d: Difference) -> tuple[float, float]:
        """Of rounded numbers those off, and by how many steps; else the largest difference of all, and of a group."""
        if d.quantized:
            far = float(np.abs(value.astype(np.float64) - exact.astype(np.float64)).max(initial=0.0))
            return float(_steps_off(value, exact, d.step)), far / (d.step or 1.0)
        found = compare(d.name, value.astype(np.float64), exact.astype(np.float64))
        return found.max_rel, self._worst_group(value, exact)[1]

    def _always(self, d: Difference, exact: np.ndarray) -> tuple[float, float]:
        return (max(1.0, FEW * exact.size), 1.0 + self.tolerance) if d.quantized else (self.tolerance, self.tolerance)

    def _reference_error(self, inputs: Arrays, want: Arrays) -> OwnError | None:
        if self._known is None or self._known[0] is not inputs:
            try:
                found = self.own_error(inputs, want) if self.own_error is not None else None
            except (EdgecError, MemoryError):
                found = None
            self._known = (inputs, found)
        return self._known[1]

    def _counted(self, d: Difference, got: np.ndarray, want: np.ndarray, inputs: Arrays) -> Difference:
        """The same difference of rounded numbers, with a note where many are a step off and rounding moves fewer.

        No reason to complain is a reference that is as far from the formulas of the graph itself.
        """
        off, few, most = _steps_off(got, want, d.step), max(1.0, FEW * want.size), max(1.0, STEPPED * want.size)
        if self.narrow is not None and (off > few or d.max_abs > d.step * (1 + self.tolerance)):
            return self._counted_narrow(d, off, self.narrow, inputs)
        if off <= few or d.max_abs > d.step * (1 + self.tolerance):
            return d
        try:
            floats = run_graph(self.graph, inputs)[d.name]
            moved = _steps_off(floats, exact_results(self.graph, inputs)[d.name], d.step)
        except (EdgecError, MemoryError):
            return d
        if off <= STEPPED_SLACK * moved or _steps_off(got, floats, d.step) <= few:
            return d
        if min(off, _steps_off(got, floats, d.step)) <= most and _steps_off(floats, want, d.step):
            return d  # so much is usual where the reference itself rounds otherwise than the formulas
        return replace(d, note=f"{off} of {want.size} are a step off")

    def _counted_narrow(self, d: Difference, off: int, narrow: Narrow, inputs: Arrays) -> Difference:
        """The same difference of rounded numbers, excused where rounding to 16 bits moves as many as far."""
        try:
            rounded = run_graph(narrow.rounded(self.graph), inputs)[d.name]
            exact = exact_results(self.graph, inputs)[d.name]
        except (EdgecError, MemoryError):
            return d
        moved = _steps_off(rounded, exact, d.step)
        far = float(np.abs(rounded.astype(np.float64) - exact.astype(np.float64)).max(initial=0.0))
        if off <= OTHER_SLACK * moved and d.max_abs <= OTHER_SLACK * max(far, d.step):
            return replace(d, excused=f"rounding to {narrow.dtype} moves {moved} of {exact.size} by a step or more")
        return replace(d, note=f"{off} of {exact.size} are a step off")

    def _most(self, inputs: Arrays, name: str) -> float:
        """By what a network that rounds to 16 bits may be off at most; more, where a step of a quantizer is more."""
        assert self.narrow is not None
        if not any(n.op == "round" for n in self.graph.operations()):
            return self.narrow.most
        stepped, plain = (run_graph(g, inputs)[name] for g in (self.narrow.before_steps(self.graph), self.graph))
        return max(self.narrow.most, NARROW_SLACK * compare(name, stepped, plain).max_rel)

    def within(self, difference: Difference) -> bool:
        """True for an output that passes."""
        return difference.within(self.tolerance, self.mismatch_tolerance)

    def _worst_group(self, got: np.ndarray, want: np.ndarray, part: float = 1.0) -> tuple[str, float]:
        """The group that is farthest off relative to its own largest value, as an index expression, and by how much.

        Groups that are off by less than ``part`` of what any may be off by do not count.
        """
        far, large = _magnitudes(got, want)
        floor = (
            part * (NARROW_FLOOR if self.tolerance > NARROW else FLOOR) * self.tolerance * float(large.max(initial=0.0))
        )
        worst = ("", 0.0)
        for axis, extent in enumerate(want.shape):
            if not 2 <= extent <= MOST_GROUPS or want.size // extent < LEAST_VALUES:
                continue
            others = tuple(a for a in range(want.ndim) if a != axis)
            off, scale = far.max(axis=others), large.max(axis=others)
            relative = np.where(off <= floor, 0.0, off / np.where(scale > 0, scale, 1.0))
            k = int(relative.argmax())
            if relative[k] > worst[1]:
                worst = (f"[{', '.join(str(k) if a == axis else ':' for a in range(want.ndim))}]", float(relative[k]))
        return worst

    def _excused(self, d: Difference, inputs: Arrays) -> Difference:
        """The same difference with a reason to pass it, where rounding alone makes such differences in this network."""
        if self.narrow is not None:
            own = self._own_rounding(inputs, narrow=True).get(d.name)
            if own is None:
                if max(d.max_rel, d.group_rel) <= self.narrow.most:
                    return replace(d, excused="this network has no meaning in double precision")
            elif d.max_rel <= min(NARROW_SLACK * own[0], self._most(inputs, d.name)) and d.group_rel <= max(
                self.tolerance, NARROW_SLACK * own[1]
            ):
                return replace(d, excused=f"rounding to {self.narrow.dtype} is {max(own):.1e} in this network")
            elif self.narrow.most < d.max_rel <= NARROW_SLACK * own[0]:
                d = replace(d, note=f"rounding to {self.narrow.dtype} alone is {own[0]:.1e}, too much for these inputs")
        slack, most = SLACK, MOST_ROUNDING
        if self.tolerance > NARROW:
            slack, most = (
                OTHER_SLACK,
                OTHER_ROUNDING * (self.narrow.most if self.narrow is not None else self.tolerance),
            )
            if d.name in self._remembered:
                slack, most = REMEMBERED_SLACK * slack, REMEMBERED_SLACK * most
        own = self._own_rounding(inputs).get(d.name)
        # A group that holds nothing but rounding (a component that explains nothing) may be off by all of it.
        if own is None or d.group_rel > max(self.tolerance, slack * own[1]):
            return d
        if d.max_rel > max(self.tolerance, min(slack * own[0], most)):
            return d
        return replace(d, excused=f"floats are {max(own):.1e} from double precision in this network")

    def _decided(self, d: Difference, got: np.ndarray, want: np.ndarray, inputs: Arrays) -> Difference:
        """The same difference of decisions, excused where all of them are between scores that round to either side."""
        try:
            if is_near_tie(self.graph, d.name, got, want, inputs, partial(self._may_be_off, inputs)):
                return replace(d, excused="scores are nearer each other there than they may be off")
        except (EdgecError, MemoryError):
            pass
        return d

    def _may_be_off(self, inputs: Arrays, scores: Graph, name: str) -> float:
        """The part of its largest value that an output of ``scores``, a graph of the same inputs, passes with."""
        judge = replace(self, graph=scores, _rounding={}, _known=None)
        own = judge._own_rounding(inputs, narrow=self.narrow is not None).get(name)
        if own is None:
            return self.tolerance
        if self.narrow is not None:
            return max(self.tolerance, min(NARROW_SLACK * own[0], self.narrow.most))
        return max(self.tolerance, min(SLACK * own[0], MOST_ROUNDING))

    @cached_property
    def _remembered(self) -> frozenset[str]:
        """Outputs that renew the caches of a language model."""
        return frozenset(s.output for s in states(self.graph)) if facts_of(self.graph) is not None else frozenset()

    def _own_rounding(self, inputs: Arrays, narrow: bool = False) -> dict[str, tuple[float, float]]:
        """Distance of the graph in floats from the graph in double precision, by output: of all, and of a group."""
        known = self._rounding.get(narrow)
        if known is None or known[0] is not inputs:
            graph = self.narrow.rounded(self.graph) if narrow and self.narrow is not None else self.graph
            found = {}
            part = 1 / OTHER_SLACK if self.tolerance > NARROW else 1.0  # times the slack, these are off by too much
            for name, (value, exact) in in_both_precisions(graph, inputs).items():
                d = compare(name, value.astype(np.float64), exact)
                found[name] = (d.max_rel, self._worst_group(value, exact, part)[1])
            self._rounding[narrow] = known = (inputs, found)
        return known[1]


def in_both_precisions(graph: Graph, inputs: Arrays) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Outputs of floats, as the graph rounds them and in double precision; none where that has no meaning."""
    try:
        exact = exact_results(graph, inputs)
        floats = run_graph(graph, inputs)
    except (EdgecError, MemoryError):
        return {}
    return {n: (v, exact[n]) for n, v in floats.items() if v.dtype in (np.float32, np.float16) and v.size}


def _steps_off(got: np.ndarray, want: np.ndarray, step: float) -> int:
    """Number of elements that are more than half a step apart."""
    return int(np.count_nonzero(np.abs(got.astype(np.float64) - want.astype(np.float64)) > step / 2))


def _magnitudes(got: np.ndarray, want: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Absolute differences and values in double precision; what is not finite on both sides counts as 0."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        return np.where(finite, np.abs(a - b), 0.0), np.where(finite, np.abs(b), 0.0)


def says_nothing(results: list[np.ndarray]) -> str:
    """The reason why equal results of several samples prove little about a network; empty where they do prove it."""
    first = results[0]
    if all(not r.size for r in results):
        return "has no element"
    if first.dtype.kind in "iub" and len(results) > 1 and all(np.array_equal(r, first) for r in results):
        return "is the same in every sample: a decision that these inputs do not change"
    if first.dtype.kind not in "f":
        return ""
    if all(np.isnan(r).all() for r in results):
        return "is not a number anywhere"
    if all(not np.isfinite(r).any() for r in results):
        return "is infinite everywhere"
    values = np.concatenate([r[np.isfinite(r)].reshape(-1) for r in results]).astype(np.float64)
    if values.size > 1 and not np.ptp(values):
        return f"is {values[0]:.4g} everywhere"
    ends = (np.abs(values) < 1e-6) | (np.abs(values - 1.0) < 1e-6)
    if values.size >= LEAST_VALUES and ends.all() and values.max() > 0.5:  # numbers that are small are no ends
        return "is 0 or 1 everywhere: its last function is saturated"
    return ""
