"""Formulas as text: a graph of tensors that are given by their elements.

    f32 y[m,n] = max(0, sum(k) a[m,k] * b[k,n] + bias[n])

An index is a name with a size; `sum`, `prod`, `max` and `min` of names combine the term behind them over these. All
other names are operands: their shapes follow from the indices, their types are the result's, or stand behind a colon
(``a:i8[m,k]``) and are converted. A result may be read by later formulas, which a semicolon separates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from edgec.errors import ModelError, UsageError
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Graph, Node, placeholder
from edgec.ir.index import bounds
from edgec.ir.registry import Tensor, node, reduce_over, register
from edgec.ir.types import DTYPES, Type
from edgec.text import listed

#: How a formula calls what combines elements.
COMBINES = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_OF_INDICES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}  # fmt: skip
_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|([A-Za-z]\w*)|(//|<=|>=|[-+*/%()\[\],=:<>]))")
#: Longer texts, and more brackets in one another, are no formulas.
LONGEST, DEEPEST = 4096, 64
_HINT = "as in 'f32 y[m,n] = sum(k) a[m,k] * b[k,n]'"


@dataclass
class Statement:
    """One formula: the result's name, type and indices, its element over loads by operands' names, and the operands'
    types and extents in the order in which they are first read."""

    name: str
    dtype: str
    variables: tuple[Expr, ...]
    shape: tuple[int, ...]
    body: Expr
    operands: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)


def formula(*operands: Tensor, text: str, sizes: tuple[tuple[str, int], ...]) -> Formula:
    """The tensor that ``text`` defines; ``operands`` are in the order in which it first reads them."""
    found = read(text, dict(sizes))
    slots = dict(zip(found.operands, operands))
    if len(operands) != len(found.operands):
        raise ModelError(f"'{text}' has {len(found.operands)} operands, not {len(operands)}")
    for name, (dtype, least) in found.operands.items():
        given = slots[name]
        fits = given.rank == len(least) and all(bool(e >= n) for e, n in zip(given.shape, least))
        if given.dtype != dtype or not fits:
            raise ModelError(f"'{name}' is {given.type}, and '{text}' reads {Type(dtype, least)}")

    def named(e: Expr) -> Expr | None:
        return slots[e.value][e.args] if e.op == "load" else None

    return Formula(Type(found.dtype, found.shape), found.variables, X.transform(found.body, named))


register("formula", formula)


def graph_of(text: str, sizes: Mapping[str, int]) -> Graph:
    """The graph of formulas; its outputs are the results that no later formula reads.

    Raises UsageError for sizes below 1, and ModelError for what is no formula.
    """
    wrong = [name for name, size in sizes.items() if size < 1]
    if wrong:
        raise UsageError(f"the size of '{wrong[0]}' is {sizes[wrong[0]]}", hint="give 1 or more", where="--size")
    texts = [part.strip() for part in text.split(";") if part.strip()]
    statements = [read(part, sizes) for part in texts]
    if not statements:
        raise ModelError("there is no formula", hint=_HINT)
    given: dict[str, tuple[str, tuple[int, ...]]] = {}
    known: set[str] = set()
    for s in statements:
        for name, (dtype, shape) in s.operands.items():
            if name not in known:
                given[name] = (dtype, _joined(name, given[name], dtype, shape) if name in given else shape)
        if s.name in known or s.name in given:
            raise ModelError(f"'{s.name}' is defined twice, or read before it is defined", hint="choose another name")
        known.add(s.name)
    nodes: dict[str, Node] = {name: placeholder(name, Type(dtype, shape)) for name, (dtype, shape) in given.items()}
    order = list(nodes.values())
    for s, part in zip(statements, texts):
        nodes[s.name] = node("formula", *(nodes[n] for n in s.operands), text=part, sizes=tuple(sorted(sizes.items())))
    read_later = {n for s in statements for n in s.operands}
    outputs = tuple((s.name, nodes[s.name]) for s in statements if s.name not in read_later)
    return Graph(tuple(order), outputs, origin={nodes[s.name]: (s.name,) for s in statements})


def read(text: str, sizes: Mapping[str, int]) -> Statement:
    """One formula. Raises ModelError with the place where it is none."""
    return _Reader(text, sizes).statement()


def _joined(name: str, one: tuple[str, tuple[int, ...]], dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of an operand that is read in two ways."""
    if one[0] != dtype or len(one[1]) != len(shape):
        raise ModelError(f"'{name}' is read as {Type(*one)} and as {Type(dtype, shape)}")
    return tuple(map(max, one[1], shape))


class _Reader:
    """A reader of one formula, from left to right."""

    def __init__(self, text: str, sizes: Mapping[str, int]) -> None:
        if len(text) > LONGEST:
            raise ModelError(f"a formula of {len(text)} characters", hint=f"{LONGEST} are the most")
        self.text, self.sizes = text, sizes
        self.items = list(_tokens(text))
        self.position, self.depth = 0, 0
        self.bound: dict[str, Expr] = {}
        self.operands: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.dtype = ""

    def statement(self) -> Statement:
        self.dtype = self._type()
        name = self._name("the result's name")
        indices = list(self._names("[", "]")) if self._peek() == "[" else []
        if len(set(indices)) < len(indices):
            raise self._wrong(f"an index of '{name}' comes twice")
        self.bound = {i: X.var(f"i{d}", self._size(i)) for d, i in enumerate(indices)}
        variables = tuple(self.bound.values())
        self._expect("=")
        body = self._expression()
        if self.position < len(self.items):
            raise self._wrong("expected the end")
        if body.dtype != self.dtype:
            raise ModelError(f"'{name}' is {self.dtype}, and its elements are {body.dtype}", hint="use select(c, a, b)")
        shape = tuple(self._size(i) for i in indices)
        return Statement(name, self.dtype, variables, shape, body, self.operands)

    def _expression(self) -> Expr:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} brackets in one another")
        found = self._sum()
        if self._peek() in ("<", "<=", ">", ">="):
            found = X.call(_BINARY[self._next()], found, self._sum())
        self.depth -= 1
        return found

    def _sum(self) -> Expr:
        found = self._term()
        while self._peek() in ("+", "-"):
            found = self._call(_BINARY[self._next()], found, self._term())
        return found

    def _term(self) -> Expr:
        found = self._factor()
        while self._peek() in ("*", "/"):
            found = self._call(_BINARY[self._next()], found, self._factor())
        return found

    def _factor(self) -> Expr:
        word = self._next()
        if word == "-":
            return self._call("neg", self._factor())
        if word == "(":
            found = self._expression()
            self._expect(")")
            return found
        if word[:1].isdigit() or word[:1] == ".":
            return X.const(float(word), self.dtype)
        if not word.isidentifier():
            raise self._wrong("expected an operand, a number or '('", back=1)
        if self._peek() == "(":
            return self._reduction(word) if self._combines(word) else self._function(word)
        if word in self.sizes:
            return X.cast(self._index(word), self.dtype)
        return self._operand(word)

    def _combines(self, word: str) -> bool:
        """Does a word combine elements: is it no function, or do one name or indices alone stand in its brackets?"""
        if word not in COMBINES or word not in FUNCTIONS:
            return word in COMBINES
        closed = next((k for k, item in enumerate(self.items[self.position :]) if item[0] == ")"), 0)
        inside = [text for text, _ in self.items[self.position + 1 : self.position + closed]]
        is_one = len(inside) == 1 and inside[0].isidentifier()
        return is_one or (bool(inside) and all(text in self.sizes or text == "," for text in inside))

    def _reduction(self, word: str) -> Expr:
        names = list(self._names("(", ")"))
        outer = dict(self.bound)
        taken = [i for i in names if i in outer] + [i for i in names if names.count(i) > 1]
        if taken:
            raise self._wrong(f"the index '{taken[0]}' has a meaning here already")
        own = {i: X.fresh(self._size(i)) for i in names}
        self.bound = {**outer, **own}
        body = self._term()
        self.bound = outer
        return reduce_over(COMBINES[word], tuple(own.values()), body)

    def _function(self, word: str) -> Expr:
        arity = 3 if word == "select" else len(FUNCTIONS[word].derivatives) if word in FUNCTIONS else 0
        if not arity:
            known = listed(["select", *sorted(n for n, f in FUNCTIONS.items() if f.derivatives and n.isalnum())])
            raise ModelError(f"there is no function '{word}'", hint=f"there are {known}", where=self._place(1))
        self._expect("(")
        args = [self._expression()]
        while self._peek() == ",":
            self._next()
            args.append(self._expression())
        self._expect(")")
        if len(args) != arity:
            raise self._wrong(f"'{word}' takes {arity} arguments, not {len(args)}", back=1)
        return self._call(word, *args)

    def _call(self, name: str, *args: Expr) -> Expr:
        """A function of values of the result's type; the first argument of select is a comparison."""
        for k, a in enumerate(args):
            wanted = "bool" if name == "select" and k == 0 else self.dtype
            if a.dtype != wanted:
                raise self._wrong(f"'{name}' of {a.dtype}, not of {wanted}", back=1)
        return X.call(name, *args)

    def _operand(self, name: str) -> Expr:
        dtype = self.dtype
        if self._peek() == ":":
            self._next()
            dtype = self._type()
        places: list[Expr] = []
        if self._peek() == "[":
            self._next()
            places.append(self._place_in(name))
            while self._peek() == ",":
                self._next()
                places.append(self._place_in(name))
            self._expect("]")
        shape = tuple(int(bounds(p)[1]) + 1 for p in places)
        before = self.operands.get(name)
        self.operands[name] = (dtype, _joined(name, before, dtype, shape) if before is not None else shape)
        return X.cast(X.load(name, places, dtype), self.dtype)

    def _place_in(self, name: str) -> Expr:
        found = self._index_sum()
        if bounds(found)[0] < 0:
            raise self._wrong(f"an index of '{name}' is {bounds(found)[0]} at its least", back=1)
        return found

    def _index_sum(self) -> Expr:
        found = self._index_term()
        while self._peek() in ("+", "-"):
            found = _OF_INDICES[self._next()](found, self._index_term())
        return found

    def _index_term(self) -> Expr:
        found = self._index_factor()
        while self._peek() in ("*", "//", "%"):
            operation = self._next()
            other = self._index_factor()
            if operation != "*" and (other.op != "const" or int(other) < 1):
                raise self._wrong(f"'{operation}' by what is no positive number", back=1)
            found = _OF_INDICES[operation](found, other)
        return found

    def _index_factor(self) -> Expr:
        word = self._next()
        if word == "(":
            found = self._index_sum()
            self._expect(")")
            return found
        if word.isdecimal():
            return X.const(int(word))
        if not word.isidentifier():
            raise self._wrong("expected an index or a whole number", back=1)
        return self._index(word)

    def _index(self, name: str) -> Expr:
        self._size(name)
        if name not in self.bound:
            hint = f"write sum({name}), or make it an index of the result"
            raise ModelError(f"nothing runs over the index '{name}' here", hint=hint, where=self._place(1))
        return self.bound[name]

    def _size(self, name: str) -> int:
        if name not in self.sizes:
            raise ModelError(f"the index '{name}' has no size", hint=f"add --size {name}=...", where=self._place(1))
        return self.sizes[name]

    def _names(self, first: str, last: str) -> Iterator[str]:
        self._expect(first)
        yield self._name("an index")
        while self._peek() == ",":
            self._next()
            yield self._name("an index")
        self._expect(last)

    def _type(self) -> str:
        word = self._next()
        if word not in DTYPES or word == "bool":
            known = listed(sorted(set(DTYPES) - {"bool"}))
            raise ModelError(f"'{word}' is no type", hint=f"{_HINT}; types are {known}", where=self._place(1))
        return word

    def _name(self, what: str) -> str:
        word = self._next()
        if not word.isidentifier():
            raise self._wrong(f"expected {what}", back=1)
        return word

    def _peek(self) -> str:
        return self.items[self.position][0] if self.position < len(self.items) else ""

    def _next(self) -> str:
        word = self._peek()
        self.position += 1
        return word

    def _expect(self, text: str) -> None:
        if self._peek() != text:
            raise self._wrong(f"expected '{text}'")
        self.position += 1

    def _place(self, back: int = 0) -> str:
        at = max(self.position - back, 0)
        rest = self.text[self.items[at][1] :] if at < len(self.items) else ""
        return f"before '{rest[:24]}'" if rest else "at the end"

    def _wrong(self, message: str, back: int = 0) -> ModelError:
        return ModelError(message, hint=_HINT, where=self._place(back))


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """The tokens of a formula and where they begin."""
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise ModelError(f"cannot read '{text[place:].strip()[:24]}'", hint=_HINT)
        yield found[found.lastindex or 0], found.start(found.lastindex or 0)
        place = found.end()
