"""Write docs/guide/derivatives.md: the core operators and their derivatives.

PYTHONPATH=.:tests python tests/differentiate/derivatives.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from edgec.ir.functions import FUNCTIONS
from edgec.ir.registry import adjoint_of
from edgec.ops import is_procedure, operators

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "derivatives.md"
HEAD = """\
# Operators and their derivatives

Training needs the gradient of every operator between the loss and the weights that are trained. This page is written by
`tests/differentiate/derivatives.py` from the operators themselves. An ONNX operator is a graph of these core operators
([supported operators](support.md)), so it can be trained where all of them can. What cannot is refused by name, with
the name of the node; nodes that no gradient has to pass do not matter.

## Scalar functions

`g` is the gradient of the result `y`, `a`, `b` and `c` are the arguments: each formula is the gradient of one of them.
`0` is said of functions that are constant between their steps; no gradient passes them, and
`edgec.differentiate.cut_paths` tells so. Comparisons, logic and functions of integers have no derivative.

`winner(g, first, a, b)` is `g` where the argument comes first, and its share of a tie: half of it between two computed
values, all of it beside a constant (a bound that is just reached does not stop the gradient, as in torch's clamp), none
of it beside the constant 0 (a ReLU at 0), and none at either bound of a ReLU6.

"""
BETWEEN = """
## Other operators

Several greatest elements of a reduction share its gradient evenly; of a pool's window the first has it. A softmax, its
logarithm and a log-sum-exp, as the front ends write them, have derivatives of their own
(`edgec/differentiate/composites.py`), so that nothing has to pass their maximum.

"""


def page() -> str:
    functions = [["function", "gradients of its arguments"], ["---", "---"]]
    for name, f in FUNCTIONS.items():
        if f.derivatives:
            functions.append([f"`{name}`", ", ".join(f"`{d}`" if d else "none" for d in f.derivatives)])
    others = [["operator", "gradients of its operands"], ["---", "---"]]
    for name, definition in operators().items():
        if name not in FUNCTIONS and definition.__module__.startswith("edgec.ops."):
            kind = " (procedure)" if is_procedure(name) else ""
            others.append([f"`{name}`{kind}", _told(name)])
    return HEAD + _table(functions) + BETWEEN + _table(others)


def _told(name: str) -> str:
    adjoint = adjoint_of(name)
    return (inspect.getdoc(adjoint) or "").partition("\n")[0] if adjoint else "none"


def _table(rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
