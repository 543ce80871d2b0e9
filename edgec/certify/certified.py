"""Certificates: bounds and verdicts for inputs near given ones, or for the cases of a property."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgec.build import Built
from edgec.certify import vnnlib
from edgec.certify.against import Difference, apart, read_box
from edgec.certify.attack import Run
from edgec.certify.bounds import Bounds
from edgec.certify.emitted import network_of, sums_in_any_order
from edgec.certify.network import Network
from edgec.certify.properties import NORMS, Case, Clause, around, no_other_class, read_number
from edgec.certify.ranges import Array
from edgec.certify.search import decide
from edgec.certify.softmax import before_softmax
from edgec.certify.spec import Spec
from edgec.certify.verdict import Verdict
from edgec.check.network import inputs_for
from edgec.device.compilers import runs_here
from edgec.errors import UsageError
from edgec.execute.executor import run_graph
from edgec.ir.types import FLOATS
from edgec.progress import Progress
from edgec.text import one_of, printable

#: Doublings of a radius that holds, and halvings of what is left between one that does and one that does not.
_DOUBLINGS, _HALVINGS = 6, 8
#: What a build is compared with: the function of real numbers that the model says.
AGAINST = ("float",)


@dataclass(frozen=True)
class OutputBounds:
    """Bounds of an output: for every input of a set, what the code computes is between ``low`` and ``high``.

    ``rounding`` is a bound of what rounding adds to one of its elements in the kernel that stores it.
    """

    name: str
    low: Array
    high: Array
    rounding: float


@dataclass(frozen=True)
class Certificate:
    """The answer for one set of inputs.

    ``label`` is the class that stays, ``radius`` the greatest distance that bounds hold for. ``differences`` are those
    from the model, where they were asked for.
    """

    verdict: Verdict
    outputs: tuple[OutputBounds, ...]
    label: int | None = None
    radius: float | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Certified:
    """All certificates of a network, and what they are about.

    ``any_order`` are the nodes whose sums of floats are counted in any order: of all others that of the code is known.
    """

    certificates: tuple[Certificate, ...]
    what: str
    replayed: bool
    kernels: int
    seconds: float
    any_order: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The part of the sets that has its property, 0 to 1."""
        return sum(c.verdict.status == "holds" for c in self.certificates) / max(1, len(self.certificates))

    @property
    def ok(self) -> bool:
        return self.share == 1.0


def certify(
    built: Built,
    inputs: str | Path | Mapping[str, Array] | None,
    eps: str | float | None,
    norm: str,
    property: str | Path | None,
    within: str | tuple[float, float] | None,
    output: str | None,
    radius: bool,
    against: str | None,
    box: str | None,
    limit: float | None,
    any_order: bool,
    seconds: float,
    seed: int,
    progress: Progress,
) -> Certified:
    """See `edgec.certify`."""
    begun = time.perf_counter()
    if box is not None:
        if inputs is not None or eps is not None or property is not None:
            hint = "leave out --inputs, --eps and --property"
            raise UsageError("a box says what its inputs are", hint=hint, where="--box")
        inputs, eps = read_box(box, "--box")
    _check_against(against, limit, property, output, radius)
    distance = _checked(inputs, eps, norm, property, seconds)
    progress("certify", "rules")
    network = network_of(built.stages.plan, built.program, built.options, any_order)
    kernels, unknown = len(built.program.kernels), sums_in_any_order(network)
    runs = built.compiler is not None and runs_here(built.options.device, built.compiler)
    if against is not None:
        assert inputs is not None
        orders = network.orders
        found_apart = apart(built, inputs, distance, norm, _limits(within), limit, orders, seconds, seed, progress)
        made = tuple(Certificate(a.verdict, (), differences=a.differences) for a in found_apart)
        what = f"difference from the model, for {_near(distance, norm)}"
        return Certified(made, what, runs, kernels, time.perf_counter() - begun, unknown)
    run: Run = built.run if runs else lambda arrays: run_graph(built.graph, arrays)
    types = {name: n.type for name, n in network.inputs.items()}
    certificates: list[Certificate] = []
    if property is not None:
        cases = vnnlib.read(property, types, {name: n.type for name, n in network.outputs.items()})
        for case in cases:
            network.until = time.perf_counter() + seconds
            found = network.bounds(case.domain(network.inputs))
            verdict = decide(network, case, run, _left(network), progress, seed, found)
            certificates.append(Certificate(verdict, output_bounds(network, found)))
            if verdict.status == "violated":
                break
        what = f"property {Path(property).name}"
        return Certified(tuple(certificates), what, runs, kernels, time.perf_counter() - begun, unknown)
    sets = inputs_for(built.graph, inputs, 1, seed)
    limits = _limits(within)
    for k, arrays in enumerate(sets):
        progress("certify", f"input {k + 1} of {len(sets)}", k / len(sets))
        clauses, label = _classes(network, run(arrays), output)
        case = around(arrays, types, distance, norm, limits, clauses)
        network.until = time.perf_counter() + seconds
        found = network.bounds(case.domain(network.inputs))
        outputs = output_bounds(network, found)
        case = replace(case, goals=before_softmax(network, case, found))
        left = _left(network)
        verdict = decide(network, case, run, left, progress, seed, found) if clauses else _finite(outputs, begun)
        network.until = time.perf_counter() + seconds
        reach = _radius(network, case, arrays, distance, norm, limits) if radius and clauses else None
        certificates.append(Certificate(verdict, outputs, label, reach))
    return Certified(tuple(certificates), _near(distance, norm), runs, kernels, time.perf_counter() - begun, unknown)


def _near(distance: float, norm: str) -> str:
    return f"inputs at most {distance:g} away ({'any element' if norm == 'inf' else 'Euclidean'})"


def _check_against(
    against: str | None, limit: float | None, property: object, output: str | None, radius: bool
) -> None:
    """Raises UsageError for what a question about differences cannot be asked together with."""
    if against not in (None, *AGAINST):
        hint = one_of(str(against), AGAINST)
        raise UsageError(f"there is no '{printable(str(against))}'", hint=hint, where="--against")
    if against is None and limit is not None:
        raise UsageError("a limit is one of differences", hint="--against float", where="--limit")
    if against is not None and (property is not None or output is not None or radius):
        raise UsageError(
            "differences are bounded for all outputs", hint="leave out --property, --output and --radius",
            where="--against",
        )  # fmt: skip
    if limit is not None and not limit >= 0:
        raise UsageError(f"{limit} is no limit", hint="give a number that is not below zero", where="--limit")


def _left(network: Network) -> float:
    """Seconds until the network's bounds stay intervals."""
    return max(0.0, network.until - time.perf_counter())


def _checked(inputs: object, eps: str | float | None, norm: str, property: object, seconds: float) -> float:
    """The distance. Raises UsageError for a question that makes no sense."""
    if norm not in NORMS:
        raise UsageError(f"there is no norm '{printable(norm)}'", hint=one_of(norm, NORMS), where="--norm")
    if not seconds >= 0:
        raise UsageError(f"{seconds} is no time", hint="give seconds", where="--seconds")
    if property is not None:
        if inputs is not None or eps is not None:
            raise UsageError(
                "a property says what its inputs are", hint="leave out --inputs and --eps", where="--property"
            )
        return 0.0
    if inputs is None or eps is None:
        hint = "give --inputs X.npz --eps 2/255, --box X.npz:2/255, or --property FILE.vnnlib"
        raise UsageError("what is to be certified is not said", hint=hint)
    return read_number(str(eps), "--eps")


def _limits(within: str | tuple[float, float] | None) -> tuple[float, float] | None:
    if within is None:
        return None
    texts = within.split(":") if isinstance(within, str) else [str(x) for x in within]
    try:
        low, high = map(float, texts)
    except ValueError:
        low, high = 1.0, 0.0
    if not low <= high:
        raise UsageError(f"'{printable(str(within))}' is no range", hint="write LOW:HIGH, as in 0:1", where="--within")
    return low, high


def _classes(
    network: Network, outputs: Mapping[str, Array], output: str | None
) -> tuple[tuple[Clause, ...], int | None]:
    """The clauses that keep the class of these outputs, and the class; none for an output of one element."""
    names = list(network.outputs)
    if output is None and len(names) > 1:
        raise UsageError(f"the network has {len(names)} outputs", hint=f"--output {names[0]}", where="--output")
    name = output if output is not None else names[0]
    if name not in network.outputs:
        hint = one_of(name, names)
        raise UsageError(f"there is no output '{printable(name)}'", hint=hint, where="--output")
    values = np.asarray(outputs[name], np.float64).reshape(-1)
    if values.size < 2:
        return (), None
    label = int(values.argmax())
    return no_other_class(name, network.outputs[name].type, label), label


def _finite(outputs: tuple[OutputBounds, ...], begun: float) -> Verdict:
    """The verdict where nothing but bounds is asked for: they hold where they are finite."""
    finite = all(np.isfinite(o.low).all() and np.isfinite(o.high).all() for o in outputs)
    why = "" if finite else "there are inputs of which nothing is known"
    return Verdict("holds" if finite else "unknown", 0.0, time.perf_counter() - begun, 1, None, why)


def output_bounds(network: Network, found: Bounds) -> tuple[OutputBounds, ...]:
    """Bounds of every output over the whole case."""
    bounds = []
    for name, n in network.outputs.items():
        seen, count = found.seen[n], int(n.type.elements)
        low, high = seen.low.reshape(-1).copy(), seen.high.reshape(-1).copy()
        if count <= 4096 and not network.is_late:
            rows = np.concatenate([np.eye(count), -np.eye(count)]).reshape(1, 2 * count, *n.type.shape)
            least, _ = network.back({n: rows}, found)
            low, high = np.fmax(low, least[0, :count]), np.fmin(high, -least[0, count:])
        low = np.where(np.isnan(low), -np.inf, low).reshape(n.type.shape)
        high = np.where(np.isnan(high), np.inf, high).reshape(n.type.shape)
        error = found.exact[n].error
        bounds.append(OutputBounds(name, low, high, float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))))
    return tuple(bounds)


def _radius(
    network: Network, case: Case, arrays: Mapping[str, Array], eps: float, norm: str, within: tuple[float, float] | None
) -> float:
    """The greatest distance that bounds alone hold for, by bisection while there is time; 0 where there is none."""
    types = {name: n.type for name, n in network.inputs.items()}
    whole = any(t.dtype not in FLOATS for t in types.values())

    def holds(distance: float) -> bool:
        near = around(arrays, types, distance, norm, within, case.clauses)
        found = network.bounds(near.domain(network.inputs))
        spec = Spec.of(before_softmax(network, near, found) or near.clauses)
        least, _ = spec.least(network, found)
        return bool(spec.margins(least).min() > 0)

    low, high = 0.0, eps if eps > 0 else 1e-3
    for _ in range(_DOUBLINGS):
        if network.is_late or not holds(high):
            break
        low, high = high, 2 * high
    else:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if network.is_late or (whole and high - low <= 1):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
