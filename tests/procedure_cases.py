"""Small graphs for every procedure: sizes around tasks and blocks, every element type, equal elements, neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
from chance import RANDOM
from small_graphs import conv, graph, number, relu, softmax, total, transpose, value, weights

from edgec import ops
from edgec.ir.expr import Extent
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES, is_float
from edgec.ops.cells import Cell, activation
from edgec.ops.recurrence import PANEL

Named = tuple[str, Graph]
NUMBERS = ("f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


def extremes(dtype: str) -> Node:
    """Numbers at the edges of a type, some of them twice, in no order."""
    if is_float(dtype):
        edges = np.array([0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan, -np.nan], DTYPES[dtype])
    else:
        limits = np.iinfo(DTYPES[dtype])
        edges = np.array([limits.min, limits.min + 1, 0, 1, limits.max // 2, limits.max - 1, limits.max], DTYPES[dtype])
    return constant(RANDOM.permutation(np.tile(edges, 3)))


def sorting() -> Iterator[Named]:
    for n in (1, 2, 5, 16, 17, 33, 300):
        x = value("x", 3, n, dtype="f32" if n % 2 else "i8")  # small whole numbers are full of equal ones
        results = [ops.node("argsort", x, axis=1, descending=d) for d in (False, True)]
        results += [ops.node("argsort", x, axis=1, descending=d, count=max(n // 5, 1)) for d in (False, True)]
        yield f"argsort of {n}", graph(*results)
    for dtype in (*NUMBERS, "bool"):
        x = value("x", 5, 9, 2, dtype=dtype)
        results = [ops.node("argsort", x, axis=d, descending=d == 1) for d in range(3)]
        yield f"argsort of {dtype}", graph(*results, ops.node("argsort", x, axis=1, descending=True, count=2))
    for dtype in ("f32", "bf16", "i8", "i64", "bool"):
        shapes = ((1, 3), (8, 1), (9, 2), (70, 3), (5, 0))
        rows = [value(f"x{r}", r, c, dtype="bool" if dtype == "bool" else "i8") for r, c in shapes]
        yield f"rows of {dtype}", graph(*(ops.node("argsort_rows", ops.node("cast", x, to=dtype)) for x in rows))
    for dtype in ("f32", "f64", "i32", "i64", "u64", "i8"):
        x = extremes(dtype)
        results = [ops.node("argsort", x, axis=0, descending=d, count=c) for d in (False, True) for c in (None, 4)]
        yield f"argsort of extreme {dtype}", graph(*results)
    y = ops.node("mul", value("x", 2, 3, 8), number(2))
    merged = ops.node("concat", y, relu(value("z", 2, 3, 8)), axis=2)
    yield (
        "argsort between other kernels",
        graph(
            ops.node("neg", transpose(ops.node("argsort", transpose(y, 0, 2, 1), axis=1), 0, 2, 1)),
            ops.node("concat", ops.node("argsort", merged, axis=2), ops.node("argsort", y, axis=1), axis=2),
            ops.node("argsort", softmax(merged, 2), axis=2, count=0),
        ),
    )
    image = conv(value("i", 1, 4, 6, 6), weights(9, 4, 1, 1))
    yield "argsort of channels", graph(ops.node("argsort", image, axis=1, count=2, descending=True), relu(image))
    yield "argsort of nothing", graph(ops.node("argsort", value("x", 0, 3), axis=0), ops.node("neg", value("y", 2)))


def scanning() -> Iterator[Named]:
    ways = [(c, e, r) for c in ("add", "mul", "max", "min") for e in (False, True) for r in (False, True)]
    x = value("x", 3, 5, 7)
    for combine, exclusive, reverse in ways:
        results = [
            ops.node("prefix", x, combine=combine, axis=d, exclusive=exclusive, reverse=reverse) for d in range(3)
        ]
        yield f"prefix {combine}{' exclusive' * exclusive}{' reverse' * reverse}", graph(*results)
    for shape in ((1,), (300,), (2, 1), (2, 3, 64), (2, 3, 65), (1, 4, 200)):
        x = value("x", *shape)
        results = [ops.node("prefix", x, combine="add", axis=d, exclusive=d == 1) for d in range(len(shape))]
        yield f"prefix of {'x'.join(map(str, shape))}", graph(*results)
    for dtype in NUMBERS:
        x = value("x", 4, 9, dtype=dtype)
        yield f"prefix of {dtype}", graph(*(ops.node("prefix", x, combine=c, axis=1) for c in ("add", "mul", "min")))
    in_place = ops.node("prefix", ops.node("exp", value("x", 6, 70)), combine="add", axis=0, exclusive=True)
    yield "prefix in place", graph(ops.node("sqrt", in_place))
    yield "prefix of nothing", graph(ops.node("prefix", value("x", 3, 0), combine="add", axis=1, exclusive=True))


def scattering() -> Iterator[Named]:
    for combine in ("last", "add", "mul", "max", "min"):
        results = []
        for d, shape in enumerate(((9, 3, 2), (2, 11, 4), (3, 4, 1))):
            x, u = value("x", 3, 4, 5), value(f"u{d}", *shape)
            if all(e == d or n <= m for e, (n, m) in enumerate(zip(shape, x.type.shape))):
                at = value(f"i{d}", *shape, dtype="i64" if d % 2 else "i32")
                results.append(ops.node("scatter_elements", x, at, u, axis=d, combine=combine))
        for d, shape in enumerate(((7, 3), (2, 2, 2), (6, 1))):
            at = value(f"j{d}", *shape, dtype="i64")
            u = value(f"v{d}", *shape[:-1], *x.type.shape[shape[-1] :])
            results.append(ops.node("scatter_nd", x, at, u, combine=combine))
        yield f"scatter {combine}", graph(*results)
    places, rows = value("j", 9, 1, dtype="i64"), value("u", 9, 5)
    made = relu(value("x", 20, 5))
    once = ops.node("scatter_nd", made, places, rows, combine="add")
    yield "scatter twice to an output", graph(ops.node("scatter_nd", once, places, rows, combine="max"))
    yield "scatter to an output of what is read", graph(once, relu(total(made, 0)))
    for dtype in (*NUMBERS, "bool"):
        x, u = value("x", 6, 2, dtype=dtype), value("u", 9, 2, dtype=dtype)
        results = [
            ops.node("scatter_elements", x, value("i", 9, 2, dtype="i64"), u, axis=0, combine=c)
            for c in ("last", "add")
        ]
        results.append(ops.node("scatter_nd", x, value("j", 9, 1, dtype="i32"), u, combine="max"))
        yield f"scatter of {dtype}", graph(*results)
    for dtype in ("i4", "f8e4m3fn"):
        narrow = value("x", 4, 6, dtype=dtype), value("i", 3, 6, dtype="i64"), value("u", 3, 6, dtype=dtype)
        yield f"scatter of {dtype}", graph(ops.node("scatter_elements", *narrow, axis=0))
    x, at = value("z", 5, 700), value("j", 4, 1, dtype="i64")
    yield "scatter of long slices", graph(ops.node("scatter_nd", x, at, value("u", 4, 700), combine="add"))
    y = ops.node("exp", value("x", 4, 6))
    yield (
        "scatter in place",
        graph(
            ops.node("neg", ops.node("scatter_elements", y, value("i", 4, 2, dtype="i64"), value("u", 4, 2), axis=1)),
            ops.node("neg", ops.node("scatter_nd", relu(x), at, value("v", 4, 700))),
        ),
    )
    yield "scatter of itself", graph(ops.node("scatter_elements", y, value("i", 4, 6, dtype="i64"), y, axis=0))
    none = ops.node("slice", value("i", 4, 6, dtype="i64"), starts=(0, 0), steps=(1, 1), shape=(0, 6))
    yield "scatter of nothing", graph(ops.node("scatter_elements", y, none, value("u", 0, 6), axis=0))
    whole = ops.node("slice", value("i", 4, 6, dtype="i64"), starts=(0, 0), steps=(1, 1), shape=(2, 0))
    yield "scatter of everything", graph(ops.node("scatter_nd", y, whole, value("u", 2, 4, 6), combine="add"))
    yield "scatter of numbers", graph(ops.node("scatter_nd", number(3), whole, value("u", 2), combine="mul"))


def selection() -> Iterator[Named]:
    masks = [ops.node("gt", value(f"x{n}", n), number(0.5)) for n in (1, 7, 64, 1000)]
    yield (
        "compact",
        graph(*(ops.node("compact", m) for m in masks), ops.node("compact", value("m", 3, 5, dtype="bool"))),
    )
    yield "compact of nothing", graph(ops.node("compact", value("m", 3, 0, dtype="bool")), relu(value("x", 2)))
    overlap, least = number(0.3), number(0.1)
    for batch, classes, n, most in ((1, 1, 1, 1), (1, 3, 40, 40), (2, 2, 17, 5)):
        boxes, scores = value("b", batch, n, 4), value("s", batch, classes, n)
        rounded = ops.node("mul", ops.node("round", ops.node("mul", scores, number(2))), number(0.5))  # has equal ones
        limit = constant(np.array([most]))
        results = [
            ops.node("non_max_suppression", boxes, rounded, limit, overlap, most=most, center=True),
            ops.node("non_max_suppression", boxes, scores, limit, overlap, least, most=most),
            ops.node(
                "non_max_suppression",
                ops.node("exp", boxes), scores, value("limit", dtype="i64"), value("o", 1), value("t"), most=most,
            ),
        ]  # fmt: skip
        yield f"suppression {batch}x{classes}x{n}", graph(*results)
    wide = value("b", 1, 9, 4, dtype="f64"), value("s", 1, 1, 9, dtype="f64")
    half = constant(np.array(0.5))
    yield "suppression of f64", graph(ops.node("non_max_suppression", *wide, constant(np.array(4)), half, most=9))


def descending() -> Iterator[Named]:
    """Trees of random branches, each to later nodes only; features are data or computed."""
    for rows, trees, branches, features in ((1, 1, 1, 1), (5, 3, 7, 4), (40, 9, 60, 3), (0, 2, 3, 2)):
        for dtype in ("f32", "f64"):
            x = ops.node("sqrt", value("x", rows, features, dtype=dtype))  # the roots of negative numbers are NaN
            follow = RANDOM.integers(np.arange(branches)[:, None] + 1, 2 * branches + 1, (branches, 3))
            nodes = np.concatenate([RANDOM.integers(0, features, (branches, 1)), follow], 1).astype(np.int32)
            roots = RANDOM.integers(0, branches + 2, trees).astype(np.int32)
            splits = RANDOM.random(branches).astype(DTYPES[dtype])
            leaves = ops.node("descend", x, constant(roots), constant(splits), constant(nodes), depth=branches)
            name = f"descent of {rows}x{features} in {dtype} along {trees} trees"
            yield name, graph(leaves, ops.node("neg", leaves))


def coupling() -> Iterator[Named]:
    """Probabilities of pairs, some of them nearly certain."""
    for rows, classes, dtype in ((1, 2, "f32"), (5, 3, "f32"), (17, 6, "f64"), (0, 4, "f32")):
        of_pairs = ops.node("sigmoid", value("x", rows, classes * (classes - 1) // 2, dtype=dtype))
        coupled = ops.node("pairwise_coupling", of_pairs, classes=classes)
        yield f"coupling of {rows}x{classes}", graph(coupled, ops.node("neg", coupled))


def cell(kind: str, *names: str, **options: object) -> Cell:
    found = tuple(activation(name) for name in names)
    return Cell(kind, found, **options)  # type: ignore[arg-type]


def recurrence(
    cell: Cell, steps: Extent, batch: Extent, hidden: int, lengths: bool = False, backwards: bool = False
) -> Node:
    """A recurrence whose operands are inputs; the weights are small, so that long sequences stay tame."""
    width = cell.gates * hidden
    operands = [value("x", steps, batch, width), value("bias", width)]
    operands += [weights(-(-g * hidden // PANEL), hidden, PANEL, scale=0.2) for g in cell.products]
    operands += [value(f"state{k}", batch, hidden) for k in range(cell.states)]
    operands += [value("peepholes", 3 * hidden)] if cell.peepholes else []
    operands += [value("lengths", batch, dtype="i64")] if lengths else []
    return ops.node("recurrence", *operands, **asdict(cell), lengths=lengths, backwards=backwards)


CELLS = {
    "lstm": cell("lstm", "sigmoid", "tanh", "tanh"),
    "lstm with peepholes": cell("lstm", "sigmoid", "tanh", "tanh", peepholes=True, clip=0.7),
    "coupled lstm": cell("lstm", "hardsigmoid", "softsign", "elu", coupled=True),
    "gru": cell("gru", "sigmoid", "tanh"),
    "gru with late reset": cell("gru", "sigmoid", "leakyrelu", reset_after=True),
    "rnn": cell("rnn", "relu"),
    "clipped rnn": cell("rnn", "scaledtanh", clip=0.5),
}


def recurring() -> Iterator[Named]:
    for name, kind in CELLS.items():
        for steps, batch, hidden in ((5, 1, 16), (3, 5, 7), (2, 4, 33)):
            yield f"{name} {steps}x{batch}x{hidden}", graph(recurrence(kind, steps, batch, hidden))
        ended = recurrence(kind, 4, 6, 12, lengths=True)
        yield f"{name} of sequences", graph(ended, recurrence(kind, 4, 6, 12, lengths=True, backwards=True))
    for name, *options in (("thresholdedrelu",), ("affine", 0.5, 0.1), ("softplus",)):
        yield f"rnn of {name}", graph(recurrence(Cell("rnn", (activation(name, *options),)), 3, 2, 9))  # type: ignore[arg-type]
    fed = recurrence(CELLS["lstm"], 6, 2, 1)
    yield "lstm of one element", graph(relu(ops.node("slice", fed, starts=(0, 0, 0), steps=(1, 1, 1), shape=(6, 2, 1))))
    x = ops.node("reshape", ops.node("matmul", value("features", 12, 5), weights(5, 24)), shape=(6, 2, 24))
    panels = weights(1, 8, PANEL, scale=0.2)
    y = ops.node("recurrence", x, weights(24), panels, weights(2, 8), **asdict(CELLS["gru with late reset"]))
    last = ops.node("reshape", ops.node("slice", y, starts=(5, 0, 0), steps=(1, 1, 1), shape=(1, 2, 8)), shape=(2, 8))
    yield "gru between products", graph(softmax(ops.node("matmul", last, weights(8, 9)), 1))
    yield "gru of no steps", graph(recurrence(CELLS["gru"], 0, 3, 4))
    yield "lstm of no sequence", graph(recurrence(CELLS["lstm"], 3, 0, 4), relu(value("z", 2)))


def attention_gradients(outer: tuple[int, ...], m: int, n: int, k: int, d: int, *mask: Node, parts: int = 1) -> Node:
    """The gradients of attention of heads ``outer``, whose operands are inputs; queries are small, as if scaled."""
    query, key, v = value("q", *outer, m, k), value("k", *outer, n, k), value("v", *outer, n, d)
    query = ops.node("mul", query, number(0.5 * k**-0.5))
    apart = {"parts": parts} if parts > 1 else {}
    return ops.node(
        "attention_gradients", query, key, v, value("g", *outer, m, d), value("p", *outer, m), *mask, **apart
    )


def by_statistics(outer: tuple[int, ...], m: int, n: int, k: int, d: int, *mask: Node, scale: float = 1.0) -> Graph:
    """The same with the statistics of rows, which are a result too; operands are made by other kernels."""
    shapes = {"q": (*outer, m, k), "k": (*outer, n, k), "v": (*outer, n, d), "g": (*outer, m, d)}
    query, key, v, g = (ops.node("mul", value(name, *shape), number(0.5)) for name, shape in shapes.items())
    statistics = ops.node("attention_statistics", query, key, *mask, scale=scale)
    operands = (query, key, v, g, value("p", *outer, m), statistics, *mask)
    factors = {"of_query": 0.5, "of_key": 3.0} if mask else {}
    return graph(statistics, ops.node("attention_gradients", *operands, scale=scale, **factors))


def attending_by_statistics() -> Iterator[Named]:
    """Queries and keys around tiles of 16 to 64, features around those of instructions and of registers, masks of every
    shape."""
    sizes = (
        (1, 1, 1, 1), (63, 65, 5, 16), (64, 64, 16, 16), (65, 47, 33, 1), (130, 101, 20, 70), (5, 200, 64, 64),
        (17, 33, 128, 96), (20, 40, 256, 256), (33, 18, 200, 130),
    )  # fmt: skip
    for m, n, k, d in sizes:
        yield f"gradients of attention {m}x{n}x{k}x{d}", by_statistics((2,), m, n, k, d, scale=0.7 * k**-0.5)
    yield "gradients of attention without heads", by_statistics((), 70, 50, 8, 8)
    outer, m, n = (2, 3), 70, 100
    apart = np.arange(n) - np.arange(m)[:, None]
    hidden = {
        "what came before": apart > 0,
        "what came before within 20": (apart > 0) | (apart < -20),
        "nothing by some": np.broadcast_to(np.arange(m)[:, None] % 3 == 1, (m, n)),
        "some of what came before": (apart > 0) | (apart % 3 == 1),
        "nothing before number 90": apart < 30,
        "nothing at all": np.full((m, n), True),
    }
    masks: dict[str, Node] = {
        name: constant(np.where(where, -np.inf, 0).astype(np.float32).reshape(1, 1, m, n))
        for name, where in hidden.items()
    }
    before = np.where(apart > 0, -np.inf, 0.1 * apart).astype(np.float32)
    late = np.where((np.arange(n) < 50) | (np.arange(n) > 98), -np.inf, 0).astype(np.float32)
    masks |= {
        "what came before, the nearer the more": constant(before.reshape(1, 1, m, n)),
        "a few by all": constant(late.reshape(1, 1, 1, n)),
        "those of a sample": value("mask", 2, 1, 1, n),
        "those of a head": value("mask", 1, 3, m, n),
        "each": value("mask", 2, 3, m, 1),
    }
    for name, mask in masks.items():
        yield f"gradients of attention to {name}", by_statistics(outer, m, n, 9, 17, mask, scale=0.5)


def attending() -> Iterator[Named]:
    """Queries and keys around blocks of 64 and 48, features around vectors, masks of every shape."""
    sizes = ((1, 1, 1, 1), (63, 49, 5, 16), (64, 48, 16, 7), (65, 47, 33, 1), (130, 101, 20, 70), (5, 300, 64, 64))
    for m, n, k, d in sizes:
        yield f"gradients of attention {m}x{n}x{k}x{d}", graph(attention_gradients((2,), m, n, k, d))
    for m, parts in ((128, 2), (197, 2), (300, 4), (17, 2), (3, 2)):
        found = attention_gradients((3,), m, 53, 12, 20, parts=parts)
        yield f"gradients of attention to {m} queries in {parts} parts", graph(found)
    yield "gradients of attention without heads", graph(attention_gradients((), 70, 50, 8, 8))
    yield "gradients of attention of no heads", graph(attention_gradients((0,), 3, 5, 4, 4), relu(value("z", 2)))
    outer, m, n = (2, 3), 70, 100
    causal = np.where(np.tri(m, n, dtype=bool), 0, -np.inf).astype(np.float32)
    blind = np.where(np.arange(m)[:, None] % 3 == 1, -np.inf, np.zeros((m, n))).astype(np.float32)
    late = np.where((np.arange(n) < 50) | (np.arange(n) > 98), -np.inf, 0).astype(np.float32)
    masks = {
        "what came before": constant(causal.reshape(1, 1, m, n)),
        "nothing by some": constant(blind.reshape(1, 1, m, n)),
        "a few by all": constant(late.reshape(1, 1, 1, n)),
        "nothing at all": constant(np.full((1, 1, 1, 1), -np.inf, np.float32)),
        "those of a sample": value("mask", 2, 1, 1, n),
        "those of a head": value("mask", 1, 3, m, n),
        "each": value("mask", 2, 3, m, 1),
    }
    for name, mask in masks.items():
        yield f"gradients of attention to {name}", graph(attention_gradients(outer, m, n, 9, 17, mask))
