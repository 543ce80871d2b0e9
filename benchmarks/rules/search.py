"""Gain of other searches: equality saturation (egglog) and best-first search compared with the shipped engine.

    pip install egglog
    python -m benchmarks.rules.search --folder networks

On the same rules, the equations without guards, and on the element-wise regions of real networks: the parts between
operators that no equation passes, as DNNFusion cuts them. Every leaf of a region is an input of one shape. The cost is
FLOPs for one element, shared work counted once.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import egglog.bindings as egg
import numpy as np

from benchmarks.networks import catalog as networks
from benchmarks.table import markdown
from edgec import ops
from edgec.frontend.onnx import import_model
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.rewrite import Equation, Rule, load_rules, simplify
from edgec.rewrite.engine import consider
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.measure import total
from edgec.rewrite.term import Term

#: Elements of every leaf.
WIDTH = 4096
#: Operations a region has, so that there is something to search and egglog ends.
LEAST, MOST = 4, 24


def regions(graph: Graph) -> Iterator[Graph]:
    """Maximal element-wise terms of one shape, with placeholders for what they are computed from."""
    users = graph.users()
    inner: set[Node] = set()
    for n in reversed(graph.operations()):
        if n in inner or not _is_inside(n, n):
            continue
        region = _region(n, inner, users)
        if LEAST <= len(region.operations()) <= MOST:
            yield region


def _is_inside(n: Node, root: Node) -> bool:
    return n.op in FUNCTIONS and not is_static(n) and n.type == root.type and n.type.dtype == "f32"


def _region(root: Node, inner: set[Node], users: dict[Node, list[Node]]) -> Graph:
    made: dict[Node, Node] = {}
    leaves: list[Node] = []

    def build(n: Node) -> Node:
        if n not in made:
            value = uniform(n)
            if isinstance(value, float):
                made[n] = constant(np.array(value, np.float32))
            elif _is_inside(n, root):
                inner.add(n)
                made[n] = ops.node(n.op, *map(build, n.args))
            else:
                leaves.append(placeholder(f"x{len(leaves)}", Type("f32", (WIDTH,))))
                made[n] = leaves[-1]
        return made[n]

    output = build(root)
    return Graph(tuple(leaves), (("y", output),))


def flops(graph: Graph) -> float:
    return total(graph).flops / WIDTH


# ---- best-first search


def best_first(graph: Graph, rules: Sequence[Rule], seconds: float) -> Graph:
    """The cheapest graph found by any steps, paying or not, each followed by the shipped engine."""
    first, _ = simplify(graph, rules)
    best, order = first, count()
    queue = [(total(first), next(order), first)]
    seen = {first.outputs[0][1]}
    begun = time.perf_counter()
    while queue and time.perf_counter() - begun < seconds:
        _, _, current = heapq.heappop(queue)
        for n in current.operations():
            for found in consider(current, n, rules):
                if isinstance(found.outcome, str) or time.perf_counter() - begun > seconds:
                    continue
                output = _replaced(current.outputs[0][1], n, found.outcome)
                nearby, _ = simplify(Graph(graph.inputs, (("y", output),)), rules)
                for candidate in (Graph(graph.inputs, (("y", output),)), nearby):
                    root = candidate.outputs[0][1]
                    if root not in seen:
                        seen.add(root)
                        heapq.heappush(queue, (total(candidate), next(order), candidate))
                        best = min(best, candidate, key=total)
    return best


def _replaced(root: Node, old: Node, new: Node) -> Node:
    done = {old: new}

    def rebuild(n: Node) -> Node:
        if n not in done:
            args = tuple(map(rebuild, n.args))
            done[n] = n if args == n.args else ops.node(n.op, *args, **n.attributes)
        return done[n]

    return rebuild(root)


# ---- equality saturation


def saturate(graph: Graph, rules: Sequence[Rule], rounds: int) -> Graph:
    """Graph that egglog extracts after some rounds of all equations."""
    lines = ["(datatype T (Leaf i64) (Num f64)"]
    for name, f in FUNCTIONS.items():
        arity = _ARITY.get(name, 2)
        lines.append(f"  (F_{name} {' '.join(['T'] * arity)} :cost {max(f.flops, 1)})")
    lines.append(")")
    for op, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
        lines.append(f"(rewrite (F_{op} (Num a) (Num b)) (Num ({sign} a b)))")
    lines += [f"(rewrite {_text(r.left)} {_text(r.right)})" for r in rules if isinstance(r, Equation)]
    leaves = {n: f"(Leaf {k})" for k, n in enumerate(graph.inputs)}
    lines += [f"(let $root {_node_text(graph.outputs[0][1], leaves)})", f"(run {rounds})", "(extract $root)"]
    e = egg.EGraph()
    result = e.run_program(*e.parse_program("\n".join(lines)))[-1]
    found = _parse(str(result.termdag.to_string(result.term)))
    return Graph(graph.inputs, (("y", _built(found, graph.inputs)),))


_UNARY = (
    "neg abs sign floor ceil trunc round sqrt exp log log1p expm1 sigmoid tanh erf sin cos tan asin acos atan sinh cosh"
    " asinh acosh atanh isnan isinf not bitnot"
)
_ARITY = {**dict.fromkeys(_UNARY.split(), 1), "select": 3}


def _text(term: Term) -> str:
    if term.op == "variable":
        return term.name
    if term.op == "number":
        return f"(Num {float(term.number)!r})"
    return f"(F_{term.op} {' '.join(map(_text, term.args))})"


def _node_text(n: Node, leaves: dict[Node, str]) -> str:
    if n in leaves:
        return leaves[n]
    value = uniform(n)
    if n.is_const and value is not None:
        return f"(Num {float(value)!r})"
    return f"(F_{n.op} {' '.join(_node_text(a, leaves) for a in n.args)})"


def _parse(text: str) -> list:
    stack: list[list] = [[]]
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            stack.append([])
        elif word == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    return stack[0][0]


def _built(term: list, leaves: Sequence[Node]) -> Node:
    head, *rest = term
    if head == "Leaf":
        return leaves[int(rest[0])]
    if head == "Num":
        return constant(np.array(float(rest[0]), np.float32))
    return ops.node(head.removeprefix("F_"), *(_built(t, leaves) for t in rest))


# ---- the comparison


@dataclass
class Totals:
    """FLOPs and seconds of one search over all regions."""

    flops: float = 0.0
    seconds: float = 0.0
    lower: int = 0
    higher: int = 0


def _is_plain(r: Rule) -> bool:
    return isinstance(r, Equation) and r.where is None and r.dtypes in ("float", "number")


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: every .onnx in it")
    p.add_argument("--seconds", type=float, default=3.0, help="what best-first search may take for a region")
    p.add_argument("--rounds", type=int, default=6, help="rounds of equality saturation")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    options = p.parse_args()
    rules = [r for r in load_rules() if r.numeric != "approximates" and (r.name == "fold_constants" or _is_plain(r))]
    found, _ = networks.find(options.folder, cache=options.cache, download=False)
    distinct: dict[Node, tuple[str, Graph]] = {}
    for network in found:
        shapes = dict(network.shapes)
        if network.inputs is not None:
            with np.load(network.inputs) as arrays:
                shapes.update({name: arrays[name].shape for name in arrays.files})
        for region in regions(import_model(network.path, shapes)):
            distinct.setdefault(region.outputs[0][1], (network.name, region))
    searches = {
        "engine": lambda g: simplify(g, rules)[0],
        "best-first": lambda g: best_first(g, rules, options.seconds),
        "egglog": lambda g: saturate(g, rules, options.rounds),
    }
    sums = {name: Totals() for name in searches}
    before = 0.0
    for name, region in distinct.values():
        before += flops(region)
        costs = {}
        for search, run in searches.items():
            begun = time.perf_counter()
            costs[search] = flops(run(region))
            sums[search].seconds += time.perf_counter() - begun
            sums[search].flops += costs[search]
            sums[search].lower += costs[search] < costs["engine"]
            sums[search].higher += costs[search] > costs["engine"]
        print(f"{name}: {len(region.operations())} operations, {flops(region):.0f} FLOPs: {costs}", flush=True)
    rows = [
        [name, f"{s.flops:.0f}", f"{1 - s.flops / before:.1%}", str(s.lower), str(s.higher), f"{s.seconds:.2f}"]
        for name, s in sums.items()
    ]
    heads = ["search", "FLOPs an element", "saved", "regions lower than the engine", "higher", "seconds"]
    print(f"{len(distinct)} regions of {len(found)} networks, {before:.0f} FLOPs, {len(rules)} rules")
    print(markdown(heads, rows))


if __name__ == "__main__":
    main()
