"""Declarations, loops, casts and constants as a language of kernels spells them: C, OpenCL C and CUDA alike.

A language with another syntax derives from this one, and gives it to its printer and its views.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.emit.c_literal import C_TYPES, literal, scalar_update


class Syntax:
    """The syntax of C; ``types`` are those of values by element type, ``position`` that of an index."""

    types: Mapping[str, str] = C_TYPES
    position = "ec_int"

    def constant(self, kind: str, name: str, value: str) -> str:
        """A declaration of what does not change."""
        return f"const {kind} {name} = {value};"

    def variable(self, kind: str, name: str, value: str | None = None) -> str:
        """A declaration of what changes; it has no value yet where none is given."""
        return f"{kind} {name};" if value is None else f"{kind} {name} = {value};"

    def parameter(self, kind: str, name: str) -> str:
        """A parameter of a function."""
        return f"{kind} {name}"

    def loop(self, name: str, extent: str) -> str:
        """The head of a loop from 0 on, up to its opening brace."""
        return f"for ({self.position} {name} = 0; {name} < {extent}; ++{name}) {{"

    def cast(self, kind: str, text: str) -> str:
        return f"({kind}){text}"

    def choice(self, test: str, then: str, otherwise: str) -> str:
        """One of two values; a language may compute both."""
        return f"{test} ? {then} : {otherwise}"

    def literal(self, value: float, dtype: str) -> str:
        """A constant of exactly this value."""
        return literal(value, dtype)

    def update(self, combine: str, name: str, value: str, dtype: str) -> str:
        """A statement that combines a variable with a value."""
        return scalar_update(combine, name, value, dtype)


C_SYNTAX = Syntax()
