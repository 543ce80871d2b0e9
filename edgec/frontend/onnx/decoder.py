"""Decoders in ONNX as language models: the caches that go in and come out become states, extended in place.

Such a model takes tokens, a mask, positions and the keys and values of earlier tokens, and gives logits and keys and
values of all tokens. One lowering serves prompt and answer: the numbers of new and of earlier tokens are run-time
sizes, the mask hides nothing, and positions count on. What is appended to a cache is found in the graph, where an
output is an input with something behind it; so it does not matter which names an exporter gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.errors import ModelError, UsageError
from edgec.frontend.hugging.folder import trained_context
from edgec.frontend.hugging.tokenizer import FILE, tokens_beside
from edgec.frontend.language import llama2c
from edgec.frontend.language.decoder import CHUNK, CONTEXT
from edgec.frontend.language.facts import TOKENS, LanguageModel
from edgec.frontend.language.table import table_of, written
from edgec.frontend.onnx.implied import implied, name_of
from edgec.frontend.onnx.importer import check, lower_model
from edgec.frontend.onnx.inputs import Open, declared_types
from edgec.frontend.onnx.key_scale import on_queries
from edgec.frontend.onnx.model import Model, metadata_of
from edgec.frontend.onnx.stacked import RANK, unstacked
from edgec.frontend.states import describe
from edgec.frontend.values import Value, concat, constant, emit, full, iota, size
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Graph, Node, placeholder, rewrite
from edgec.ir.sizes import Dimension
from edgec.ir.types import FLOATS, Type
from edgec.text import listed, printable

#: The input of tokens, by the names that exporters give it.
_TOKENS = ("input_ids", "tokens", "token")
#: Inputs that are computed inside: by name, from the sizes of a run.
_MASKS, _POSITIONS, _BRANCH = ("attention_mask",), ("position_ids", "cache_position", "pos"), ("use_cache_branch",)
_PAST = re.compile(r"past|cache", re.IGNORECASE)
#: Keys or values in the name of a cache.
_KIND = re.compile(r"key|value|(?<![a-z])[kv](?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class _Run:
    """The run-time sizes of a decoder."""

    past: Expr
    count: Extent
    context: int
    chunk: int

    @property
    def seen(self) -> Extent:
        return X.plain(self.past + self.count)

    @property
    def capacity(self) -> int:
        """Rows of a cache: the context, and a chunk that may begin at its end."""
        return self.context + self.chunk - 1


def is_decoder(model: Model) -> bool:
    """Does the model take tokens and, of open length, the keys and values of earlier ones?"""
    declared = declared_types(model)
    caches = [n for n, (dtype, dims) in declared.items() if _is_cache(n, dtype, dims)]
    return any(n in declared for n in _TOKENS) and bool(caches)


def _is_cache(name: str, dtype: str, dims: Sequence[Open] | None) -> bool:
    is_open = dims is not None and len(dims) >= 3 and any(not isinstance(d, int) for d in dims[1:])
    return is_open and dtype in FLOATS and _PAST.search(name) is not None


def import_decoder(model: Model, context: int | None = None) -> Graph:
    """The network of a language model for prompt and answer of at most ``context`` tokens, as `decoder` makes one.

    Raises ModelError for inputs that no decoder has, and for caches to which nothing is appended, UsageError for a
    context beyond the one that a file beside the model tells.
    """
    check(model)
    context = _context(model, context)
    declared = declared_types(model)
    chunk = min(_chunk(declared), context)
    run = _Run(X.size("past", 0, context - 1), Dimension("tokens", 1, chunk).extent, context, chunk)
    outputs = [o.name for o in model.proto.graph.output]
    tokens, past = placeholder("tokens", Type("i32", (run.count,))), placeholder("past", Type("i64", ()))
    caches = _caches(model, declared, run)
    others = {n: _given(n, d[0], len(d[1] or ()), Value(tokens), run) for n, d in declared.items() if n not in caches}

    def bound(extents: Mapping[str, Extent]) -> dict[str, Value]:
        shapes = {n: tuple(_extent(n, k, d, extents) for k, d in enumerate(dims)) for n, dims in caches.items()}
        return {**others, **{n: Value(placeholder(n, Type(declared[n][0], s))) for n, s in shapes.items()}}

    extents: Mapping[str, Extent] = {}
    asked = {n: tuple(1 if isinstance(d, Expr) else d for d in dims) for n, dims in caches.items()}
    if any(not isinstance(d, int) for dims in asked.values() for d in dims):
        extents = implied(
            asked, {}, (), lambda _, trial: lower_model(model, (tokens,), dict(bound(trial)), {}, outputs)
        )
    try:
        names = bound(extents)
        importer, scope = lower_model(model, (tokens,), dict(names), {}, outputs)
        values = {n: v for n in outputs if isinstance(v := importer.look_up(scope, n), Value)}
        logits = "logits" if "logits" in values else outputs[0]
        graph = Graph(
            (tokens, past, *(names[n].node for n in caches)),
            (("logits", _last(values[logits], run).node), *((n, v.node) for n, v in values.items() if n != logits)),
            model.name, importer.origin, metadata_of(model), (*importer.sizes.items(), (run.past, past)),
            tuple(importer.demands),
        )  # fmt: skip
        made = _with_states(unstacked(graph), run)
        return replace(made, metadata={**made.metadata, **_tokens(model, int(made.outputs[0][1].type.shape[0]))})
    except ModelError as error:
        error.where = error.where or model.where
        raise


def _tokens(model: Model, count: int) -> dict[str, str]:
    """The metadata with the vocabulary beside the model, in a tokenizer.json or a tokenizer.bin."""
    if model.folder is None:
        return {}
    path = model.folder.path / llama2c.FILE
    if path.is_file() and not (model.folder.path / FILE).is_file():
        return {TOKENS: written(table_of(llama2c.read_vocabulary(path, count)))}
    return tokens_beside(model.folder.path, count)


def _context(model: Model, context: int | None) -> int:
    """The most tokens: as asked for, but no more than the model was trained for, where a file beside it tells."""
    trained = None if model.folder is None else trained_context(model.folder.path)
    if context is not None and trained is not None and context > trained:
        told = f"a context of {context} tokens; the model was trained for {trained}"
        raise UsageError(told, hint=f"give 1 to {trained}", where="--context")
    return context or min(CONTEXT, trained or CONTEXT)


def _chunk(declared: Mapping[str, tuple[str, tuple[Open, ...] | None]]) -> int:
    """The most new tokens of a run: as many as ours, or one where the model takes one at a time."""
    name = next(n for n in declared if n in _TOKENS)
    count = (declared[name][1] or (None,))[-1]
    if isinstance(count, int) and count != 1:
        raise ModelError(
            f"input '{printable(name)}' has {count} tokens, whatever the text",
            hint="export it with one token, or with a number of them that is open",
        )
    return 1 if count == 1 else CHUNK


def _caches(
    model: Model, declared: Mapping[str, tuple[str, tuple[Open, ...] | None]], run: _Run
) -> dict[str, tuple[Open | Expr, ...]]:
    """The dimensions of every cache: one text, the earlier tokens, and what is a number or still open.

    Of five dimensions, the first counts the layers in it.
    """
    infos = model.proto.graph.output
    returned = {d.dim_param for o in infos for d in o.type.tensor_type.shape.dim if d.dim_param}
    found: dict[str, tuple[Open | Expr, ...]] = {}
    for name, (dtype, dims) in declared.items():
        if not _is_cache(name, dtype, dims):
            continue
        assert dims is not None
        texts = len(dims) - RANK if len(dims) > RANK else 0
        places = [k for k, d in enumerate(dims) if k > texts and not isinstance(d, int)]
        if not all(isinstance(d, int) for d in dims[:texts]) or texts > 1 or not places:
            raise ModelError(
                f"the cache '{printable(name)}' has dimensions {list(map(str, dims))}",
                hint="caches are [texts, heads, tokens, features], or a fixed number of such above each other",
            )
        # The length changes from input to output; where names do not tell, it is that of tokens.
        changing = [k for k in places if dims[k] not in returned and dims[k] is not None]
        axis = changing[0] if len(changing) == 1 else texts + 2 if texts + 2 in places else places[0]
        found[name] = tuple(1 if k == texts else run.past if k == axis else d for k, d in enumerate(dims))
    return found


def _extent(name: str, axis: int, dim: Open | Expr, extents: Mapping[str, Extent]) -> Extent:
    if isinstance(dim, (int, Expr)):
        return dim
    if name_of(name, axis, dim) not in extents:
        raise ModelError(
            f"nothing in the model tells dimension {axis} of the cache '{printable(name)}'",
            hint="export it with a number there",
        )
    return extents[name_of(name, axis, dim)]


def _given(name: str, dtype: str, rank: int, tokens: Value, run: _Run) -> Value:
    """An input that is no cache: the tokens, or what follows from the sizes of a run."""
    one = (1,) * (rank - 1)
    if name in _TOKENS and rank in (1, 2):
        return tokens.cast(dtype).reshape(*one, run.count)
    if name in _POSITIONS and rank in (1, 2):
        return (size(run.past) + iota(run.count, 0, 1)).cast(dtype).reshape(*one, run.count)
    if name in _MASKS and rank == 2:
        return full((1, run.seen), 1, dtype)
    if name in _BRANCH:
        return constant(np.ones((1,) * rank), dtype)
    raise ModelError(
        f"input '{printable(name)}' of rank {rank} is none that a decoder of tokens has",
        hint=f"such inputs are {listed((*_TOKENS, *_MASKS, *_POSITIONS, *_BRANCH))} and caches; "
        "with --dim it is built as a network of its own",
    )


def _last(logits: Value, run: _Run) -> Value:
    """The logits [vocabulary] of the last token."""
    length = logits.shape[-2] if logits.rank > 1 else 1
    if logits.rank not in (2, 3) or not logits.is_float or length not in (1, run.count):
        raise ModelError(f"the logits are {logits.dtype}{list(logits.shape)}", hint="export logits of every token")
    return logits.part(logits.rank - 2, length - 1, length).reshape(logits.shape[-1]).cast("f32")


@dataclass(frozen=True)
class _Cache:
    """A state in the place of a cache; keys are stored with their features outermost, as scores read them."""

    name: str
    old: Node
    axis: int
    capacity: int

    @property
    def is_turned(self) -> bool:
        return "keys" in self.name and len(self.old.type.shape) == 4 and self.axis == 2

    def turned(self, x: Value) -> Value:
        return x.swap(2, 3) if self.is_turned else x

    @property
    def state(self) -> Node:
        shape = [self.capacity if k == self.axis else n for k, n in enumerate(self.old.type.shape)]
        shape = [shape[k] for k in (0, 1, 3, 2)] if self.is_turned else shape
        return placeholder(self.name, Type(self.old.type.dtype, tuple(shape[1:])))

    def appended(self, new: Value, run: _Run) -> Node:
        """The state with ``new`` behind the earlier tokens."""
        stored = self.turned(new).squeeze(0)
        axis = stored.rank - 1 if self.is_turned else self.axis - 1
        starts = tuple(run.past if k == axis else 0 for k in range(stored.rank))
        return emit("update", Value(self.state), stored, starts=starts).node

    def first(self, whole: Node, count: Extent) -> Node:
        """The first ``count`` tokens of the state, as the model has the cache."""
        return self.turned(Value(whole).unsqueeze(0)).part(self.axis, 0, count).node


def _with_states(graph: Graph, run: _Run) -> Graph:
    """The graph with states for its caches: where a cache and something behind it is an output, that is stored."""
    taken = _names(graph.inputs[2:])
    caches = {n: _Cache(name, n, _axis_of(n, run), run.capacity) for n, name in taken.items()}
    appended: dict[Node, _Cache] = {}
    for name, node in graph.outputs[1:]:
        cache = caches.get(node.args[0]) if node.op == "concat" else None
        if cache is None or node.attributes["axis"] != cache.axis or node.type.shape[cache.axis] != run.seen:
            raise ModelError(
                f"output '{printable(name)}' is no cache with the new tokens behind it",
                hint="export a decoder whose caches grow; with --dim it is built as a network of its own",
            )
        appended[node] = cache
    missing = [str(n.attributes["name"]) for n, c in caches.items() if c not in appended.values()]
    if missing:
        raise ModelError(f"nothing is appended to the cache {listed(missing)}", hint="export the model with use_cache")
    wholes: dict[str, Node] = {}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        if node in caches:
            return caches[node].first(caches[node].state, run.past)
        if node in appended:
            cache = appended[node]
            wholes[cache.name] = cache.appended(concat([Value(a) for a in args[1:]], cache.axis), run)
            return cache.first(wholes[cache.name], run.seen)
        if args == node.args:
            return node
        made = ops.node(node.op, *args, **node.attributes)
        return on_queries(made) if made.op == "matmul" else made

    made = rewrite(graph, change)
    states = {c.name: (f"{c.name}_new", np.zeros(1, np.float32)) for c in caches.values()}
    facts = LanguageModel(run.context, run.chunk, made.outputs[0][1].type.shape[0])
    return replace(
        made,
        inputs=(*graph.inputs[:2], *(c.state for c in caches.values())),
        outputs=(made.outputs[0], *((f"{name}_new", wholes[name]) for name in states)),
        metadata={**graph.metadata, **facts.described(), **describe(states)},
    )


def _axis_of(cache: Node, run: _Run) -> int:
    return next(k for k, n in enumerate(cache.type.shape) if n is run.past)


def _names(caches: Sequence[Node]) -> dict[Node, str]:
    """Names of the states: keys and values of each layer, or numbered where the model's names do not tell."""
    found = {}
    for k, node in enumerate(caches):
        name = str(node.attributes["name"])
        number, kinds = re.search(r"\d+", name), _KIND.findall(name)
        kind = {"k": "keys", "v": "values"}[kinds[-1][0].lower()] if kinds else ""
        found[node] = f"{kind}_{int(number[0])}" if number and kinds else f"cache_{k}"
    is_unique = len(set(found.values())) == len(found)
    return found if is_unique else {node: f"cache_{k}" for k, node in enumerate(caches)}
