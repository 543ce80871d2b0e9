"""The reader of graphs as text: one line after the other, each of them checked."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import MODEL_SHA256, Array, Graph, Node, intern, placeholder
from edgec.ir.registry import node
from edgec.ir.types import DTYPES, Type, dtype_name


def identifier(name: str) -> str:
    """A name as texts write it: in double quotes unless it is an identifier."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else json.dumps(name)


#: Errors of definitions of operators, which are written for operands that fit.
_OF_DEFINITIONS = (TypeError, ValueError, LookupError, ArithmeticError, AssertionError, AttributeError)
#: Longer numbers are no sizes.
_DIGITS = 18


def elements(text: str, dtype: np.dtype) -> np.ndarray:
    """The elements that a list in brackets spells; raises ModelError for what is none of that type."""
    return _typed(_value(_Tokens(text)), dtype)


def _typed(values: Any, dtype: np.dtype) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy 1 wraps integers that are too large, and says so
            return np.array(values, np.float64).astype(dtype) if dtype.kind in "fV" else np.array(values, dtype)
    except (ValueError, TypeError, OverflowError, DeprecationWarning):
        raise ModelError(f"these values are no elements of type {dtype_name(dtype)}") from None


_TOKEN = re.compile(
    r"""\s*(?: (?P<string>"(?:[^"\\]|\\.)*") | (?P<formula>\{[^{}]*\}) | (?P<range>\d+\.\.\d+) |
         (?P<node>%\d+) | (?P<number>-inf\b|-?\d[\w.]*(?:(?<=e)[+-]\d+)?)
        | (?P<word>[A-Za-z_]\w*) | (?P<digest>@\w+) | (?P<arrow>->) | (?P<mark>[][(),:=]) )""",
    re.VERBOSE | re.ASCII,
)


class _Tokens:
    """The tokens of one line; ``comment`` is what follows the #, ``sizes`` what formulas of sizes may name."""

    def __init__(self, line: str, sizes: Mapping[str, Expr] = {}) -> None:
        self.sizes = sizes
        self.items: list[tuple[str, str]] = []
        self.position = 0
        self.comment = ""
        place = 0
        end = len(line.rstrip())
        while place < end:
            if line[place:].lstrip().startswith("#"):
                self.comment = line[place:].lstrip()[1:].strip()
                break
            found = _TOKEN.match(line, place)
            if not found:
                raise ModelError(f"cannot read '{line[place:].strip()}'")
            self.items.append((str(found.lastgroup), found[found.lastgroup or 0]))
            place = found.end()

    def peek(self) -> str:
        return self.items[self.position][1] if self.position < len(self.items) else "the end of the line"

    def kind(self) -> str:
        return self.items[self.position][0] if self.position < len(self.items) else "end"

    def next(self) -> str:
        text = self.peek()
        self.position += 1
        return text

    def accept(self, text: str) -> bool:
        if self.kind() not in ("end", "string") and self.peek() == text:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise ModelError(f"expected '{text}' and found {self.peek()}")

    def done(self) -> None:
        if self.kind() != "end":
            raise ModelError(f"expected the end of the line and found {self.peek()}")

    def listed(self, close: str) -> Iterator[None]:
        """Step through items separated by commas, up to ``close``."""
        while not self.accept(close):
            yield
            if not self.accept(","):
                self.expect(close)
                return


def _spelled(text: str) -> str:
    """The string that a text in quotes spells."""
    try:
        return str(json.loads(text))
    except ValueError:
        raise ModelError(f"cannot read the string {text}") from None


def _string(tokens: _Tokens) -> str:
    if tokens.kind() == "string":
        return _spelled(tokens.next())
    if tokens.kind() == "word":
        return tokens.next()
    raise ModelError(f"expected a name and found {tokens.peek()}")


def _value(tokens: _Tokens) -> Any:
    """A literal: number, word, string, tuple or list."""
    if tokens.accept("("):
        return tuple([_value(tokens) for _ in tokens.listed(")")])
    if tokens.accept("["):
        return [_value(tokens) for _ in tokens.listed("]")]
    if tokens.kind() == "string":
        return _string(tokens)
    if tokens.kind() == "formula":
        return _formula(tokens)
    text = tokens.next()
    words = {"True": True, "False": False, "None": None, "nan": np.nan, "inf": np.inf, "-inf": -np.inf}
    if text in words:
        return words[text]
    try:
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    except ValueError:
        raise ModelError(f"expected a value and found {text}") from None


def _words(value: Any) -> Iterator[str]:
    """The strings of an attribute."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _words(item)


_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "floormod"}


def _formula(tokens: _Tokens) -> Extent:
    """A formula of sizes in braces; Python's own parser reads it, but only arithmetic is understood."""
    text = tokens.next()

    def built(part: ast.AST) -> Expr:
        if isinstance(part, ast.Constant) and type(part.value) is int:
            return X.const(part.value)
        if isinstance(part, ast.Name) and part.id in tokens.sizes:
            return tokens.sizes[part.id]
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
            return -built(part.operand)
        if isinstance(part, ast.BinOp) and type(part.op) in _ARITHMETIC:
            return X.call(_ARITHMETIC[type(part.op)], built(part.left), built(part.right))
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ("min", "max", "select"):
            return X.call(part.func.id, *map(built, part.args))
        raise ModelError(f"cannot read the formula {text}")

    try:
        return X.plain(built(ast.parse(text[1:-1].strip(), mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError, IndexError):
        raise ModelError(f"cannot read the formula {text}") from None


def _type(tokens: _Tokens) -> Type:
    dtype = tokens.next()
    if dtype not in DTYPES:
        raise ModelError(f"'{dtype}' is no element type", hint=f"one of {', '.join(DTYPES)}")
    tokens.expect("[")
    shape = tuple([_value(tokens) for _ in tokens.listed("]")])
    if not all(isinstance(extent, Expr) or (type(extent) is int and extent >= 0) for extent in shape):
        raise ModelError(f"{shape} is no shape")
    return Type(dtype, shape)


class GraphReader:
    """Reads line by line; knows what was defined so far."""

    def __init__(self, constants: Mapping[str, Array], lines: int = 0) -> None:
        self.constants = constants
        self.head: tuple[str, tuple[Node, ...], tuple[str, ...]] | None = None
        self.named: dict[str, Node] = {}
        self.outputs: tuple[tuple[str, Node], ...] | None = None
        self.origin: dict[Node, tuple[str, ...]] = {}
        self.metadata: dict[str, str] = {}
        self.sizes: dict[str, Expr] = {}
        self.computed: dict[Expr, Node] = {}
        self.demands: list[tuple[str, Node]] = []
        self.lines = lines  # read so far, by whoever reads what is before the graph

    def graph_of(self, text: Iterable[str]) -> Graph:
        """The graph that the lines stand for; raises ModelError with the number of the line."""
        for line in text:
            self.read(line)
        try:
            return self.finish()
        except ModelError as error:
            raise ModelError(error.message, hint=error.hint, where=f"line {max(self.lines, 1)}") from None

    def read(self, line: str) -> None:
        """Read the next line; raises ModelError with its number."""
        self.lines += 1
        try:
            self._read(_Tokens(line, self.sizes))
        except ModelError as error:
            raise ModelError(error.message, hint=error.hint, where=f"line {self.lines}") from None

    def read_more(self, line: str) -> None:
        """Read a node that does not belong to the graph, from a line after ``return``; its origin is kept with it."""
        self.lines += 1
        tokens = _Tokens(line, self.sizes)
        try:
            self.node(tokens)
            tokens.done()
        except ModelError as error:
            raise ModelError(error.message, hint=error.hint, where=f"line {self.lines}") from None

    def _read(self, tokens: _Tokens) -> None:
        if tokens.kind() == "end":
            return
        if self.outputs is not None:
            raise ModelError("nothing may follow 'return'")
        if tokens.accept("size"):
            self.size(tokens)
        elif tokens.accept("demand"):
            node = self.reference(tokens)
            self.demands.append((_string(tokens), node))
        elif tokens.accept("graph"):
            self.graph(tokens)
        elif self.head is None:
            raise ModelError("a graph begins with 'graph name(inputs) -> (outputs)'")
        elif tokens.accept("metadata"):
            key = _string(tokens)
            tokens.expect("=")
            self.metadata[key] = _string(tokens)
            if key == MODEL_SHA256 and not re.fullmatch(r"[0-9a-f]{64}", self.metadata[key]):
                raise ModelError("the hash of the model is none")  # it ends in C
        elif tokens.accept("return"):
            self.result(tokens)
        else:
            self.node(tokens)
        tokens.done()

    def size(self, tokens: _Tokens) -> None:
        """A run-time size and its range, or the node that computes one."""
        name = _string(tokens)
        tokens.expect("=")
        if tokens.kind() == "range":
            low, _, high = tokens.next().partition("..")
            if max(len(low), len(high)) > _DIGITS or int(low) > int(high):
                raise ModelError(f"no range of a size: {low}..{high}")
            self.sizes[name] = X.size(name, int(low), int(high))
        elif name in self.sizes:
            self.computed[self.sizes[name]] = self.reference(tokens)
        else:
            raise ModelError(f"the size {name} has no range")

    def graph(self, tokens: _Tokens) -> None:
        name = _string(tokens)
        inputs = []
        tokens.expect("(")
        for _ in tokens.listed(")"):
            label = _string(tokens)
            tokens.expect(":")
            inputs.append(placeholder(label, _type(tokens)))
            self.define(identifier(label), inputs[-1])
        tokens.expect("->")
        tokens.expect("(")
        self.head = (name, tuple(inputs), tuple([_string(tokens) for _ in tokens.listed(")")]))

    def define(self, name: str, node: Node) -> None:
        if name in self.named:
            raise ModelError(f"{name} is defined twice")
        self.named[name] = node

    def reference(self, tokens: _Tokens) -> Node:
        kind, name = tokens.kind(), tokens.next()
        name = identifier(_spelled(name)) if kind == "string" else name
        if name not in self.named:
            raise ModelError(f"{name} is not defined")
        return self.named[name]

    def node(self, tokens: _Tokens) -> None:
        if tokens.kind() != "node":
            raise ModelError(f"expected a node such as %0 and found {tokens.peek()}")
        name = tokens.next()
        tokens.expect(":")
        written = _type(tokens)
        tokens.expect("=")
        op = tokens.next()
        node = self.const(tokens, written) if op == "const" else self.operation(tokens, op, written)
        if node.type != written:
            raise ModelError(f"{name} is {node.type}, not {written}")
        self.define(name, node)
        if tokens.comment:
            self.origin[node] = _names_of(tokens.comment)

    def const(self, tokens: _Tokens, written: Type) -> Node:
        if tokens.kind() == "digest":
            digest = tokens.next()[1:]
            if digest not in self.constants:
                hint = "give `parse` the constants of the graph"
                raise ModelError(f"the constant @{digest} is not at hand", hint=hint)
            array = self.constants[digest]
        else:
            values = _value(tokens)
            if not isinstance(values, list) or len(values) != written.elements:
                raise ModelError(f"expected a list of {written.elements} elements")
            array = Array(_typed(values, DTYPES[written.dtype]).reshape(written.shape))
        return intern("const", (), {"value": array}, Type(dtype_name(array.value.dtype), array.value.shape))

    def operation(self, tokens: _Tokens, op: str, written: Type) -> Node:
        args: list[Node] = []
        attributes: dict[str, Any] = {}
        tokens.expect("(")
        for _ in tokens.listed(")"):
            following = tokens.items[tokens.position + 1 : tokens.position + 2]
            if tokens.kind() == "word" and following == [("mark", "=")]:
                key = tokens.next()
                tokens.expect("=")
                attributes[key] = _value(tokens)
                if wrong := [w for w in _words(attributes[key]) if not re.fullmatch(r"\w*", w, re.ASCII)]:
                    raise ModelError(f"'{wrong[0]}' is no plain word")  # attributes end in C
            else:
                args.append(self.reference(tokens))
        if op == "input":  # one that the graph does not declare
            return intern("input", (), attributes, written)
        if op == "copy" and self.outputs is not None and len(args) == 1:  # plans have them, graphs do not
            return intern("copy", tuple(args), attributes, args[0].type)
        try:
            return node(op, *args, **attributes)
        except _OF_DEFINITIONS as error:
            raise ModelError(f"'{op}' does not take these operands and attributes ({error})") from None

    def result(self, tokens: _Tokens) -> None:
        outputs = []
        for _ in tokens.listed("the end of the line"):
            name = _string(tokens)
            tokens.expect("=")
            outputs.append((name, self.reference(tokens)))
            if tokens.kind() == "end":
                break
        assert self.head is not None
        if tuple(name for name, _ in outputs) != self.head[2]:
            raise ModelError(f"the head promises {', '.join(self.head[2]) or 'no outputs'}")
        self.outputs = tuple(outputs)

    def finish(self) -> Graph:
        if self.head is None or self.outputs is None:
            raise ModelError("the text ends before 'return'")
        name, inputs, _ = self.head
        return Graph(
            inputs, self.outputs, name, self.origin, self.metadata, tuple(self.computed.items()), tuple(self.demands)
        )


def _names_of(comment: str) -> tuple[str, ...]:
    parts = (p.strip() for p in re.findall(r'\s*"(?:[^"\\]|\\.)*"|[^,]+', comment))
    return tuple(_quoted(p) for p in parts if p)


def _quoted(name: str) -> str:
    """A quoted name without its quotes; a comment written by hand may hold any others."""
    try:
        return str(json.loads(name)) if name.startswith('"') else name
    except ValueError:
        return name
