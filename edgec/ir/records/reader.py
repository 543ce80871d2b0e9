"""The reader of records: a closed set of classes, and fields whose values are what their annotations say.

Texts are files that anybody may have written. Nothing is evaluated or imported by name, nesting and numbers are
bounded, and whatever is wrong is a ModelError with the number of its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from edgec.errors import EdgecError, ModelError
from edgec.ir.dtypes import DTYPES, dtype_name
from edgec.ir.expr import Expr
from edgec.ir.graph import Array, Graph, Node, Procedure
from edgec.ir.records.classes import Classes, accepts
from edgec.ir.records.read_expressions import ExpressionReader
from edgec.ir.records.tokens import Token, Tokens, shortened
from edgec.ir.registry import meaning
from edgec.ir.text import INLINE_ELEMENTS
from edgec.ir.text_reader import GraphReader, elements, identifier
from edgec.ir.types import Type

#: Records and collections nest at most this deep.
_NESTING = 40
#: Errors of a record that checks its fields.
_OF_CONSTRUCTORS = (TypeError, ValueError, AssertionError, LookupError, ArithmeticError, AttributeError, EdgecError)
_WORDS = {"None": None, "True": True, "False": False}


#: A sentence on what is wrong with a record whose fields have the right types, or None.
Complaint = Callable[[Any], "str | None"]


def read(text: str, root: type, classes: Classes, constants: Mapping[str, Array], complaint: Complaint) -> Any:
    """The record of class ``root`` that a text holds; ``constants`` are the arrays that it names by digest.

    Every record is shown to ``complaint`` when it is made.

    Raises ModelError with the number of the line for anything that is malformed, unknown, undefined or of a wrong type.
    """
    try:
        return _Reader(root, classes, constants, complaint).read(text)
    except RecursionError:
        raise ModelError("the text nests too deep") from None


class _Reader:
    def __init__(self, root: type, classes: Classes, constants: Mapping[str, Array], complaint: Complaint) -> None:
        self.complaint = complaint
        self.root = root
        self.classes = classes
        self.constants = constants
        self.graphs: list[GraphReader] = []
        self.finished: list[Graph] = []
        self.records: dict[str, Any] = {}
        self.expressions = ExpressionReader(self.slot)
        self.depth = 0

    def read(self, text: str) -> Any:
        rest = self.read_graphs(text.split("\n"))
        self.finished = [g.finish() for g in self.graphs]
        tokens = Tokens("\n".join(text.split("\n")[rest:]), rest + 1)
        while tokens.now.kind == "part" or (tokens.now.kind == "word" and tokens.after().text == "="):
            if tokens.now.kind == "part":
                self.expressions.define(tokens)
                continue
            name = tokens.next().text
            if name in self.records:
                raise tokens.error(f"{shortened(name)} is defined twice")
            tokens.expect("=")
            self.records[name] = self.value(tokens)
        found = self.value(tokens)
        if type(found) is not self.root or tokens.now.kind != "end":
            raise tokens.error(f"expected a {self.root.__name__}, and the end of the text after it")
        return found

    def read_graphs(self, lines: list[str]) -> int:
        """Read the graphs, and the nodes behind them; gives the number of lines that were read."""
        current: GraphReader | None = None
        for number, line in enumerate(lines):
            if current is not None and current.outputs is None:
                current.read(line)
            elif line.startswith(("graph ", "size ")):
                current = GraphReader(self.constants, number)
                self.graphs.append(current)
                current.read(line)
            elif line.startswith("%") and self.graphs:
                self.graphs[0].lines = number
                self.graphs[0].read_more(line)
            elif line.strip() and not line.startswith("#"):
                return number
        return len(lines)

    # ---- values

    def value(self, tokens: Tokens) -> Any:
        """A number, string, node, array, type, expression, record or collection."""
        self.depth += 1
        if self.depth > _NESTING:
            raise tokens.error("the text nests too deep")
        found = self.plain(tokens)
        self.depth -= 1
        return found

    def plain(self, tokens: Tokens) -> Any:
        kind, text, _ = tokens.now
        if kind == "string":
            return tokens.string()
        if kind == "node":
            return self.node(tokens)
        if text == "`":
            return self.expressions.quoted(tokens)
        if text in ("(", "[", "{"):
            return self.collection(tokens)
        if kind == "number" or text in ("-", "inf", "nan"):
            return tokens.number()
        if kind == "word":
            return self.named(tokens)
        raise tokens.error(f"expected a value and found {shortened(text)}")

    def named(self, tokens: Tokens) -> Any:
        """A value that begins with a name: a constant, a type or array, a graph, a record or an enumeration member."""
        following = tokens.after()
        text = tokens.word()
        if text in _WORDS:
            return _WORDS[text]
        if text in DTYPES and following.text == "[":
            return self.typed(tokens, text)
        if text == "set" and following.text == "(":
            tokens.expect("(")
            return self.hashable(tokens, lambda: frozenset(self.listed(tokens, ")")))
        if text == "procedure" and following.text == "(":
            return self.procedure(tokens)
        if text in self.classes.by_name:
            cls = self.classes.by_name[text]
            return self.member(tokens, cls) if issubclass(cls, Enum) else self.record(tokens, cls)
        if text in self.records:
            return self.records[text]
        number = text.removeprefix("graph")
        if text.startswith("graph") and len(number) < 6 and number.isdecimal() and int(number) < len(self.finished):
            return self.finished[int(number)]
        raise tokens.error(f"{shortened(text)} is not defined, and no class that may be named here")

    def collection(self, tokens: Tokens) -> Any:
        if tokens.accept("("):
            return tuple(self.listed(tokens, ")"))
        if tokens.accept("["):
            return self.listed(tokens, "]")
        tokens.expect("{")
        pairs: list[tuple[Any, Any]] = []
        while not tokens.accept("}"):
            key = self.value(tokens)
            tokens.expect(":")
            pairs.append((key, self.value(tokens)))
            if not tokens.accept(","):
                tokens.expect("}")
                break
        return self.hashable(tokens, lambda: dict(pairs))

    def listed(self, tokens: Tokens, close: str) -> list[Any]:
        found = []
        while not tokens.accept(close):
            found.append(self.value(tokens))
            if not tokens.accept(","):
                tokens.expect(close)
                break
        return found

    def hashable(self, tokens: Tokens, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except TypeError:
            raise tokens.error("a collection cannot be a key") from None

    def record(self, tokens: Tokens, cls: type) -> Any:
        """A record; every field has a value that its annotation accepts."""
        start = tokens.now
        tokens.expect("(")
        annotations = self.classes.annotations[cls]
        known = {f.name: f for f in self.classes.fields(cls)}
        values: dict[str, Any] = {}
        while not tokens.accept(")"):
            name = tokens.word()
            if name not in known or name in values:
                raise tokens.error(f"{cls.__name__} has no field {shortened(name)}, or has it already")
            tokens.expect("=")
            here = tokens.now
            values[name] = self.value(tokens)
            if not accepts(annotations[name], values[name]):
                raise _error(here, f"the field {name} of {cls.__name__} cannot hold {shortened(here.text)}")
            if not tokens.accept(","):
                tokens.expect(")")
                break
        needed = (f for f in known.values() if f.default is MISSING and f.default_factory is MISSING)
        missing = [f.name for f in needed if f.name not in values]
        if missing:
            raise _error(start, f"{cls.__name__} lacks {', '.join(missing)}")
        try:
            found = cls(**values)
            wrong = self.complaint(found)
        except _OF_CONSTRUCTORS as error:
            raise _error(start, f"no {cls.__name__} has these fields ({shortened(str(error))})") from None
        if wrong is not None:
            raise _error(start, wrong)
        return found

    def member(self, tokens: Tokens, cls: type[Enum]) -> Enum:
        tokens.expect(".")
        name = tokens.word()
        return cls[name] if name in cls.__members__ else tokens.fail(f"{cls.__name__} has no {shortened(name)}")

    # ---- nodes, types and arrays

    def node(self, tokens: Tokens) -> Node:
        text = tokens.next().text
        number, _, name = text.partition("%")
        name = identifier(tokens.quoted(name)) if name.startswith('"') else name
        which = int(number) if number and len(number) < 6 else 0
        if which < len(self.graphs) and len(number) < 6:
            named = self.graphs[which].named
            found = named.get(f"%{name}") if name.isdecimal() else named.get(name)
            if found is not None:
                return found
        raise tokens.error(f"{shortened(text)} is not defined")

    def procedure(self, tokens: Tokens) -> Procedure:
        tokens.expect("(")
        if tokens.now.kind != "node":
            raise tokens.error("expected a node")
        node = self.node(tokens)
        tokens.expect(")")
        found = meaning(node) if node.op not in ("input", "const", "copy") else None
        return found if isinstance(found, Procedure) else tokens.fail(f"{node.op} is no procedure")

    def typed(self, tokens: Tokens, dtype: str) -> Type | np.ndarray:
        """A type; or an array of that type, if elements or a digest follow."""
        tokens.expect("[")
        shape = tuple(self.listed(tokens, "]"))
        if not all(isinstance(n, Expr) or (type(n) is int and n >= 0) for n in shape):
            raise tokens.error("a shape holds what is no extent")
        if tokens.now.kind == "digest":
            return self.array(tokens, dtype, shape)
        return self.elements(tokens, dtype, shape) if tokens.is_at("[") else Type(dtype, shape)

    def array(self, tokens: Tokens, dtype: str, shape: tuple[Any, ...]) -> np.ndarray:
        digest = tokens.next().text[1:]
        if digest not in self.constants:
            raise tokens.error(f"the array @{shortened(digest)} is not at hand")
        value = self.constants[digest].value
        if dtype_name(value.dtype) != dtype or value.shape != shape:
            raise tokens.error(f"the array @{shortened(digest)} is of another type or shape")
        return value

    def elements(self, tokens: Tokens, dtype: str, shape: tuple[Any, ...]) -> np.ndarray:
        """The elements of a small array, by the reader of constants in graphs."""
        words: list[str] = []
        while tokens.now.kind in ("mark", "number", "word") and len(words) < 4 * INLINE_ELEMENTS:
            words.append(tokens.next().text)
            if words[-1] == "]":
                break
        try:
            found = elements(_spelled(words), DTYPES[dtype])
            if found.size != prod(shape) or any(isinstance(n, Expr) for n in shape):
                raise tokens.error("an array with another number of elements than its shape says")
            value = found.reshape(shape)
        except ModelError as error:
            raise tokens.error(error.message) from None
        value.flags.writeable = False
        return value

    def slot(self, tokens: Tokens) -> tuple[Any, str | None]:
        """The slot that an expression loads from, and its element type."""
        kind, text, _ = tokens.now
        if kind == "node":
            node = self.node(tokens)
            return node, node.type.dtype
        if kind == "string":
            name = tokens.string()
            return name if name.isidentifier() else tokens.fail(f"{shortened(text)} is no name"), None
        if text == "load":
            tokens.next()
            tokens.expect("(")
            found = self.value(tokens)
            tokens.expect(")")
            return self.hashable(tokens, lambda: (found, hash(found))[0]), None
        if text not in self.records:
            raise tokens.error(f"{shortened(text)} is not defined")
        tokens.next()
        record = self.records[text]
        dtype = getattr(record, "dtype", None)
        return self.hashable(tokens, lambda: (record, hash(record))[0]), dtype if isinstance(dtype, str) else None


def _spelled(words: Iterable[str]) -> str:
    return " ".join(words).replace("- ", "-")


def _error(token: Token, message: str) -> ModelError:
    return ModelError(message, where=f"line {token.line}")
