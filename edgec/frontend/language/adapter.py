"""The numbers of a low-rank adapter, from the matrices of a file, in the layout that a decoder reserves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.language.lora import HEAD, MAGIC, MODULES, Layout, Part
from edgec.text import listed, printable


@dataclass(frozen=True)
class Pair:
    """The two matrices that a file has for a product: ``down`` [rank, inputs], ``up`` [outputs, rank], and the factor
    of their product."""

    down: np.ndarray
    up: np.ndarray
    scale: float


@dataclass(frozen=True)
class Adapter:
    """The matrices of a file by the name of a product: of a weight of the decoder, or of a module of Hugging Face's.

    ``is_paired``: rows of queries and keys have the order of features of GGUF files (`Layout.is_paired`).
    """

    where: str
    pairs: Mapping[str, Pair]
    by_module: bool
    is_paired: bool = False


def arranged(adapter: Adapter, layout: Layout) -> bytes:
    """An adapter with its head, as sessions take it; raises ModelError for one that does not fit the layout."""
    try:
        return _arranged(adapter, layout)
    except ModelError as error:
        error.where = error.where or adapter.where
        raise


def _arranged(adapter: Adapter, layout: Layout) -> bytes:
    numbers = np.zeros(layout.count, np.float32)
    if layout.is_paired and not adapter.by_module and not adapter.is_paired:
        raise ModelError("the adapter is for an architecture with another order of features")
    seen: dict[str, str] = {}
    for name, pair in adapter.pairs.items():
        part = _part_of(adapter, layout, name, pair)
        if part.weight in seen:
            raise ModelError(f"'{printable(seen[part.weight])}' and '{printable(name)}' are the same product")
        seen[part.weight] = name
        _check(pair, part, layout, name)
        down, up = (np.asarray(m, np.float64) for m in (pair.down, pair.up))
        with np.errstate(over="ignore", invalid="ignore"):
            up = (_reordered(up, part, adapter, layout) * pair.scale).astype(np.float32)
            down = down.astype(np.float32)
        if not (np.isfinite(down).all() and np.isfinite(up).all()):
            raise ModelError(f"the matrices of '{printable(name)}' have numbers that are not finite in fp32")
        rank = len(down)
        wide = numbers[part.down : part.down + part.inputs * part.columns].reshape(part.inputs, part.columns)
        wide[:, part.column : part.column + rank] = down.T
        numbers[part.up : part.up + rank * part.outputs].reshape(rank, part.outputs)[:] = up.T
    if not seen:
        raise ModelError("the file has no matrices of an adapter")
    content = numbers.astype("<f4").tobytes()
    return HEAD.pack(MAGIC, layout.digest, layout.count, checksum(content), 0) + content


def checksum(numbers: bytes) -> int:
    """The sum in the head: words times odd numbers."""
    words = np.frombuffer(numbers, "<u4").astype(np.uint64)
    return int((words * (2 * np.arange(len(words), dtype=np.uint64) + 1)).sum(dtype=np.uint64))


def is_arranged(content: bytes) -> bool:
    """Is it what `arranged` gives?"""
    return content[: len(MAGIC)] == MAGIC


def check_arranged(content: bytes, layout: Layout, where: str) -> None:
    """Raises ModelError where the bytes are no whole adapter of this layout."""
    if len(content) == layout.bytes:
        _, digest, count, total, zeros = HEAD.unpack_from(content)
        if (digest, count, zeros) == (layout.digest, layout.count, 0) and total == checksum(content[HEAD.size :]):
            return
    raise ModelError(
        "the adapter was written for another model, or is not all there",
        hint="write it again with edgec adapter, from the file that it was made of",
        where=where,
    )


def _part_of(adapter: Adapter, layout: Layout, name: str, pair: Pair) -> Part:
    key: Callable[[Part], bool] = (
        (lambda p: name == p.module or name.endswith("." + p.module))
        if adapter.by_module
        else (lambda p: name == p.weight)
    )
    found = [part for part in layout.parts if key(part)]
    if len(found) == 1:
        return found[0]
    kinds = {p.weight.split(".")[2] for p in layout.parts}
    there = listed([m for m, weight in MODULES.items() if weight in kinds])
    raise ModelError(
        f"the adapter changes '{printable(name)}', for which the model has no room",
        hint=f"there is room for {there} of {len({p.weight.split('.')[1] for p in layout.parts})} layers; build it with"
        f" --lora {max(len(pair.down), layout.rank)} for those of all its layers",
    )


def _check(pair: Pair, part: Part, layout: Layout, name: str) -> None:
    """Raises ModelError for matrices of other shapes than the layout has."""
    rank = pair.down.shape[0] if pair.down.ndim == 2 else 0
    if pair.down.shape != (rank, part.inputs) or pair.up.shape != (part.outputs, rank) or rank < 1:
        raise ModelError(
            f"the matrices of '{printable(name)}' are {list(pair.down.shape)} and {list(pair.up.shape)}, expected"
            f" [rank, {part.inputs}] and [{part.outputs}, rank]"
        )
    if rank > layout.rank:
        raise ModelError(
            f"'{printable(name)}' has rank {rank}, and the model was built for ranks up to {layout.rank}",
            hint=f"build it with --lora {rank}",
        )


def _reordered(up: np.ndarray, part: Part, adapter: Adapter, layout: Layout) -> np.ndarray:
    """Rows of queries or keys in the order of the model's own."""
    if not part.paired or adapter.is_paired == layout.is_paired:
        return up
    halves = (2, -1) if layout.is_paired else (-1, 2)
    return up.reshape(part.paired, *halves, up.shape[1]).swapaxes(1, 2).reshape(up.shape)
