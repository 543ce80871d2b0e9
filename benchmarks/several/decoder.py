"""One token of a language model in Llama's form, drawn by hand: caches of keys and values are inputs and outputs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.several.drawn import Drawn

LAYERS, WIDTH, HEADS, INNER, LENGTH, WORDS = 4, 1024, 16, 2752, 256, 8192
#: States: every cache, and the output that is its next value.
STATES = {f"{kind}{layer}": f"{kind}{layer}_next" for layer in range(LAYERS) for kind in ("keys", "values")}


def llama(
    layers: int = LAYERS, width: int = WIDTH, heads: int = HEADS, inner: int = INNER, length: int = LENGTH,
    words: int = WORDS,
) -> onnx.ModelProto:  # fmt: skip
    """embedded [1, width], position [1] -> logits [1, words]; caches [heads, length, width / heads] in and out."""
    d, of_head = Drawn(4), width // heads
    places = np.arange(length, dtype=np.int64).reshape(1, length, 1)
    speeds = 10000 ** -(np.arange(of_head // 2) / (of_head // 2))
    d.weight("speeds", np.concatenate([speeds, speeds])[None].astype(np.float32))
    split = d.weight("split", np.array([heads, 1, of_head], np.int64))
    merged = d.weight("merged", np.array([1, width], np.int64))
    d.weight("places", places)
    d.weight("places_in_row", places.reshape(1, 1, length))
    for name, value in (("scale", of_head**-0.5), ("hidden", -1e9), ("seen", 0.0), ("tiny", 1e-6)):
        d.weight(name, np.float32(value))
    angle = d.node("Mul", d.node("Cast", "position", to=TensorProto.FLOAT), "speeds")
    cosine, sine = d.node("Cos", angle), d.node("Sin", angle)
    is_new = d.node("Equal", "places", "position")
    mask = d.node("Where", d.node("LessOrEqual", "places_in_row", "position"), "seen", "hidden")

    def norm(x: str) -> str:
        size = d.node("Sqrt", d.node("Add", d.node("ReduceMean", d.node("Mul", x, x), axes=[-1]), "tiny"))
        return d.node("Mul", d.node("Div", x, size), d.drawn(width, size=1.0))

    def product(x: str, terms: int, to: int) -> str:
        return d.node("MatMul", x, d.drawn(terms, to, size=0.7 / terms**0.5))

    def turned(x: str) -> str:
        first, second = f"{x}_first", f"{x}_second"
        d.node("Split", x, results=(first, second), axis=-1)
        other = d.node("Concat", d.node("Neg", second), first, axis=-1)
        return d.node("Add", d.node("Mul", x, cosine), d.node("Mul", other, sine))

    x = "embedded"
    inputs = {"embedded": (TensorProto.FLOAT, (1, width)), "position": (TensorProto.INT64, (1,))}
    caches = {}
    for layer in range(layers):
        y = norm(x)
        q, k, v = (d.node("Reshape", product(y, width, width), split) for _ in range(3))
        kept = []
        for kind, new in (("keys", turned(k)), ("values", v)):
            name = f"{kind}{layer}"
            caches[name] = (TensorProto.FLOAT, (heads, length, of_head))
            kept.append(d.node("Where", is_new, new, name, name=f"{name}_next"))
        scores = d.node("MatMul", turned(q), d.node("Transpose", kept[0], perm=[0, 2, 1]))
        shares = d.node("Softmax", d.node("Add", d.node("Mul", scores, "scale"), mask), axis=-1)
        y = d.node("Reshape", d.node("MatMul", shares, kept[1]), merged)
        x = d.node("Add", x, product(y, width, width))
        y = norm(x)
        gate = product(y, width, inner)
        y = d.node("Mul", d.node("Mul", gate, d.node("Sigmoid", gate)), product(y, width, inner))
        x = d.node("Add", x, product(y, inner, width))
    d.node("MatMul", norm(x), d.drawn(width, words, size=1 / width**0.5), name="logits")
    outputs = {"logits": (TensorProto.FLOAT, (1, words)), **{f"{n}_next": port for n, port in caches.items()}}
    return d.model(f"llama_{layers}", inputs | caches, outputs, 17)
