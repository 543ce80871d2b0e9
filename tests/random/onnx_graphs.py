"""Random ONNX models: every node is one that onnxruntime accepts, on operands that are at hand or new.

An operator's recipe (``onnx_recipes``) draws its attributes and operands with the help of a ``Maker``; the node is run
at once, so shapes, types and values of everything are known while the rest of the model is drawn. Draws come from
numbered streams of numpy: model k is the same however many are drawn, every operator comes up as often as any other,
and what fails is made smaller as a model (``onnx_stages.smallest``), where every step is one that onnxruntime accepts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
from onnx import AttributeProto, defs, helper
from onnx_drawn import Drawn
from onnx_reference import Rejected, Step, Tensor, Walk, leaf

MOST = 12  # nodes
ELEMENTS = 2000
TRIES = 12  # of an operator by itself
OPSETS = (9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21, 21, 23, 24, 26)
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
FLOAT = ("float32",) * 8 + ("float64", "float16")
INTEGER = ("int64", "int32", "int64", "int32", "uint8", "int8")
NUMBER = FLOAT + INTEGER[:4]
ANY = (*NUMBER, "uint8", "int8", "bool")
Recipe = Callable[["Maker", str], object]

#: How operators are drawn, by (domain, name).
RECIPES: dict[tuple[str, str], Recipe] = {}
#: Those that work on operands whose size the data decides.
_LOOSE: set[tuple[str, str]] = set()
#: What became of the nodes that were drawn, for the report.
DRAWN: Counter[tuple[str, str]] = Counter()
REJECTED: dict[tuple[str, str], Counter[str]] = {}


def recipe(*operators: str, domain: str = "", loose: bool = False) -> Callable[[Recipe], Recipe]:
    def register(made: Recipe) -> Recipe:
        RECIPES.update(((domain, o), made) for o in operators)
        if loose:
            _LOOSE.update((domain, o) for o in operators)
        return made

    return register


class Maker:
    """Draws one model; recipes ask it for operands and give it nodes."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.opset = self.pick(OPSETS)
        self.recipes = _available(self.opset)
        self.extents = (0, *EXTENTS) if self.chance(5) else EXTENTS
        self.walk = Walk(self.opset)
        self.steps: list[Step] = []
        self.results: list[Tensor] = []
        self.leaves: dict[str, Tensor] = {}
        self.loose = False
        self.domain = ""

    # ---- drawing

    def pick(self, choices: Iterable[Any]) -> Any:
        known = list(choices)
        return known[self.random.integers(len(known))]

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def chance(self, one_in: int) -> bool:
        return self.number(1, one_in) == 1

    def shape(self, rank: int, least: int = 0) -> tuple[int, ...]:
        result: list[int] = []
        for _ in range(rank):
            room = ELEMENTS // max(1, prod(result))
            result.append(self.pick([e for e in self.extents if least <= e <= room] or [max(1, least)]))
        return tuple(result)

    def since(self, operator: str) -> int:
        """The version of an operator that counts in this model's operator set."""
        return int(defs.get_schema(operator, self.opset, self.domain).since_version)

    # ---- operands

    def leaf(self, array: np.ndarray, constant: bool | None = None) -> Tensor:
        """A new input or constant."""
        made = leaf(f"x{len(self.leaves)}", np.asarray(array), self.chance(2) if constant is None else constant)
        self.leaves[made.name] = self.walk.tensors[made.name] = made
        return made

    def constant(self, array: object, dtype: str | None = None) -> Tensor:
        return self.leaf(np.asarray(array, dtype), True)

    def ints(self, values: Sequence[int]) -> Tensor:
        return self.leaf(np.asarray(values, np.int64).reshape(len(values)), True)

    def values(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Random elements: floats normal or small whole numbers (with equal ones among them), integers small."""
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.startswith("float"):
            whole = self.chance(4)
            return (self.random.integers(-3, 4, shape) if whole else self.random.standard_normal(shape)).astype(dtype)
        return self.random.integers(0 if dtype[0] == "u" else -5, 10, shape).astype(dtype)

    def new(self, shape: Sequence[int], dtype: str = "float32", constant: bool | None = None) -> Tensor:
        return self.leaf(self.values(shape, dtype), constant)

    def positive(self, shape: Sequence[int], dtype: str = "float32", constant: bool | None = None) -> Tensor:
        return self.leaf((np.abs(self.values(shape, dtype)) + 0.5).astype(dtype), constant)

    def uniform(self, low: int, high: int, shape: Sequence[int], dtype: str, constant: bool | None = None) -> Tensor:
        """Integers from ``low`` up to but without ``high``."""
        return self.leaf(self.random.integers(low, high, shape).astype(dtype), constant)

    def operand(self, dtypes: Sequence[str] = FLOAT, rank: Iterable[int] = range(6), least: int = 0) -> Tensor:
        """An earlier value, most often the last, brought to a fitting rank; or a new leaf.

        ``least`` is the least extent of every dimension.
        """
        ranks = list(rank)
        fits = [t for t in self.results if t.dtype in dtypes and t.is_usable and (self.loose or not t.is_sized)]
        fits = [t for t in fits if min(t.shape, default=least) >= least or not least]
        if fits and not self.chance(7):
            x = fits[-1] if self.chance(2) else self.pick(fits)
            if x.rank in ranks:
                return x
            if not x.is_sized:
                return self.reshaped(x, self.pick(ranks))
        return self.new(self.shape(self.pick(ranks), least), self.pick(dtypes))

    def reshaped(self, x: Tensor, rank: int) -> Tensor:
        """``x`` with dimensions merged or ones inserted, by a node of its own."""
        shape = list(x.shape)
        while len(shape) > rank:
            k = self.number(0, max(0, len(shape) - 2))
            shape[k : k + 2] = [prod(shape[k : k + 2])]
            if len(shape) == 1 and rank == 0:
                return self.new((), x.dtype) if x.array.size != 1 else self.reshape(x, ())
        while len(shape) < rank:
            shape.insert(self.number(0, len(shape)), 1)
        return self.reshape(x, shape)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshape that copies unchanged extents, so that open dimensions pass through."""
        spoken = [0 if k < x.rank and x.shape[k] == e else int(e) for k, e in enumerate(shape)]
        if x.array.size and 0 not in shape and self.chance(2):
            rest = [k for k, e in enumerate(spoken) if e > 0]
            if rest:
                spoken[rest[0]] = -1
        return self.node("Reshape", x, self.ints(spoken), keeps=True, domain="")[0]

    def partner(self, x: Tensor) -> Tensor:
        """An operand that broadcasts with ``x``: computed before, or new."""
        fits = [t for t in self.results if t.dtype == x.dtype and t.is_usable and _broadcasts(x, t)]
        fits = [t for t in fits if t.is_sized == x.is_sized]
        if fits and self.chance(2):
            return self.pick(fits)
        if x.is_sized:
            return self.new((), x.dtype)
        shape = [1 if self.chance(4) else e for e in x.shape]
        cut = self.number(0, len(shape)) if self.chance(3) else 0
        extra = self.shape(1) if not cut and x.rank < 5 and x.array.size < 100 and self.chance(6) else ()
        return self.new((*extra, *shape[cut:]), x.dtype)

    def like(self, shape: Sequence[int], dtype: str = "float32", constant: bool | None = None) -> Tensor:
        """An operand of just this shape."""
        fits = [t for t in self.results if t.shape == tuple(shape) and t.dtype == dtype and t.is_usable]
        fits = [t for t in fits if not t.is_sized]
        return self.pick(fits) if fits and not constant and self.chance(2) else self.new(shape, dtype, constant)

    def axis(self, x: Tensor) -> int:
        """Any dimension, counted from either end."""
        if not x.rank:
            raise Rejected("no dimension")
        return self.number(-x.rank, x.rank - 1)

    # ---- nodes

    def node(
        self, operator: str, *operands: Tensor | None, outputs: int | Sequence[bool] = 1, keeps: bool = False,
        steps: int = 0, sizes: bool = False, domain: str | None = None, **attributes: Any,
    ) -> list[Tensor]:  # fmt: skip
        """Add a node, if it makes sense. ``outputs``: how many, or which of them are asked for."""
        wanted = [True] * outputs if isinstance(outputs, int) else outputs
        first = sum(len(s.node.output) for s in self.steps)
        names = [f"t{first + k}" if w else "" for k, w in enumerate(wanted)]
        given = [t.name if t is not None else "" for t in operands]
        while given and not given[-1]:
            given.pop()
        used = self.domain if domain is None else domain
        made = helper.make_node(operator, given, names, f"n{len(self.steps)}", domain=used)
        for key, value in attributes.items():
            kind = AttributeProto.INTS if value == [] else None
            made.attribute.append(helper.make_attribute(key, value, attr_type=kind))
        step = Step(made, keeps, steps, sizes)
        results = self.walk.take(step)
        for t in results:
            if t.array.size > 4 * ELEMENTS:
                raise Rejected("large")
        self.steps.append(step)
        self.results += results
        return results

    def step(self, key: tuple[str, str] | None = None) -> None:
        """One operator, any or that of a key; nothing is added where its recipe comes to no node that makes sense."""
        key = key or self.pick(self.recipes)
        self.domain, self.loose = key[0], key in _LOOSE
        try:
            RECIPES[key](self, key[1])
            DRAWN[key] += 1
        except Rejected as why:
            REJECTED.setdefault(key, Counter())[str(why)] += 1

    def finish(self) -> Drawn:
        read = {n for s in self.steps for n in s.node.input}
        outputs = [t.name for t in self.results if t.name not in read or self.chance(12)]
        whole = Drawn(self.opset, tuple(self.steps), self.leaves, self.walk.tensors, tuple(outputs))
        return self.opened(whole.part(outputs)) if self.chance(3) else whole.part(outputs)

    def opened(self, drawn: Drawn) -> Drawn:
        """The same with a dimension that the caller chooses, if the model allows another size of it."""
        extents = sorted({e for a in drawn.feeds.values() for e in a.shape if e > 1})
        if not extents:
            return drawn
        feeds = drawn.feeds.items()
        for extent in (int(e) for e in self.random.permutation(extents)[:4]):
            places = [(n, d) for n, a in feeds for d, e in enumerate(a.shape) if e == extent]
            other = extent + self.pick((-1, 1, 4))
            low, high = sorted((extent, other))
            for chosen in (places, [p for p in places if p[1] == 0], [self.pick(places)]):
                made = Drawn(
                    drawn.opset, drawn.steps, drawn.leaves, drawn.tensors, drawn.outputs,
                    dict.fromkeys(chosen, "n"), {"n": (max(1, low - self.number(0, 1)), high + 1, 1)},
                )  # fmt: skip
                try:
                    made.at({"n": other}, 1)
                    return made
                except Rejected:
                    continue
        return drawn


def _broadcasts(x: Tensor, y: Tensor) -> bool:
    try:
        return prod(np.broadcast_shapes(x.shape, y.shape)) <= ELEMENTS
    except ValueError:
        return False


@cache
def _available(opset: int) -> tuple[tuple[str, str], ...]:
    """The operators of an operator set that have a recipe."""
    return tuple(key for key in sorted(RECIPES) if _is_in(opset, *key))


def _is_in(opset: int, domain: str, operator: str) -> bool:
    if domain or not defs.has(operator):  # of onnxruntime alone
        return True
    try:
        return not defs.get_schema(operator, opset).deprecated
    except defs.SchemaError:
        return False


def drawn(seed: int, number: int) -> Drawn:
    """Model ``number`` of the endless row that ``seed`` begins."""
    random = np.random.default_rng([seed, number])
    while True:
        maker = Maker(random)
        wanted = maker.number(3, MOST)
        for _ in range(4 * MOST):
            if len(maker.steps) >= wanted:
                break
            maker.step()
        if 3 <= len(maker.steps) <= MOST:
            return maker.finish()


def alone(key: tuple[str, str], number: int) -> Drawn | None:
    """Model ``number`` of an operator by itself; None where its recipe comes to none in an operator set."""
    random = np.random.default_rng([number, crc32("/".join(key).encode())])
    for _ in range(TRIES):
        maker = Maker(random)
        if key in maker.recipes:
            maker.step(key)
        if maker.steps:
            made = tuple(maker.steps)
            outputs = tuple(t.name for t in maker.results)
            return Drawn(maker.opset, made, maker.leaves, maker.walk.tensors, outputs)
    return None
