"""The reader of expressions: every operand is checked, and nothing is simplified on the way in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgec.ir import expr as X
from edgec.ir.dtypes import DTYPES, FLOATS, ends
from edgec.ir.expr import Expr
from edgec.ir.fresh import reserved
from edgec.ir.functions import FUNCTIONS, arity
from edgec.ir.records.expressions import COMPARED, INFIX, KEYWORDS, REDUCTIONS, SHORT
from edgec.ir.records.tokens import Tokens, shortened

#: Expressions nest at most this deep; what is written nests less.
_NESTING = 100
_COMBINES = {name: combine for combine, name in REDUCTIONS.items()}
_OPERATORS = {mark: (name, level) for name, (mark, level) in INFIX.items()}
#: Functions of two and of three operands; all others have one.
_BITS = "bits_as_"
#: Fresh variables are numbered from here at most, so that their names keep their width.
_MOST_FRESH = 10**7
#: No extent, range or index is as large.
_LARGEST = 2**62


class ExpressionReader:
    """Reads expressions one after the other, with what was mentioned and defined before.

    ``slot`` reads what is loaded from, at the present token, and gives it with its element type.
    """

    def __init__(self, slot: Callable[[Tokens], tuple[Any, str | None]]) -> None:
        self.slot = slot
        self.scope: dict[str, Expr] = {}
        self.parts: dict[str, Expr] = {}
        self.depth = 0

    def define(self, tokens: Tokens) -> None:
        """A part: ``$3 = `...` ``."""
        name = tokens.next().text
        tokens.expect("=")
        if name in self.parts:
            raise tokens.error(f"{name} is defined twice")
        self.parts[name] = self.quoted(tokens)

    def quoted(self, tokens: Tokens) -> Expr:
        """An expression between backticks."""
        tokens.expect("`")
        found = self.read(tokens)
        tokens.expect("`")
        return found

    def read(self, tokens: Tokens, level: int = 1) -> Expr:
        """An expression of operators of precedence ``level`` and above."""
        self.depth += 1
        if self.depth > _NESTING:
            raise tokens.error("the expression nests too deep")
        left, is_compared = self.primary(tokens), False
        while tokens.now.kind in ("mark", "word") and tokens.now.text in _OPERATORS:
            name, own = _OPERATORS[tokens.now.text]
            if own < level or (own == COMPARED and is_compared):
                break
            tokens.next()
            left = self.call(tokens, name, (left, self.read(tokens, own + 1)))
            is_compared = own == COMPARED  # in parentheses where they are compared themselves
        self.depth -= 1
        return left

    def primary(self, tokens: Tokens) -> Expr:
        kind, text, _ = tokens.now
        if tokens.accept("("):
            inner = self.read(tokens)
            tokens.expect(")")
            return inner
        if kind == "part":
            tokens.next()
            return self.parts[text] if text in self.parts else tokens.fail(f"{text} is not defined")
        if kind == "number" or (text in ("-", "inf", "nan") and kind != "string"):
            return self.constant(tokens)
        if text in ("True", "False") and kind == "word":
            return X.const(tokens.next().text == "True", "bool")
        following = tokens.after().text if tokens.after().kind == "mark" else ""
        if kind == "node" or text == "load" or following == "[":
            return self.load(tokens)
        if kind == "word" and following == "(":
            return self.function(tokens)
        if kind in ("word", "string"):
            return self.variable(tokens)
        raise tokens.error(f"expected an expression and found {shortened(text)}")

    def constant(self, tokens: Tokens) -> Expr:
        value = tokens.number()
        dtype = self.dtype(tokens) if tokens.accept(":") else "i64" if isinstance(value, int) else "f32"
        try:
            found = X.const(value, dtype)
        except (ValueError, OverflowError):
            raise tokens.error(f"{value} is no {dtype}") from None
        low, high = ends(dtype) if dtype not in (*FLOATS, "bool") else (value, value)
        if (found.value != value or not low <= value <= high) and value == value:
            raise tokens.error(f"{value} is no {dtype}")
        return found

    def dtype(self, tokens: Tokens) -> str:
        name = tokens.word()
        return name if name in DTYPES else tokens.fail(f"'{shortened(name)}' is no element type")

    def load(self, tokens: Tokens) -> Expr:
        slot, dtype = self.slot(tokens)
        tokens.expect("[")
        index = self.arguments(tokens, "]")
        if any(i.dtype != "i64" for i in index):
            raise tokens.error("an index is no whole number")
        if tokens.accept(":"):
            dtype = self.dtype(tokens)
        return X.load(slot, index, dtype) if dtype else tokens.fail("a load without an element type")

    def arguments(self, tokens: Tokens, close: str) -> tuple[Expr, ...]:
        found = []
        while not tokens.accept(close):
            found.append(self.read(tokens))
            if not tokens.accept(","):
                tokens.expect(close)
                break
        return tuple(found)

    def function(self, tokens: Tokens) -> Expr:
        """A function of its arguments, a cast, or a reduction."""
        name = tokens.word()
        if name in _COMBINES:
            return self.reduction(tokens, _COMBINES[name])
        tokens.expect("(")
        args = self.arguments(tokens, ")")
        is_bits = name.startswith(_BITS)
        dtype = name.removeprefix(_BITS)
        if dtype in DTYPES and len(args) == 1:
            return X.bitcast(args[0], dtype) if is_bits else X.cast(args[0], dtype)
        return self.call(tokens, name, args)

    def reduction(self, tokens: Tokens, combine: str) -> Expr:
        tokens.expect("(")
        bound = []
        while not tokens.accept("|"):
            bound.append(self.variable(tokens))
            if not tokens.is_at("|"):
                tokens.expect(",")
        body = self.read(tokens)
        tokens.expect(")")
        return X.reduce(combine, bound, body)

    def call(self, tokens: Tokens, name: str, args: tuple[Expr, ...]) -> Expr:
        if name not in FUNCTIONS:
            raise tokens.error(f"no function '{shortened(name)}'")
        wanted = arity(name)
        if len(args) != wanted:
            raise tokens.error(f"{name} takes {wanted} operands and has {len(args)}")
        alike = args[1:] if name == "select" else args
        if len({a.dtype for a in alike}) > 1 or (name == "select" and args[0].dtype != "bool"):
            raise tokens.error(f"{name} does not take {', '.join(a.dtype for a in args)}")
        return X.raw_call(name, args, FUNCTIONS[name].result or alike[0].dtype)

    def variable(self, tokens: Tokens) -> Expr:
        """A variable or size; with its extent or range where it is mentioned first."""
        token = tokens.next()
        if token.kind not in ("word", "string") or (token.kind == "word" and token.text in KEYWORDS):
            raise tokens.error(f"expected a name and found {shortened(token.text)}")
        if not tokens.accept(":"):
            if token.text not in self.scope:
                raise tokens.error(f"{shortened(token.text)} has no extent")
            return self.scope[token.text]
        name = tokens.quoted(token.text) if token.kind == "string" else token.text
        if not name.isidentifier():
            raise tokens.error(f"{shortened(token.text)} is no name of a variable")
        found = self.ranged(tokens, name) if tokens.after().text == ".." else self.looped(tokens, name, token.kind)
        self.scope[token.text] = found
        return found

    def ranged(self, tokens: Tokens, name: str) -> Expr:
        low = self.whole(tokens)
        tokens.expect("..")
        high = self.whole(tokens)
        return X.size(name, low, high) if low < high else tokens.fail(f"no range of a size: {low}..{high}")

    def looped(self, tokens: Tokens, name: str, kind: str) -> Expr:
        given = self.primary(tokens) if tokens.is_at("(") else X.const(self.whole(tokens))
        if given.dtype != "i64" or X.free_variables(given) or X.loads(given):
            raise tokens.error(f"the extent of {shortened(name)} is no formula of sizes")
        extent = X.plain(given)
        if kind == "word" and SHORT.fullmatch(name):
            if int(name[1:]) > _MOST_FRESH:
                raise tokens.error(f"no variable has as high a number as {name}")
            name = reserved(int(name[1:]))
        return X.var(name, extent) if extent != 1 else tokens.fail(f"the loop {shortened(name)} runs once")

    def whole(self, tokens: Tokens) -> int:
        value = tokens.number()
        if not isinstance(value, int) or not 0 <= value < _LARGEST:
            raise tokens.error(f"{value} is no extent")
        return value
