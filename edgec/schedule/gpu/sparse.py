"""Matrix products on a GPU whose constant factor is mostly zero: slices of the sum that are all zero are skipped.

``out[.., m, n] = f(sum over k of S[.., m, k] * L[k, n])``. Columns are cut into panels; of a panel, slices of
neighboring steps of k are kept or left out as a whole, and a table says which are kept. The product becomes as many
smaller ones as there are panels, whose S is read through the table: an ordinary product with one more batch dimension,
so that every template applies, tensor cores included. All panels have as many slices as the fullest.

Slices are 16 bytes of S, so that S is copied without conversion. The idea of vectors of weights that share their zeros
on tensor cores is Magicube's (Li, Osawa, Hoefler, SC 2022).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.nest import most
from edgec.schedule.contract.sparse import is_sparse
from edgec.schedule.flat import Weights, evaluate_over, is_constant
from edgec.schedule.gpu.kernel import FEW_ROWS
from edgec.schedule.gpu.product import Product
from edgec.schedule.gpu.tile import AnyTile
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.gpu.tiles import tile_for
from edgec.schedule.offer import SparseOffer

#: Widths of panels that are tried: those of tiles.
PANELS = (128, 64, 32)
#: The speed-up that the model must predict, which was fitted to dense products.
MARGIN = 0.25


def without_zeros(
    p: Product, device: Device, weights: Weights, element: str = ""
) -> tuple[Product, SparseOffer | None]:
    """(product without empty slices where that is predicted to be cheaper, the comparison where there are zeros).

    ``element`` "s8" is that of int8.
    """
    if device.language != "cuda" or not is_constant(p.l) or len(p.n) != 1 or not p.k:
        return p, None
    if X.free_variables(p.l) - {*p.n, *p.k}:
        return p, None
    (n,), columns, depth = p.n, most(p.n[0]), prod(map(most, p.k))
    values = evaluate_over(p.l, (*p.k, n)).reshape(depth, columns)
    batches, rows = prod(map(most, p.batch)), prod(map(most, p.m))
    if batches * rows <= FEW_ROWS or not is_sparse(values):
        return p, None
    dense = tile_for(batches, rows, columns, depth, device, element)
    price = cycles(dense, batches, rows, columns, depth, device)
    step = 16 // dense.bytes
    if most(p.k[-1]) % step:
        return p, None
    best: tuple[float, int, np.ndarray] | None = None
    for width in PANELS:
        if columns % width:
            continue
        whole = values.reshape(depth // step, step, columns // width, width)
        kept = np.asarray(whole.any(axis=(1, 3)).T)
        slices = max(1, int(kept.sum(axis=1).max()))
        cost = _price(kept.shape[0] * batches, rows, width, slices * step, device, element)
        if best is None or cost < best[0]:
            best = cost, width, kept
    if best is None:
        return p, None
    cost, width, kept = best
    panels = len(kept)
    none = _price(panels * batches, rows, width, step, device, element)
    every = _price(panels * batches, rows, width, depth, device, element)
    share = min(max((price * (1 - MARGIN) - none) / max(every - none, 1.0), 0.0), 1.0)
    taken = cost < price * (1 - MARGIN)
    zeros = 1 - float(np.count_nonzero(values) / values.size)
    offer = SparseOffer(zeros, float(kept.mean()), width, price, cost, 1 - share, taken)
    return (_thinned(p, values, kept, width, step, weights) if taken else p), offer


def _price(batches: int, rows: int, columns: int, depth: int, device: Device, element: str) -> float:
    tile: AnyTile = tile_for(batches, rows, columns, depth, device, element)
    return cycles(tile, batches, rows, columns, depth, device)


def _thinned(p: Product, values: np.ndarray, kept: np.ndarray, width: int, step: int, weights: Weights) -> Product:
    """The product over kept slices: loops (.., panel), m, inside a panel, (slice, inside a slice)."""
    panels, slices = len(kept), max(1, int(kept.sum(axis=1).max()))
    table = np.zeros((panels, slices), np.int32)
    packed = np.zeros((panels, slices, step, width), values.dtype)
    whole = values.reshape(-1, step, panels, width)
    for number, mine in enumerate(kept):
        (found,) = np.nonzero(mine)
        table[number, : len(found)] = found
        packed[number, : len(found)] = whole[found, :, number]
    panel, inner, at, inside = (X.fresh(extent) for extent in (panels, width, slices, step))
    taken = X.cast(X.load(weights.add(table), (positions.linearize((panel, at), (panels, slices)),), "i32"), "i64")
    change = {p.n[0]: X.lift(panel * width + inner, "i64")}
    extents = [most(v) for v in p.k[:-1]] + [most(p.k[-1]) // step]
    for v, extent, below in zip(p.k, extents, [prod(extents[k + 1 :]) for k in range(len(extents))]):
        which = X.lift(taken // below if below > 1 else taken, "i64")
        which = X.lift(which % extent, "i64") if v is not p.k[0] else which
        change[v] = X.lift(which * step + inside, "i64") if v is p.k[-1] else which
    place = positions.linearize((panel, at, inside, inner), (panels, slices, step, width))
    l = X.load(weights.add(packed), (place,), p.l.dtype)
    s, address, epilogue = (X.substitute(e, change) for e in (p.s, p.address, p.epilogue))
    return replace(p, address=address, batch=(*p.batch, panel), n=(inner,), k=(at, inside), s=s, l=l, epilogue=epilogue)
