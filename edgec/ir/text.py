"""The text form of a graph: it prints, and it reads back to the identical nodes.

    graph net(x: f32[2,8]) -> (y)
    %0: f32[8] = const [1.0, 2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]
    %1: f32[2,8] = mul(x, %0)                                       # /layer/Mul
    %2: f32[8,2] = transpose(%1, perm=(1, 0))
    return y=%2

A dimension that is known only at run time is a formula of sizes in braces, ``f32[1,{width * 32}]``; a line
``size width = 1..30`` before the graph gives its range, and ``size n = %4`` the node it is the value of, if one is.
``demand %5 "..."`` names a truth value without which the outputs mean nothing.
Names that are no identifiers stand in double quotes. A constant of more elements than are worth reading is written
as ``const @digest`` and looked up when it is read. What follows ``#`` names the ONNX nodes a node came from, and is
read back as such.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Array, Graph, Node, intern, placeholder, sizes_in
from edgec.ir.registry import node
from edgec.ir.types import DTYPES, Type, dtype_name, extent_text

#: Constants of up to this many elements are written out.
INLINE_ELEMENTS = 16


def show(graph: Graph) -> str:
    """The text form of ``graph``."""
    names = {n: _name(n.attributes["name"]) for n in graph.inputs}
    lines: list[str] = []
    for n in graph.nodes():
        if n not in names:
            names[n] = f"%{len(lines)}"
            comment = ", ".join(map(_name_in_comment, graph.names(n)))
            line = f"{names[n]}: {n.type} = {_operation(n, names)}"
            lines.append(f"{line}  # {comment}" if comment else line)
    inputs = ", ".join(f"{names[n]}: {n.type}" for n in graph.inputs)
    outputs = ", ".join(_name(name) for name, _ in graph.outputs)
    results = ", ".join(f"{_name(name)}={names[n]}" for name, n in graph.outputs)
    sizes = [f"size {s.value.name} = {s.value.low}..{s.value.high}" for s in _sizes_of(graph)]
    computed = [f"size {s.value.name} = {names[n]}" for s, n in graph.needed_sizes().items()]
    demands = [f"demand {names[n]} {json.dumps(message)}" for message, n in graph.demands]
    about = [f"metadata {json.dumps(k)} = {json.dumps(v)}" for k, v in graph.metadata.items()]
    head = f"graph {_name(graph.name)}({inputs}) -> ({outputs})"
    return "\n".join([*sizes, head, *about, *lines, *computed, *demands, f"return {results}"]) + "\n"


def constants_of(graph: Graph) -> dict[str, Array]:
    """The constants of a graph by digest: what ``parse`` needs beside the text."""
    arrays = (n.attributes["value"] for n in graph.nodes() if n.op == "const")
    return {array.digest: array for array in arrays}


def parse(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph a text stands for; ``constants`` holds the arrays it names by digest.

    Raises ModelError with the number of the line for anything that is malformed, undefined or of another type
    than written.
    """
    reader = _Reader(constants or {})
    try:
        for line in text.splitlines():
            reader.read(line)
        return reader.finish()
    except ModelError as error:
        raise ModelError(error.message, hint=error.hint, where=f"line {max(reader.lines, 1)}") from None


def _sizes_of(graph: Graph) -> list[Expr]:
    found: dict[Expr, None] = {}
    for n in (*graph.inputs, *graph.nodes()):
        found.update(dict.fromkeys(sizes_in(n)))
    return sorted(found, key=lambda s: str(s.value.name))


# ---- writing


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else json.dumps(name)


def _name_in_comment(name: str) -> str:
    plain = name.isprintable() and re.fullmatch(r"[^\s,\"]([^,\"]*[^\s,\"])?", name)
    return name if plain else json.dumps(name)


def _operation(node: Node, names: Mapping[Node, str]) -> str:
    if node.op == "const":
        return f"const {_array(node.attributes['value'])}"
    attributes = [f"{k}={_literal(v)}" for k, v in node.attrs]
    return f"{node.op}({', '.join([*(names[a] for a in node.args), *attributes])})"


def _array(array: Array) -> str:
    value = array.value
    if value.size <= INLINE_ELEMENTS:
        written = f"[{', '.join(map(_element, value.reshape(-1)))}]"
        back = _typed(_value(_Tokens(written)), value.dtype).reshape(value.shape)
        if back.tobytes() == value.tobytes():  # not so for a NaN with a payload
            return written
    return f"@{array.digest}"


def _element(element: Any) -> str:
    """The shortest spelling that reads back exactly; numpy knows the shortest for narrow floats."""
    value, short = element.item(), str(element)
    if isinstance(value, float) and np.isfinite(value) and type(element)(float(short)) == element:
        return short if re.search(r"[.e]", short) else f"{short}.0"
    return _literal(value)


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Expr):
        return extent_text(value)
    return json.dumps(value) if isinstance(value, str) else repr(value)


# ---- reading


def _typed(values: Any, dtype: np.dtype) -> np.ndarray:
    try:
        return np.array(values, np.float64).astype(dtype) if dtype.kind in "fV" else np.array(values, dtype)
    except (ValueError, TypeError, OverflowError):
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


def _string(tokens: _Tokens) -> str:
    if tokens.kind() == "string":
        return str(json.loads(tokens.next()))
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


class _Reader:
    """Reads line by line; knows what was defined so far."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self.constants = constants
        self.head: tuple[str, tuple[Node, ...], tuple[str, ...]] | None = None
        self.named: dict[str, Node] = {}
        self.outputs: tuple[tuple[str, Node], ...] | None = None
        self.origin: dict[Node, tuple[str, ...]] = {}
        self.metadata: dict[str, str] = {}
        self.sizes: dict[str, Expr] = {}
        self.computed: dict[Expr, Node] = {}
        self.demands: list[tuple[str, Node]] = []
        self.lines = 0

    def read(self, line: str) -> None:
        self.lines += 1
        tokens = _Tokens(line, self.sizes)
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
            low, high = map(int, tokens.next().split(".."))
            self.sizes[name] = X.size(name, low, high)
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
            self.define(_name(label), inputs[-1])
        tokens.expect("->")
        tokens.expect("(")
        self.head = (name, tuple(inputs), tuple([_string(tokens) for _ in tokens.listed(")")]))

    def define(self, name: str, node: Node) -> None:
        if name in self.named:
            raise ModelError(f"{name} is defined twice")
        self.named[name] = node

    def reference(self, tokens: _Tokens) -> Node:
        kind, name = tokens.kind(), tokens.next()
        name = _name(str(json.loads(name))) if kind == "string" else name
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
            else:
                args.append(self.reference(tokens))
        if op == "input":  # one that the graph does not declare
            return intern("input", (), attributes, written)
        try:
            return node(op, *args, **attributes)
        except TypeError as error:
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
