"""Decision trees: the leaf that each tree ends in."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.ir.graph import Procedure
from edgec.ir.index import upper
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import Type


@procedure
def descend(x: Tensor, roots: Tensor, splits: Tensor, nodes: Tensor, *, depth: int) -> Procedure:
    """Numbers [rows, trees] (i32) of the leaves that the trees' ``roots`` lead to for each row of x [rows, features].

    ``nodes`` [branches, 4] (i32) has, for every branch, its feature and the nodes that follow where the feature is at
    most the branch's split (``splits``, of the type of x), greater, and NaN. Nodes from ``branches`` on are leaves,
    numbered from there. No path may be longer than ``depth``, and all numbers must be those of features and nodes.
    """
    if x.rank != 2 or roots.rank != 1 or splits.rank != 1 or nodes.type.shape != (*splits.shape, 4):
        raise ModelError(f"trees {roots.type}, {splits.type}, {nodes.type} do not fit {x.type}")
    if x.dtype not in ("f32", "f64") or splits.dtype != x.dtype or not roots.dtype == nodes.dtype == "i32":
        raise ModelError("features and splits are of one type, f32 or f64; numbers of nodes are i32")
    rows, trees, branches = x.shape[0], roots.shape[0], splits.shape[0]

    def compute(values: np.ndarray, starts: np.ndarray, borders: np.ndarray, follow: np.ndarray) -> np.ndarray:
        at = np.tile(starts, (len(values), 1))
        for _ in range(depth):
            inside = at < branches
            if not inside.any():
                break
            row, (feature, *ways) = np.nonzero(inside)[0], follow[at[inside]].T
            value, border = values[row, feature], borders[at[inside]]
            at[inside] = np.select([value <= border, value > border], ways[:2], ways[2])
        return np.asarray(at - branches, np.int32)

    return Procedure(
        Type("i32", (rows, trees)),
        compute,
        tasks=trees,
        steps=4 * upper(rows) * trees * max(depth, 1),
        sizes={"branches": branches, "features": x.shape[1], "rows": rows, "trees": trees},
    )
