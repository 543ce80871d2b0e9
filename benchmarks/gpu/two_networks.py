"""Encoders of BERT's form with random weights: as ONNX, and as PyTorch's module on one GPU or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder; its input and output are [batch, length, width]."""

    layers: int
    batch: int
    length: int
    width: int = 1024
    heads: int = 16
    inner: int = 4096

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.batch, self.length, self.width

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays by name, the same ones every time: [in, out] of products, [out] of biases and norms."""
        random = np.random.default_rng(7)
        found: dict[str, np.ndarray[Any, Any]] = {}

        def drawn(name: str, *shape: int, scale: float = 0.02, middle: float = 0.0) -> None:
            found[name] = random.standard_normal(shape, np.float32) * np.float32(scale) + np.float32(middle)

        square = (self.width, self.width)
        sizes = {"q": square, "k": square, "v": square, "o": square}
        sizes |= {"up": (self.width, self.inner), "down": (self.inner, self.width)}
        for layer in range(self.layers):
            for name, (rows, columns) in sizes.items():
                drawn(f"{layer}.{name}", rows, columns)
                drawn(f"{layer}.{name}.bias", columns)
            for norm in ("norm1", "norm2"):
                drawn(f"{layer}.{norm}", self.width, scale=0.1, middle=1.0)
                drawn(f"{layer}.{norm}.bias", self.width)
        return found

    def given(self) -> np.ndarray[Any, Any]:
        """The input."""
        return np.random.default_rng(8).standard_normal(self.shape, np.float32)

    def onnx(self) -> Any:
        """The network as an ONNX model of operator set 17."""
        from onnx import TensorProto, helper, numpy_helper

        nodes: list[Any] = []
        known: dict[str, np.ndarray[Any, Any]] = dict(self.weights())
        of_head = self.width // self.heads
        known |= {"heads": np.array([self.batch, self.length, self.heads, of_head]), "joined": np.array(self.shape)}
        for name, value in (("half", 0.5), ("one", 1.0), ("root", 0.5**0.5), ("scale", of_head**-0.5)):
            known[name] = np.array(value, np.float32)

        def add(kind: str, result: str, *given: str, **attributes: Any) -> str:
            nodes.append(helper.make_node(kind, list(given), [result], result, **attributes))
            return result

        def linear(x: str, name: str) -> str:
            return add("Add", f"{name}.sum", add("MatMul", f"{name}.product", x, name), f"{name}.bias")

        x = "x"
        for layer in range(self.layers):
            at = f"{layer}."
            turned = {}
            for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
                cut = add("Reshape", f"{at}{name}.cut", linear(x, at + name), "heads")
                turned[name] = add("Transpose", f"{at}{name}.turned", cut, perm=perm)
            scores = add("Mul", at + "scaled", add("MatMul", at + "scores", turned["q"], turned["k"]), "scale")
            mixed = add("MatMul", at + "mixed", add("Softmax", at + "shares", scores, axis=-1), turned["v"])
            joined = add("Reshape", at + "joined", add("Transpose", at + "back", mixed, perm=[0, 2, 1, 3]), "joined")
            carried = add("Add", at + "carried1", x, linear(joined, at + "o"))
            x = add("LayerNormalization", at + "n1", carried, at + "norm1", at + "norm1.bias", axis=-1, epsilon=1e-5)
            up = linear(x, at + "up")
            error = add("Erf", at + "erf", add("Mul", at + "rooted", up, "root"))
            half = add("Mul", at + "halved", up, "half")
            gelu = add("Mul", at + "gelu", half, add("Add", at + "more", error, "one"))
            carried = add("Add", at + "carried2", x, linear(gelu, at + "down"))
            result = "y" if layer == self.layers - 1 else at + "n2"
            x = add("LayerNormalization", result, carried, at + "norm2", at + "norm2.bias", axis=-1, epsilon=1e-5)
        made = [numpy_helper.from_array(value, name) for name, value in known.items()]
        ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, self.shape)] for n in ("x", "y")]
        graph = helper.make_graph(nodes, "encoder", *ports, made)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def torch(
        self, weights: Arrays, dtype: Any, rank: int = 0, ranks: int = 1, summed: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any]:
        """The network on PyTorch's current GPU; of several ``ranks`` the part of one, whose sums ``summed`` completes.

        Columns of the first products of a layer half are divided, and rows of the second, as Megatron-LM does.
        """
        import torch
        from torch.nn import functional as F

        def part(name: str, axis: int | None) -> Any:
            array = weights[name]
            if axis is not None and ranks > 1:
                each = array.shape[axis] // ranks
                array = array.take(range(rank * each, (rank + 1) * each), axis)
            return torch.from_numpy(np.ascontiguousarray(array)).cuda().to(dtype)

        def columns(layer: int, *names: str) -> tuple[Any, Any]:
            wide = torch.cat([part(f"{layer}.{n}", 1) for n in names], 1)
            return wide.T.contiguous(), torch.cat([part(f"{layer}.{n}.bias", 0) for n in names])

        def rows(layer: int, name: str) -> tuple[Any, Any]:
            return part(f"{layer}.{name}", 0).T.contiguous(), part(f"{layer}.{name}.bias", None)

        known = [
            (columns(k, "q", "k", "v"), rows(k, "o"), columns(k, "up"), rows(k, "down"),
             [part(f"{k}.{n}{what}", None) for n in ("norm1", "norm2") for what in ("", ".bias")])
            for k in range(self.layers)
        ]  # fmt: skip
        heads, of_head = self.heads // ranks, self.width // self.heads

        def complete(x: Any, both: tuple[Any, Any]) -> Any:
            if summed is None:
                return F.linear(x, *both)
            return summed(F.linear(x, both[0])) + both[1]

        def run(x: Any) -> Any:
            for qkv, out, up, down, norms in known:
                cut = F.linear(x, *qkv).view(x.shape[0], x.shape[1], 3, heads, of_head).permute(2, 0, 3, 1, 4)
                mixed = F.scaled_dot_product_attention(cut[0], cut[1], cut[2])
                joined = mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], heads * of_head)
                x = F.layer_norm(x + complete(joined, out), (self.width,), norms[0], norms[1])
                x = F.layer_norm(x + complete(F.gelu(F.linear(x, *up)), down), (self.width,), norms[2], norms[3])
            return x

        return run
