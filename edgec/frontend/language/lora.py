"""Low-rank adapters: what a decoder reserves for them beside its products, and where their numbers lie.

An adapter adds ``x A B`` to a product ``x W``: ``A`` [inputs, rank], ``B`` [rank, outputs]. All matrices of all layers
are one input of the graph, which every run reads, so that changing the adapter is passing another address. Products of
one operand have their ``A`` side by side in one matrix. Where no adapter is given, nothing of this is computed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from edgec.errors import UsageError
from edgec.frontend.language.config import DecoderConfig
from edgec.frontend.language.facts import LORA
from edgec.frontend.values import Value, constant, emit
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import Type
from edgec.text import listed

#: The inputs of the graph: the numbers of an adapter, and whether there is one.
NUMBERS, GIVEN = "adapter", "adapted"
#: Products of a layer by the names of options, and by those of weights.
MODULES: Mapping[str, str] = {
    "q": "attn_q", "k": "attn_k", "v": "attn_v", "qkv": "attn_qkv", "o": "attn_output", "gate": "ffn_gate",
    "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip
#: Products that have one operand, in the order in which a layer computes them.
_TOGETHER = (("qkv",), ("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
#: The head of an adapter as sessions take it: a magic number, the layout's hash, count and sum of numbers, zeros.
HEAD, MAGIC = struct.Struct("<8s32sQQQ"), b"edgecLR1"
#: Ranks beyond this are no low ones.
MOST_RANK = 1024


@dataclass(frozen=True)
class LoraOption:
    """Room for adapters: their largest rank, and the products by their names in `MODULES` (none: all)."""

    rank: int
    modules: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rank}:{','.join(self.modules)}" if self.modules else str(self.rank)


@dataclass(frozen=True)
class Reserve:
    """The option, and what the import of a format knows: the module of Hugging Face's of each weight, and whether rows
    of queries and keys are stored with the two features that are rotated together side by side."""

    option: LoraOption
    module_of: Callable[[str], str]
    is_paired: Callable[[DecoderConfig], bool] = lambda config: False


@dataclass(frozen=True)
class Part:
    """The place of the matrices of one product in an adapter, in numbers of f32.

    ``A`` has the columns from ``column`` on, ``rank`` of them, of the matrix [inputs, columns] at ``down``; ``B``
    [rank, outputs] begins at ``up``. ``paired`` heads of outputs have the two features that are rotated together side
    by side, in GGUF files; ``module`` is Hugging Face's name of the product.
    """

    weight: str
    module: str
    inputs: int
    outputs: int
    down: int
    columns: int
    column: int
    up: int
    paired: int = 0


@dataclass(frozen=True)
class Layout:
    """The parts of an adapter of at most ``rank``, which has ``count`` numbers.

    ``is_paired``: the weights have the order of features of GGUF files, where that differs (`Part.paired`).
    """

    rank: int
    count: int
    is_paired: bool
    parts: tuple[Part, ...]

    @property
    def described(self) -> dict[str, object]:
        """The layout in JSON."""
        return asdict(self)

    @property
    def digest(self) -> bytes:
        """A hash of 32 bytes, of all that says what the numbers are."""
        return sha256(repr(self).encode()).digest()

    @property
    def bytes(self) -> int:
        """The bytes of an adapter: a head and the numbers."""
        return HEAD.size + 4 * self.count


def read_layout(found: Mapping[str, Any]) -> Layout:
    """The layout that `Layout.described` gave."""
    parts = tuple(Part(**part) for part in found["parts"])
    return Layout(found["rank"], found["count"], found["is_paired"], parts)


def layout_in(graph: Graph) -> Layout | None:
    """The layout of a graph's adapters; None where it has no room for any."""
    return read_layout(json.loads(graph.metadata[LORA])) if LORA in graph.metadata else None


def layout_of(config: DecoderConfig, reserve: Reserve, has: Callable[[str], bool]) -> Layout:
    """The layout for a decoder, of whose weights ``has`` knows the names.

    Raises UsageError where the decoder has none of the products that the option names.
    """
    option, is_paired = reserve.option, reserve.is_paired(config)
    wanted = option.modules or tuple(MODULES)
    parts: list[Part] = []
    at = 0
    for number in range(len(config.layers)):
        for group in _TOGETHER:
            names = [f"blk.{number}.{MODULES[m]}.weight" for m in group if m in wanted]
            names = [name for name in names if has(name)]
            shapes = [_shape(config, name, has) for name in names]
            columns, down = option.rank * len(names), at
            at += sum(inputs for inputs, _ in shapes[:1]) * columns
            for k, (name, (inputs, outputs)) in enumerate(zip(names, shapes)):
                paired = {"attn_q": config.heads, "attn_k": config.kv_heads}.get(name.split(".")[2], 0)
                module = reserve.module_of(name)
                parts.append(Part(name, module, inputs, outputs, down, columns, option.rank * k, at, paired))
                at += option.rank * outputs
    missing = [m for m in option.modules if not any(p.weight.endswith(f".{MODULES[m]}.weight") for p in parts)]
    if missing:
        there = [m for m, name in MODULES.items() if has(f"blk.0.{name}.weight")]
        raise UsageError(
            f"the layers have no product {listed(missing)}", hint=f"they have {listed(there)}", where="--lora"
        )
    return Layout(option.rank, at, is_paired, tuple(parts))


def _shape(config: DecoderConfig, name: str, has: Callable[[str], bool]) -> tuple[int, int]:
    """Inputs and outputs of a product."""
    c, part = config, name.split(".")[2]
    q, kv = c.heads * c.head, c.kv_heads * c.head
    is_double = c.is_gated and not has(name.replace("ffn_up", "ffn_gate"))
    return {
        "attn_q": (c.width, q), "attn_k": (c.width, kv), "attn_v": (c.width, kv), "attn_qkv": (c.width, q + 2 * kv),
        "attn_output": (q, c.width), "ffn_gate": (c.width, c.hidden),
        "ffn_up": (c.width, 2 * c.hidden if is_double else c.hidden), "ffn_down": (c.hidden, c.width),
    }[part]  # fmt: skip


class LowRank:
    """The low-rank paths of a decoder under construction."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._parts = {p.weight: p for p in layout.parts}
        self._numbers = Value(placeholder(NUMBERS, Type("f32", (layout.count,))))
        self._given = Value(placeholder(GIVEN, Type("bool", ())))
        self._down: dict[tuple[Node, int], Value] = {}

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self._given.node, self._numbers.node

    @property
    def described(self) -> dict[str, str]:
        """The entry of the metadata."""
        return {LORA: json.dumps(self.layout.described)}

    def added(self, y: Value, x: Value, weight: str) -> Value:
        """``y``, the product of ``x`` [tokens, inputs] and a weight, with what the adapter adds to it."""
        part = self._parts.get(weight)
        if part is None:
            return y
        rank, key = self.layout.rank, (x.node, part.down)
        if key not in self._down:
            self._down[key] = x @ self._matrix(part.down, part.inputs, part.columns)
        shared = self._down[key].part(1, part.column, part.column + rank)
        more = shared @ self._matrix(part.up, rank, part.outputs)
        nothing = constant(-0.0, "f32").broadcast(*more.shape)  # a sum with it has the bits of the other operand
        return y + emit("branch", self._given, more, nothing)

    def _matrix(self, start: int, rows: int, columns: int) -> Value:
        return self._numbers.part(0, start, start + rows * columns).reshape(rows, columns)


def option_of(text: str | int) -> LoraOption:
    """The option in words: a rank, or a rank and products: ``16:q,v``; raises UsageError."""
    rank, _, modules = str(text).partition(":")
    names = tuple(m.strip() for m in modules.split(",")) if modules else ()
    return checked(rank.strip(), names)


def checked(rank: str, names: Iterable[str]) -> LoraOption:
    """The option of a rank and names of products; raises UsageError for those that make no sense."""
    chosen: Sequence[str] = tuple(names)
    if not rank.isascii() or not rank.isdigit() or not 1 <= int(rank[:6]) <= MOST_RANK:
        raise UsageError(
            f"adapters of rank '{rank}'; 1 to {MOST_RANK} are allowed", hint="for example 16, or 16:q,v", where="--lora"
        )
    unknown = [m for m in chosen if m not in MODULES]
    if unknown or len({*chosen}) < len(chosen):
        which = f"'{unknown[0]}' is none" if unknown else "one is named twice"
        raise UsageError(f"products for adapters: {which}", hint=f"they are {listed(MODULES)}", where="--lora")
    return LoraOption(int(rank), tuple(chosen))
