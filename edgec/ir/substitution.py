"""Expressions with parts of them replaced: all are rebuilt bottom-up, and no variable of a reduction is captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgec.ir import expr as X
from edgec.ir.expr import Expr


def rebuilt(
    expr: Expr,
    before: Callable[[Expr], Expr | None],
    after: Callable[[Expr, Expr], Expr] | None,
    keeps_loops: bool = False,
) -> Expr:
    """Rebuild bottom-up: ``before`` may replace a node unvisited, ``after`` gets it with its arguments rebuilt.

    Where that ``keeps_loops``, so that nothing new is summed and no variable comes, reductions are not opened for it.

    Written without recursion, since blocks of many operators make deep expressions.
    """
    done: dict[Expr, Expr] = {}
    waiting: dict[Expr, tuple[tuple[Expr, ...], tuple[Expr, ...]]] = {}  # variables of a reduction, and its body
    stack: list[Expr | None] = [expr]
    while stack:
        e = stack.pop()
        if e is None:  # below it is one whose arguments are done
            e = stack.pop()
            assert e is not None
            names, args = waiting.pop(e) if e in waiting else ((), e.args)
            new_args = tuple([done[a] for a in args])
            if new_args == args:
                new = e
            elif e.op == "reduce":
                new = _around(e, new_args[0]) if keeps_loops else X.reduce(e.value[0], names, new_args[0])
            else:
                new = X.rebuild(e, new_args)
            done[e] = new if after is None else after(e, new)
            continue
        if e in done:
            continue
        replaced = before(e)
        if replaced is not None:
            done[e] = replaced
            continue
        args = e.args
        if not args:
            done[e] = e if after is None else after(e, e)
            continue
        if e.op == "reduce" and not keeps_loops:
            names, body = X.opened(e)
            args = (body,)
            waiting[e] = names, args
        stack.append(e)
        stack.append(None)
        stack += [a for a in args if a not in done]
    return done[expr]


def with_variables(expr: Expr, replacement: Mapping[Expr, Expr]) -> Expr:
    """Replace variables. A reduction is opened where its own could be captured, and where it gets others inside it."""
    variables = frozenset(replacement)
    coming = X.free_in(tuple(replacement.values()))
    deep = any(new.height for new in replacement.values())
    done: dict[Expr, Expr] = {}
    stack: list[Expr | None] = [expr]
    while stack:
        e = stack.pop()
        if e is None:  # below it is one whose arguments are done
            e = stack.pop()
            assert e is not None
            if e.op == "reduce":
                done[e] = _around(e, done[e.args[0]])
            else:
                new_args = tuple([done[a] for a in e.args])
                done[e] = e if new_args == e.args else X.rebuild(e, new_args)
        elif e in done:
            continue
        elif e.op == "var":
            done[e] = replacement.get(e, e)
        elif variables.isdisjoint(e.free):
            done[e] = e
        elif e.op == "reduce" and (deep or not _is_apart(e, coming, variables)):
            names, body = X.opened(e)
            done[e] = X.reduce(e.value[0], names, with_variables(body, replacement))
        else:
            stack.append(e)
            stack.append(None)
            stack += [a for a in e.args if a not in done]
    return done[expr]


def _is_apart(expr: Expr, *others: frozenset[Expr]) -> bool:
    """Is no variable of a reduction among the others?"""
    bound = X.reduction_variables(expr)
    return all(v not in known for known in others for v in bound)


def _around(expr: Expr, body: Expr) -> Expr:
    """A reduction of another body over the same variables."""
    if body is expr.args[0]:
        return expr
    if body.height == expr.args[0].height:  # so its variables keep their names
        return X.raw_reduce(expr.value, body)
    return X.reduce(expr.value[0], X.reduction_variables(expr), body)
