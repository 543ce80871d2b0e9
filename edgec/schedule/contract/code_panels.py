"""Panels of codes of few bits: for each column, groups of codes behind their scale and offset, in order.

A panel begins each group of groups with the factors that its scales and offsets share, if they have such. A word of a
lane holds eight codes of four bits: byte b has code b in its low and code b + 4 in its high half. Codes of six bits
keep their low four bits so, sixteen of them in two words, and the high two bits in a third word, whose byte b has those
of codes b, b + 4, b + 8 and b + 12. Of eight bits, a word has four codes.
"""

from __future__ import annotations

import numpy as np

from edgec.schedule.contract.codes import Codes


def packed_codes(found: Codes, width: int, bits: int) -> np.ndarray:
    """[outer, panel, words of a panel] in 32 bits, for panels of ``width`` columns and codes of ``bits``."""
    each = [found.scale, *([found.base] if found.base is not None else [])]
    rows = [_bytes(x.codes[:, :, None], width) for x in each]
    rows.append(_bytes(_words(found.codes, bits), width))
    groups = np.concatenate(rows, axis=3)
    around, panels, *_ = groups.shape
    factors = [_bytes(x.factor[:, :, None], width) for x in each if x.factor is not None]
    if factors:
        wholes = factors[0].shape[2]
        groups = np.concatenate([*factors, groups.reshape(around, panels, wholes, -1)], axis=3)
    return np.ascontiguousarray(groups.reshape(around, panels, -1)).view(np.int32)


def _words(codes: np.ndarray, bits: int) -> np.ndarray:
    """[outer, groups, words of a group, n] of codes [outer, groups, group, n]."""
    around, groups, group, columns = codes.shape

    def gathered(x: np.ndarray, parts: int, width: int) -> np.ndarray:
        """Words of 4 * ``parts`` codes: those a quarter of a word apart are neighbors in a byte."""
        split = x.reshape(around, groups, -1, parts, 4, columns)
        total = np.zeros((around, groups, split.shape[2], 4, columns), np.uint8)
        for part in range(parts):
            total |= split[:, :, :, part] << np.uint8(part * width)
        return np.ascontiguousarray(total.swapaxes(3, 4)).view(np.uint32)[..., 0]

    if bits == 8:
        return gathered(codes, 1, 8)
    low = gathered(codes & np.uint8(15), 2, 4)
    if bits == 4:
        return low
    high = gathered(codes >> np.uint8(4), 4, 2)
    pairs = low.reshape(around, groups, group // 16, 2, columns)
    return np.concatenate([pairs, high[:, :, :, None]], axis=3).reshape(around, groups, -1, columns)


def _bytes(rows: np.ndarray, width: int) -> np.ndarray:
    """[outer, panel, groups, bytes] of rows [outer, groups, rows, n], with zeros where the last panel exceeds n."""
    around, groups, count, columns = rows.shape
    panels = -(-columns // width)
    padded = np.zeros((around, groups, count, panels * width), rows.dtype)
    padded[..., :columns] = rows
    split = padded.reshape(around, groups, count, panels, width).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(split).view(np.uint8).reshape(around, panels, groups, -1)
