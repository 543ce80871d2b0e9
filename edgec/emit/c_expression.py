"""Prints formulas as C: statements and a value, scalar or over the lanes of a vector.

Common sub-expressions become named temporaries, placed in the outermost loop where their variables are known.
The branches of a choice are evaluated only when taken, since an index may be out of range in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgec.emit import c_lanes
from edgec.emit.c_literal import C_TYPES, LIBM, literal
from edgec.emit.c_text import advanced, is_enclosed, size_name
from edgec.emit.syntax import C_SYNTAX
from edgec.errors import EdgecError
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr, Extent
from edgec.ir.lane_groups import in_group
from edgec.ir.nest import coefficient, group_of, most, repeats_of
from edgec.ir.types import CODED, FLOATS
from edgec.ir.vector import LANES, chosen, keeps_loads, loads_beyond_choice, parts_beyond_choice, places
from edgec.schedule.storage import memory_type
from edgec.schedule.tables import in_runs

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@dataclass
class _Scope:
    variables: frozenset[Expr]
    lines: list[str] = field(default_factory=list)
    known: dict[Expr, str] = field(default_factory=dict)
    depth: int = 0


class Printer:
    """Prints expressions over loops whose C names are ``names``; loads name buffers by their parameter.

    With ``lane``, values that depend on it are vectors whose lane 0 is at the named position; ``count`` is the C
    expression of how many lanes are live (None: all).
    """

    syntax = C_SYNTAX
    marks_branches = True  # those of choices by data, which GCC may not turn into masks

    def __init__(
        self,
        names: Mapping[Expr, str],
        parameters: Mapping[object, str],
        lane: Expr | None = None,
        count: str | None = None,
        depth: int = 1,
        prefix: str = "t",
    ) -> None:
        self.names = dict(names)
        self.parameters = parameters
        self.lane = lane
        self.count = count
        self.prefix = prefix
        self.counter = 0
        self.given: dict[Expr, str] = {}
        self.scopes = [_Scope(frozenset(names), depth=depth)]

    @property
    def lines(self) -> list[str]:
        return self.scopes[0].lines

    def enter(self, variable: Expr, name: str, depth: int) -> list[str]:
        """Go into a loop; returns its lines. What does not depend on its variable is still emitted outside."""
        self.names[variable] = name
        self.scopes.append(_Scope(self.scopes[-1].variables | {variable}, depth=depth))
        return self.scopes[-1].lines

    def define(self, e: Expr, text: str) -> None:
        """Use ``text`` wherever ``e`` occurs (an accumulator, say)."""
        self.given[e] = text

    # ---- positions

    def position(self, e: Expr) -> str:
        """An index as C, of type ec_int."""
        if e in self.given:
            return self.given[e]
        if e.op == "const":
            return str(e.value)
        if e.op == "var":
            return self.names[e]
        if e.op == "size":
            return size_name(e)
        if e.op in ("add", "sub", "mul", "neg") and e.dtype == "i64":
            terms, constant = index.linear(e)
            if list(terms) == [e] and e.op == "mul" and index.is_static(e):
                return " * ".join(map(self.position, e.args))
            if list(terms) == [e]:
                return self.syntax.cast(self.syntax.position, self.value(e))
            parts = []
            for a, k in terms.items():
                text = self.position(a)
                if text.isdecimal():  # a variable of one value
                    constant += int(text) * k
                else:
                    parts.append(text if k == 1 else f"{text} * {k}")
            if not parts:
                return str(constant)
            text = " + ".join(parts) + (f" + {constant}" if constant > 0 else f" - {-constant}" if constant else "")
            return text.replace("+ -", "- ") if len(parts) + bool(constant) < 2 else f"({text})"
        if e.op in ("floordiv", "floormod") and e.args[1].op == "const":
            inner, d = e.args
            symbol = "/" if e.op == "floordiv" else "%"
            if index.bounds(inner)[0] >= 0:  # C's division rounds as floor does when nothing is negative
                return f"({self._atom(inner)} {symbol} {d.value})"
            text = f"ec_{e.op}_{self.syntax.types['i64']}({self.position(inner)}, {d.value})"
            return self.syntax.cast(self.syntax.position, text)
        if e.op in ("floordiv", "floormod") and index.is_static(e) and index.bounds(e.args[0])[0] >= 0:
            return f"({self._atom(e.args[0])} {'/' if e.op == 'floordiv' else '%'} {self._atom(e.args[1])})"
        if e.op in ("min", "max"):
            return f"ec_{e.op}_int({self.position(e.args[0])}, {self.position(e.args[1])})"
        return self.syntax.cast(self.syntax.position, self.value(e))

    def subscript(self, e: Expr) -> str:
        """An index for brackets, where a sum needs no parentheses of its own."""
        text = self.position(e)
        return text[1:-1] if is_enclosed(text) else text

    def _atom(self, e: Expr) -> str:
        """A position that stands beside a division: a product is put in parentheses."""
        text = self.position(e)
        return f"({text})" if index.is_static(e) and e.op == "mul" else text

    # ---- values

    def is_vector(self, e: Expr) -> bool:
        return self.lane is not None and self.lane in X.free_variables(e) and e.dtype in LANES

    def value(self, e: Expr) -> str:
        """C text of a value; work that is not trivial is put into a named temporary first."""
        if e in self.given:
            return self.given[e]
        for scope in reversed(self.scopes):
            if e in scope.known:
                return scope.known[e]
        if e.op == "const":
            return self.syntax.literal(e.value, e.dtype)
        if e.op == "var":
            return self.names[e]
        if e.op == "size":
            return self.syntax.cast(self.syntax.types["i64"], size_name(e))
        if e.op == "reduce":
            return self._reduce(e)
        if e.op == "select":
            return self._select(e)
        text = self.text(e)
        is_step = e.dtype == "i64" and all(a.op in ("var", "const") for a in e.args) and e.op in ("add", "sub", "mul")
        return text if not e.args or is_step else self._bind(e, text)

    def vector(self, e: Expr) -> str:
        text = self.value(e)
        return text if self.is_vector(e) else self.spread(text, e.dtype)

    def spread(self, text: str, dtype: str) -> str:
        """A scalar in every lane."""
        return c_lanes.broadcast(text, dtype)

    def to_store(self, e: Expr) -> str:
        """The vector that a store of ``e`` is given."""
        return self.vector(c_lanes.stored(e))

    def _ctype(self, e: Expr) -> str:
        return c_lanes.vector_type(e.dtype) if self.is_vector(e) else self.syntax.types[e.dtype]

    def _home(self, e: Expr) -> _Scope:
        """The outermost scope that knows every variable of ``e`` (a guarded branch keeps what it computes)."""
        return next((s for s in self.scopes if X.free_variables(e) <= s.variables), self.scopes[-1])

    def _name(self) -> str:
        self.counter += 1
        return f"{self.prefix}{self.counter}"

    def _bind(self, e: Expr, text: str) -> str:
        scope = self._home(e)
        name = self._name()
        scope.lines.append(f"{'  ' * scope.depth}{self.syntax.constant(self._ctype(e), name, text)}")
        scope.known[e] = name
        return name

    def text(self, e: Expr) -> str:
        """C text of an operation on values; it is not put into a temporary itself."""
        if e.op == "load":
            return self._load(e)
        if e.op == "cast":
            return self._vector_cast(e) if self.is_vector(e) else self._cast(e)
        if e.op == "bitcast":
            return self._bitcast(e)
        return self._vector_call(e) if self.is_vector(e) else self._scalar_call(e)

    def _load(self, e: Expr) -> str:
        pointer, address, lies = self.parameters[e.value], e.args[0], memory_type(e)
        if self.is_vector(e):
            assert self.lane is not None
            stride = coefficient(address, self.lane)
            if stride is None and (r := repeats_of(address, self.lane)):
                return c_lanes.repeated(advanced(pointer, self.position(r.first)), lies, r.times, r.phase, self.count)
            if stride is None and (g := group_of(address, self.lane)) is not None:
                return f"ec_in_groups({self.value(X.load(e.value, (g.first,), e.dtype))}, {g.size}, {g.element})"
            found = chosen(address, self.lane) if stride is None else None
            place = advanced(pointer, self.position(found[0] if found else address))
            if found and self.count is None and lies == "f32" and in_runs(found[1], most(self.lane)):
                return f"ec_pick_run({place}, &{self._place(found[1])})"
            by = None if stride == 1 else self.value(found[1]) if found else str(stride)
            function = c_lanes.access("load" if by is None else "pick" if found else "gather", lies, self.count)
            return f"{function}({', '.join(text for text in (place, by, self.count) if text)})"
        return f"ec_from_{lies}({self._place(e)})" if lies in CODED else self._place(e)

    def _place(self, e: Expr) -> str:
        """The element that a load reads, in its storage type."""
        return f"{self.parameters[e.value]}[{self.subscript(e.args[0])}]"

    def _cast(self, e: Expr) -> str:
        source, to = e.args[0], e.dtype
        text = self.value(source)
        if to == "bool":
            return f"({text} != 0)"
        if to in CODED & FLOATS:
            return f"ec_from_{to}(ec_to_{to}((float){text}))"
        if to in ("f32", "f64"):
            return f"({C_TYPES[to]}){text}"
        if to in CODED:
            whole = f"ec_convert_int64_t({text})" if source.dtype in FLOATS else f"(int64_t){text}"
            return f"ec_from_{to}(ec_to_{to}({whole}))"
        if source.dtype in FLOATS:
            if to in ("u8", "i8", "u16", "i16"):  # numpy goes through a wider integer and wraps
                return f"({C_TYPES[to]})ec_convert_int32_t({text})"
            return f"ec_convert_{C_TYPES[to]}({text})"
        return f"({C_TYPES[to]}){text}"

    def _bitcast(self, e: Expr) -> str:
        """By way of the unsigned integer that lies in memory."""
        source, to = e.args[0], e.dtype
        if source.dtype in CODED and source.op == "load":  # as it lies there, so that a NaN keeps its payload
            raw = self._place(source)
        elif source.dtype in CODED:
            raw = f"ec_to_{source.dtype}({self.value(source)})"
        elif source.dtype in FLOATS:
            raw = f"ec_{C_TYPES[source.dtype]}_to_bits({self.value(source)})"
        else:
            raw = self.value(source)
        if to in CODED:
            return f"ec_from_{to}((ec_{to}){raw})"
        if to in FLOATS:
            return f"ec_bits_to_{C_TYPES[to]}({raw})"
        return f"({C_TYPES[to]}){raw}"

    def _vector_cast(self, e: Expr) -> str:
        if (step := places(e, self.lane)) is not None:
            return c_lanes.counted(f"(int32_t){self.position(e.args[0])}", step)
        found = c_lanes.rounded_and_clamped(e) if LANES[e.dtype] == "integer" and e.dtype != "i32" else None
        if found is None:
            return c_lanes.cast(e, self.vector(e.args[0]))
        x, low, high = found
        limits = ", ".join(c_lanes.broadcast(literal(limit, "f32"), "f32") for limit in (low, high))
        return c_lanes.narrowed(f"ec_nearest(ec_clamp({self.vector(x)}, {limits}))", e.dtype)

    def _vector_call(self, e: Expr) -> str:
        if e.op in ("add", "sub") and e.dtype == "f32":  # one rounding less and one instruction less
            a, b = e.args
            for x, y in ((a, b), (b, a)):
                if x.op == "mul" and self._unused(x) and (e.op == "add" or x is b):
                    sign = "-" if e.op == "sub" else ""
                    return f"ec_fma({sign}{self.vector(x.args[0])}, {self.vector(x.args[1])}, {self.vector(y)})"
        return c_lanes.call(e, [self.vector(a) for a in e.args])

    def _unused(self, e: Expr) -> bool:
        return e not in self.given and not any(e in s.known for s in self.scopes)

    def _scalar_call(self, e: Expr) -> str:
        args = [self.value(a) for a in e.args]
        kind = e.args[0].dtype
        ctype = C_TYPES[kind]
        if e.op in COMPARE:
            return f"({args[0]} {COMPARE[e.op]} {args[1]})"
        if e.op in ("and", "or", "xor"):
            return f"({args[0]} {dict(zip(('and', 'or', 'xor'), ('&&', '||', '!=')))[e.op]} {args[1]})"
        if e.op == "not":
            return f"(!{args[0]})"
        if e.op in ("bitand", "bitor", "bitxor"):
            symbol = {"bitand": "&", "bitor": "|", "bitxor": "^"}[e.op]
            return f"({ctype})({args[0]} {symbol} {args[1]})"
        if e.op == "bitnot":
            return f"({ctype})(~{args[0]})"
        if kind in ("f16", "bf16", "f32", "f64"):
            text = self._float_call(e, args, "double" if kind == "f64" else "float")
            # Half precision rounds after every operation, as its reference does.
            return f"ec_from_{kind}(ec_to_{kind}({text}))" if e.dtype in ("f16", "bf16") else text
        return f"ec_{e.op}_{ctype}({', '.join(args)})"

    def _float_call(self, e: Expr, args: list[str], ctype: str) -> str:
        if e.op in _INFIX:
            return f"({args[0]} {_INFIX[e.op]} {args[1]})"
        if e.op == "neg":
            return f"(-{args[0]})"
        if e.op == "isnan":
            return f"({args[0]} != {args[0]})"
        if e.op == "isinf":
            return f"(isinf({args[0]}) != 0)"
        if e.op in LIBM:
            return f"{LIBM[e.op]}{'f' if ctype == 'float' else ''}({', '.join(args)})"
        if e.op in ("max", "min", "sign", "sigmoid", "floormod", "floordiv"):
            return f"ec_{e.op}_{ctype}({', '.join(args)})"
        raise EdgecError(f"no C form of '{e.op}' for {e.args[0].dtype}")

    def _select(self, e: Expr) -> str:
        condition, then, otherwise = e.args
        if self.is_vector(condition):
            mask = self.value(condition)
            return self._bind(e, c_lanes.call(e, [mask, self.vector(then), self.vector(otherwise)]))
        test = self.value(condition)
        for part in (*parts_beyond_choice(e), *loads_beyond_choice(e)):
            self.value(part)
        name = self._name()
        with self._at_home(e) as scope:
            pad = "  " * scope.depth
            scope.lines.append(f"{pad}{self.syntax.variable(self._ctype(e), name)}")
            for head, branch in ((f"{pad}if ({test}) {{", then), (f"{pad}}} else {{", otherwise)):
                lines, value = self._guarded(branch, self.is_vector(e))
                kept = [f"{pad}  EC_KEEP_BRANCH;"] if self.marks_branches and keeps_loads(e) else []
                scope.lines += [head, *kept, *lines, f"{pad}  {name} = {value};"]
            scope.lines.append(f"{pad}}}")
            scope.known[e] = name
        return name

    @contextmanager
    def _at_home(self, e: Expr) -> Iterator[_Scope]:
        """Emit into the outermost scope where ``e`` can be computed; inner scopes wait meanwhile."""
        home = self._home(e)
        everything = self.scopes
        self.scopes = everything[: everything.index(home) + 1]
        yield home
        self.scopes = everything

    def _guarded(self, e: Expr, vector: bool) -> tuple[list[str], str]:
        """Compute ``e`` in a scope of its own: nothing of it may be hoisted out of the guard."""
        outer = self.scopes
        known = {k: v for s in outer for k, v in s.known.items()}
        variables = frozenset().union(*(s.variables for s in outer))
        alone = _Scope(variables, known=known, depth=outer[-1].depth + 1)
        self.scopes = [alone]
        text = self.vector(e) if vector else self.value(e)
        self.scopes = outer
        return alone.lines, text

    def _reduce(self, e: Expr) -> str:
        combine, _ = e.value
        names, body = X.opened(e)
        vector = self.is_vector(e)
        if (found := in_group(e, self.lane)) is not None:
            return self._bind(e, f"ec_in_groups({self.value(found[0])}, {found[1]}, {found[2]})")
        name = self._name()
        start = (self.vector if vector else self.value)(X.const(neutral(combine, e.dtype), e.dtype))
        with self._at_home(e) as scope:
            pad = "  " * scope.depth
            scope.lines.append(f"{pad}{self.syntax.variable(self._ctype(e), name, start)}")
            inner = _Scope(scope.variables | frozenset(names), depth=scope.depth + len(names))
            heads = []
            for k, v in enumerate(names):
                loop = self.names[v] = f"{name}_{k}"
                heads.append(f"{'  ' * (scope.depth + k)}{self.syntax.loop(loop, extent_text(v.value.extent))}")
            self.scopes.append(inner)
            if vector:
                update = self.vector_update(combine, name, body)
            elif e.dtype in ("f16", "bf16") and body.op == "mul":  # products and sums in float, one rounding after
                update = self.syntax.update(combine, name, " * ".join(self.value(a) for a in body.args), e.dtype)
            else:
                update = self.syntax.update(combine, name, self.value(body), e.dtype)
            inner.lines.append(f"{'  ' * inner.depth}{update}")
            scope.lines += [*heads, *inner.lines]
            scope.lines += [f"{'  ' * (scope.depth + k)}}}" for k in reversed(range(len(names)))]
            if e.dtype in ("f16", "bf16"):
                rounded = c_lanes.narrowed(name, e.dtype) if vector else f"ec_from_{e.dtype}(ec_to_{e.dtype}({name}))"
                scope.lines.append(f"{pad}{name} = {rounded};")
            scope.known[e] = name
        return name

    def vector_update(self, combine: str, name: str, body: Expr) -> str:
        """A statement that combines a vector with the one of ``body``."""
        if combine == "add" and body.op == "mul" and LANES[body.dtype] == "float" and self._unused(body):
            return f"{name} = ec_fma({self.vector(body.args[0])}, {self.vector(body.args[1])}, {name});"
        return f"{name} = {c_lanes.combined(combine, body.dtype, name, self.vector(body))};"


def extent_text(extent: Extent) -> str:
    """An extent in C: a number, a name, or a formula in parentheses."""
    if not isinstance(extent, Expr):
        return str(extent)
    text = Printer({}, {}).position(extent)
    return text if text.isidentifier() or is_enclosed(text) else f"({text})"
