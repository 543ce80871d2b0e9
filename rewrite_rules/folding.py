"""Constants are computed once, here, and not every time the model runs."""

from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, constant, topological
from edgec.ir.types import FLOATS, FOLD_ELEMENTS, STORED, bits
from edgec.ops import node, operators
from edgec.rewrite import rule_on
from edgec.rewrite.facts import SMALL_BYTES, is_static
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
    narrow = node("cast", fixed(random, *shape, dtype="i32"), to="f32")
    yield node("mul", narrow, fixed(random, *shape, dtype="f32"))


@rule_on(*operators(), family="folding", examples=constant_terms)
def fold_constants(n, view):
    """An operator on constants is a constant."""
    if not n.args or not is_static(n):
        return "an operand depends on the input"
    if n.op == "cast" and _widens_integers(n):
        return "narrow integers stay as they are stored: quantized weights are widened where they are used"
    if n.op == "dequantize":
        return "weights of few bits stay as they are stored"
    terms = list(topological([n]))
    leaves = [t for t in terms if t.is_const]
    if any(t.type.elements > FOLD_ELEMENTS for t in terms):
        return f"more than {FOLD_ELEMENTS} elements would be computed on the way"
    # A term that could not be folded on the way here is folded only when that makes it smaller.
    allowed = SMALL_BYTES if set(n.args) <= set(leaves) else 0
    if _stored(n) > max(allowed, sum(map(_stored, leaves))):
        return f"the constant would grow to {_stored(n)} bytes"
    return constant(run(Graph((), (("folded", n),)), {})["folded"])


def _stored(n):
    """Bytes of a constant, whose elements may be of few bits."""
    return -(-n.type.elements * bits(n.type.dtype) // 8)


def _widens_integers(n):
    source = n.args[0].type
    if n.type.dtype in ("i32", "i64"):  # positions and sizes have one dimension, weights have more
        return source.dtype in ("i8", "u8", "i16", "u16") and source.rank > 1 and source.elements > 1
    return n.type.dtype in FLOATS and source.dtype in {"i8", "u8", "i16", "u16", "i32"} | STORED and source.elements > 1
