"""Inputs to check with: random ones that make sense to the network, or arrays from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgec.errors import ModelError, UsageError
from edgec.frontend import states
from edgec.ir.expr import Expr
from edgec.ir.graph import STRINGS, Graph, Node
from edgec.ir.index import least
from edgec.ir.sizes import dimensions, read_sizes, shape_at
from edgec.ir.types import DTYPES, Type, is_float
from edgec.media.folder import arrays_of
from edgec.media.way import Files, Way, data
from edgec.untrusted import read_arrays

#: Integer inputs that index nothing are drawn below this.
SMALL = 10
#: Strings of a table of constants that random ones are drawn from.
_MOST_WORDS = 1000
#: Operators whose second operand is a position along a dimension of the first.
_INDEXED = {"gather": "axis", "gather_elements": "axis", "scatter_elements": "axis"}
#: Those whose second operand has positions along several, the first ones or those behind a batch.
_INDEXED_BY_ROWS = ("gather_nd", "scatter_nd")
_NARROW = {"u8": (0, 256), "i8": (-128, 128), "u4": (0, 16), "i4": (-8, 8), "u2": (0, 4), "i2": (-2, 2)}


def random_inputs(graph: Graph, seed: int, greatest: bool = False) -> dict[str, np.ndarray]:
    """One array an input: floats from a standard normal distribution, booleans at random.

    Integers are small and not negative; those that index a table (token ids) stay inside it, and those that look
    like an attention mask are ones followed by zeros. States are as at the start. The same seed gives the same arrays.
    Sizes that are chosen at run time are the least, the greatest and any, in turns by the seed; or the ``greatest``.
    """
    random = np.random.default_rng(seed)
    limits = index_limits(graph)
    chosen: dict[Expr, int] = {}
    for size in dimensions(n.type for n in graph.inputs):
        low, high = size.value.low, size.value.high
        chosen[size] = high if greatest else (low, high, int(random.integers(low, high + 1)))[seed % 3]
    shapes = {n: shape_at(n.type.shape, chosen) for n in graph.inputs}
    drawn = {n.attributes["name"]: _draw(n, shapes[n], limits.get(n), random) for n in graph.inputs}
    texts = [name for name in drawn if STRINGS + str(name) in graph.metadata]
    known = _known_words(graph) if texts else []
    drawn |= {name: _words(drawn[name], known, random) for name in texts}
    return {**drawn, **states.initial(graph)}


def _draw(node: Node, shape: tuple[int, ...], limit: int | None, random: np.random.Generator) -> np.ndarray:
    dtype = node.type.dtype
    if is_float(dtype):
        drawn = np.asarray(random.standard_normal(shape), np.float32)
        return (np.abs(drawn) if dtype == "f8e8m0" else drawn).astype(DTYPES[dtype])
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    if limit is None and "mask" in str(node.attributes["name"]).lower():
        return _mask(shape, random).astype(DTYPES[dtype])
    low, high = (0, limit) if limit is not None else _NARROW.get(dtype, (0, SMALL))
    return np.asarray(random.integers(low, max(high, low + 1), shape), np.int64).astype(DTYPES[dtype])


def _words(rows: np.ndarray, known: Sequence[bytes], random: np.random.Generator) -> np.ndarray:
    """Strings of letters and a few signs as rows of bytes, zero behind their ends; three of four are ``known`` ones."""
    width = rows.shape[-1]
    letters = random.choice(np.frombuffer(b"abcdefgxyzABC 0123.-@_", np.uint8), rows.shape)
    lengths = random.integers(0, width + 1, (*rows.shape[:-1], 1))
    drawn = np.where(np.arange(width) < lengths, letters, 0).astype(np.uint8)
    fitting = [word.ljust(width, b"\0") for word in known if len(word) <= width]
    if not fitting:
        return drawn
    table = np.frombuffer(b"".join(fitting), np.uint8).reshape(-1, width)
    others = table[random.integers(0, len(table), rows.shape[:-1])]
    return np.where(random.random((*rows.shape[:-1], 1)) < 0.75, others, drawn)


def _known_words(graph: Graph) -> list[bytes]:
    """Strings among a graph's constants, such as the keys that an encoder knows: other strings are all one to it."""
    tables = [n.value for n in graph.nodes() if n.is_const and n.type.dtype == "u8" and n.type.rank > 1]
    rows = (row for table in tables for row in table.reshape(-1, table.shape[-1])[:_MOST_WORDS])
    return sorted({bytes(row).partition(b"\0")[0] for row in rows})


def _mask(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Rows of at least one 1, then zeros: what the mask of a padded sequence looks like."""
    if not shape:
        return np.ones((), np.int64)
    lengths = random.integers(1, max(shape[-1], 1) + 1, (*shape[:-1], 1))
    return np.asarray(np.arange(shape[-1]) < lengths, np.int64)


def index_limits(graph: Graph) -> dict[Node, int]:
    """Integer inputs that are used as positions, with the extent of the shortest dimension they index."""
    limits: dict[Node, int] = {}
    for node in graph.operations():
        if node.op in _INDEXED:
            extent = int(least(node.args[0].type.shape[node.attributes[_INDEXED[node.op]]]))
        elif node.op in _INDEXED_BY_ROWS:
            batch = node.attributes.get("batch", 0)
            depth = node.args[1].type.shape[-1]
            extent = min((int(least(n)) for n in node.args[0].type.shape[batch : batch + depth]), default=1)
        else:
            continue
        for source in _integer_sources(node.args[1]):
            limits[source] = min(extent, limits.get(source, extent))
    return limits


def _integer_sources(node: Node) -> list[Node]:
    """The inputs that ``node`` is computed from by integers alone."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        if n in seen or is_float(n.type.dtype) or n.type.dtype == "bool":
            continue
        seen.add(n)
        if n.op == "input":
            found.append(n)
        # The table of a nested gather is no position.
        stack.extend(n.args[1:2] if n.op in _INDEXED and len(n.args) == 2 else n.args)
    return found


def given_inputs(graph: Graph, path: str | Path, way: Way = Way()) -> list[dict[str, np.ndarray]]:
    """Arrays from a .npz file (named as the inputs), or a .npy file where there is one input.

    A folder of pictures or WAV files becomes samples by ``way``.

    An array with one dimension more than its input holds several samples; all inputs must then have as many.
    Raises UsageError for a file that cannot be read or does not fit.
    """
    where, source = str(path), data(path, way)
    if isinstance(source, Files):
        return samples(graph, arrays_of(source, graph), where)
    arrays = read_arrays(path, narrow=True)
    if "" in arrays:
        if len(graph.inputs) != 1:
            raise UsageError(
                f"one array is given, and the network has {len(graph.inputs)} inputs",
                hint="name them in a .npz file",
                where=where,
            )
        arrays = {str(graph.inputs[0].attributes["name"]): arrays[""]}
    return samples(graph, arrays, where)


def samples(graph: Graph, arrays: Mapping[str, np.ndarray], where: str = "inputs") -> list[dict[str, np.ndarray]]:
    """One set of inputs, or as many as the arrays hold along a first dimension of their own."""
    fitted: dict[str, np.ndarray] = {}
    counts: set[int] = set()
    remembered = states.initial(graph)
    for n in graph.inputs:
        name, wanted = str(n.attributes["name"]), np.dtype(DTYPES[n.type.dtype])
        if name in remembered:
            continue
        if name not in arrays:
            have = ", ".join(map(repr, arrays)) or "nothing"
            raise UsageError(f"input '{name}' is missing", hint=f"it holds {have}", where=where)
        array = np.asarray(arrays[name])
        if array.dtype.kind == "V" and wanted.kind == "V" and array.dtype.itemsize == wanted.itemsize:
            array = array.view(wanted)  # as numpy stores it
        if array.dtype != wanted:
            hint = f'array.astype("{np.dtype(wanted).name}") is one'
            raise UsageError(f"'{name}' is {array.dtype}, expected {np.dtype(wanted).name}", hint=hint, where=where)
        if fits(array.shape, n.type):
            array, count = array[None], 1
        elif fits(array.shape[1:], n.type):
            count = array.shape[0]
        elif n.type.rank and n.type.shape[0] == 1 and array.shape[1:] == n.type.shape[1:]:
            array, count = array[:, None], array.shape[0]  # a batch, for a network that takes one at a time
        else:
            told = f"'{name}' has shape {list(array.shape)}, expected {list(n.type.shape)}"
            raise UsageError(told, hint="a dimension before those counts samples", where=where)
        fitted[name] = array
        counts.add(count)
    if len(counts) > 1 or 0 in counts:
        raise UsageError(f"the inputs hold {sorted(counts)} samples", hint="give as many of each", where=where)
    sets = range(max(counts, default=1))
    return [{**{name: array[k] for name, array in fitted.items()}, **remembered} for k in sets]


def fits(shape: tuple[int, ...], type: Type) -> bool:
    """True if an array of this shape is one value of the type, whose dimensions may be open."""
    try:
        read_sizes("", type, shape, {})
    except ModelError:
        return False
    return True
