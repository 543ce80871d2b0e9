"""Constants are computed once, here, and not every time the model runs."""

from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import constant
from edgec.ir.types import FLOATS
from edgec.ops import node, operators
from edgec.rewrite import rule_on
from edgec.rewrite.facts import SMALL_BYTES
from edgec.rewrite.sample import extents, fixed


def constant_terms(random):
    shape = extents(random, 2)
    a, b = fixed(random, *shape), fixed(random, shape[1], 3)
    yield node("add", a, a)
    yield node("matmul", a, b)
    yield node("transpose", a, perm=(1, 0))
    yield node("cast", fixed(random, *shape, dtype="f32"), to="f64")
    yield node("cast", fixed(random, *shape, dtype="bool"), to="f32")
    yield node("cast", fixed(random, *shape, dtype="i64"), to="f32")
    yield node("reduce", a, combine="max", axes=(0,))


@rule_on(*operators(), law="folding", examples=constant_terms)
def fold_constants(n, view):
    """An operator on constants is a constant."""
    if not n.args or not all(a.is_const for a in n.args):
        return "an operand is not constant"
    if n.op == "cast" and _widens_integers(n):
        return "narrow integers stay as they are stored: quantized weights are widened where they are used"
    if n.type.bytes > max(SMALL_BYTES, sum(a.type.bytes for a in dict.fromkeys(n.args))):
        return f"the constant would grow to {n.type.bytes} bytes"
    return constant(evaluate_node(n, [a.value for a in n.args]))


def _widens_integers(n):
    source = n.args[0].type
    return n.type.dtype in FLOATS and source.dtype in ("i8", "u8", "i16", "u16", "i32") and source.elements > 1
