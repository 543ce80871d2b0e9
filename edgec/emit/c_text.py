"""Small pieces of C text: names of run-time sizes, pointers, parentheses."""

from __future__ import annotations

from edgec.ir.expr import Expr


def size_name(size: Expr) -> str:
    """The name of a run-time size in C, where size_t is taken."""
    name = f"size_{size.value.name}"
    return "size_t_" if name == "size_t" else name


def advanced(pointer: str, place: str) -> str:
    """A pointer to the element at a position."""
    return pointer if place == "0" else f"{pointer} + {place}"


def is_enclosed(text: str) -> bool:
    """Does the first parenthesis close at the very end?"""
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return k == len(text) - 1 and text[0] == "("
    return False
