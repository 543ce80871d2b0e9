"""The Kotlin class of a network: names and types that its template takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.emit.foreign import JAVA

_KOTLIN_WORDS = """
as break class continue do else false for fun if in interface is null object package return super this throw true try
typealias typeof val var when while
"""
_WORDS = frozenset(_KOTLIN_WORDS.split())


def kotlin_values(
    inputs: Sequence[Any], outputs: Sequence[Any], word: Callable[[str], str], is_open: bool
) -> dict[str, Any]:
    """Values that ``Net.kt`` sees, for ports with their C types; ``word`` is their name in Java."""
    arrays: Mapping[str, str] = {ctype: f"{buffer.removesuffix('Buffer')}Array" for ctype, buffer in JAVA.items()}
    taken = {word(port.name) for port in (*inputs, *outputs)}

    def kotlin_word(name: str) -> str:
        return f"`{word(name)}`" if word(name) in _WORDS else word(name)

    def own(name: str) -> str:
        """A name of ours, out of the way of those of the model."""
        return own(f"{name}_") if name in taken else name

    parameters = [f"{kotlin_word(p.name)}: {arrays[p.ctype]}" for p in inputs]
    passed = [kotlin_word(p.name) for p in inputs]
    if is_open:
        parameters.append(f"{own('sizes')}: LongArray")
        passed.append(own("sizes"))
    return {
        "kotlin": arrays, "kotlin_word": kotlin_word, "own": own, "parameters_kt": ", ".join(parameters),
        "passed_kt": ", ".join(passed), "arguments_kt": ", ".join(f"{name} = {name}" for name in passed),
        "result_kt": "Outputs" if len(outputs) > 1 else arrays[outputs[0].ctype] if outputs else "Unit",
    }  # fmt: skip
