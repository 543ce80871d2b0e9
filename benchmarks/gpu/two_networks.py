"""Encoders of BERT's form and decoders with random weights: as ONNX, and as PyTorch's module on one GPU or a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]


def _parts(weights: Arrays, dtype: Any, rank: int, ranks: int) -> Callable[[str, int | None], Any]:
    """Tensors of the current GPU by name, and by the dimension of which each rank has its part; None is all of it."""
    import torch

    def part(name: str, axis: int | None) -> Any:
        array = weights[name]
        if axis is not None and ranks > 1:
            each = array.shape[axis] // ranks
            array = array.take(range(rank * each, (rank + 1) * each), axis)
        return torch.from_numpy(np.ascontiguousarray(array)).cuda().to(dtype)

    return part


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

    @property
    def rows(self) -> int:
        """Rows that GPUs may divide."""
        return self.batch

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

    def given(self) -> dict[str, np.ndarray[Any, Any]]:
        """The input."""
        return {"x": np.random.default_rng(8).standard_normal(self.shape, np.float32)}

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

        part = _parts(weights, dtype, rank, ranks)

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


@dataclass(frozen=True)
class Decoder:
    """The sizes of a decoder in Llama's form, without rotation, of which one token is computed.

    Its inputs are x [1, width] and, for each layer, keys and values of the ``length`` tokens before, [heads, length,
    width / heads]; its outputs are y [1, width] and the new keys and values.
    """

    layers: int
    length: int
    width: int = 2048
    heads: int = 32
    inner: int = 8192

    @property
    def rows(self) -> int:
        """Rows that GPUs may divide."""
        return 1

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays by name, the same ones every time: [in, out] of products, [width] of norms."""
        random = np.random.default_rng(9)
        sizes = {"q": (self.width, self.width), "k": (self.width, self.width), "v": (self.width, self.width)}
        sizes |= {"o": (self.width, self.width), "gate": (self.width, self.inner), "up": (self.width, self.inner)}
        sizes |= {"down": (self.inner, self.width)}
        found = {
            f"{layer}.{name}": random.standard_normal(size, np.float32) * np.float32(0.7 / size[0] ** 0.5)
            for layer in range(self.layers) for name, size in sizes.items()
        }  # fmt: skip
        for layer in range(self.layers):
            for norm in ("norm1", "norm2"):
                found[f"{layer}.{norm}"] = 1 + random.standard_normal(self.width, np.float32) * np.float32(0.1)
        return found

    def given(self) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs by name."""
        random = np.random.default_rng(10)
        found = {"x": random.standard_normal((1, self.width), np.float32)}
        size = (self.heads, self.length, self.width // self.heads)
        caches = [f"{layer}.{kind}" for layer in range(self.layers) for kind in ("keys", "values")]
        return found | {name: random.standard_normal(size, np.float32) for name in caches}

    def onnx(self) -> Any:
        """The network as an ONNX model of operator set 17."""
        from onnx import TensorProto, helper, numpy_helper

        nodes: list[Any] = []
        of_head = self.width // self.heads
        known: dict[str, np.ndarray[Any, Any]] = dict(self.weights())
        known |= {"heads": np.array([self.heads, 1, of_head]), "joined": np.array([1, self.width])}
        known |= {"scale": np.array(of_head**-0.5, np.float32), "tiny": np.array(1e-6, np.float32)}

        def add(kind: str, result: str, *given: str, **attributes: Any) -> str:
            nodes.append(helper.make_node(kind, list(given), [result], result, **attributes))
            return result

        def norm(x: str, name: str) -> str:
            mean = add("ReduceMean", f"{name}.mean", add("Mul", f"{name}.square", x, x), axes=[-1])
            size = add("Sqrt", f"{name}.size", add("Add", f"{name}.more", mean, "tiny"))
            return add("Mul", f"{name}.normal", add("Div", f"{name}.one", x, size), name)

        x, ports = "x", {"y": (1, self.width)}
        for layer in range(self.layers):
            at = f"{layer}."
            y = norm(x, at + "norm1")
            q, k, v = (
                add("Reshape", f"{at}{n}.cut", add("MatMul", f"{at}{n}.product", y, at + n), "heads") for n in "qkv"
            )
            ports |= {k: (self.heads, 1, of_head), v: (self.heads, 1, of_head)}
            keys, values = (
                add("Concat", f"{at}{n}.all", at + n, new, axis=1) for n, new in (("keys", k), ("values", v))
            )
            scores = add("MatMul", at + "scores", q, add("Transpose", at + "turned", keys, perm=[0, 2, 1]))
            shares = add("Softmax", at + "shares", add("Mul", at + "scaled", scores, "scale"), axis=-1)
            mixed = add("Reshape", at + "mixed", add("MatMul", at + "mix", shares, values), "joined")
            x = add("Add", at + "carried1", x, add("MatMul", at + "o.product", mixed, at + "o"))
            y = norm(x, at + "norm2")
            gate = add("MatMul", at + "gate.product", y, at + "gate")
            silu = add("Mul", at + "silu", gate, add("Sigmoid", at + "sigmoid", gate))
            wide = add("Mul", at + "wide", silu, add("MatMul", at + "up.product", y, at + "up"))
            result = "y" if layer == self.layers - 1 else at + "carried2"
            x = add("Add", result, x, add("MatMul", at + "down.product", wide, at + "down"))
        made = [numpy_helper.from_array(value, name) for name, value in known.items()]
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in self.given().items()]
        outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in ports.items()]
        graph = helper.make_graph(nodes, "decoder", inputs, outputs, made)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def torch(
        self, weights: Arrays, dtype: Any, rank: int = 0, ranks: int = 1, summed: Callable[[Any], Any] | None = None
    ) -> Callable[..., Any]:
        """The first output on PyTorch's current GPU from all inputs; of several ``ranks`` as `Encoder.torch`.

        The caches that are given are those of the rank's heads.
        """
        import torch
        from torch.nn import functional as F

        part = _parts(weights, dtype, rank, ranks)

        def wide(layer: int, *names: str) -> Any:
            return torch.cat([part(f"{layer}.{n}", 1) for n in names], 1).T.contiguous()

        known = [
            (wide(k, "q", "k", "v"), part(f"{k}.o", 0).T.contiguous(), wide(k, "gate", "up"),
             part(f"{k}.down", 0).T.contiguous(), part(f"{k}.norm1", None), part(f"{k}.norm2", None))
            for k in range(self.layers)
        ]  # fmt: skip
        heads, of_head = self.heads // ranks, self.width // self.heads
        complete = summed or (lambda x: x)

        def run(x: Any, *caches: Any) -> Any:
            for layer, (qkv, out, gated, down, norm1, norm2) in enumerate(known):
                q, k, v = F.linear(F.rms_norm(x, (self.width,), norm1, 1e-6), qkv).view(3, heads, 1, of_head)
                keys = torch.cat((caches[2 * layer], k), 1)
                values = torch.cat((caches[2 * layer + 1], v), 1)
                mixed = F.scaled_dot_product_attention(q[None], keys[None], values[None]).view(1, heads * of_head)
                x = x + complete(F.linear(mixed, out))
                gate, up = F.linear(F.rms_norm(x, (self.width,), norm2, 1e-6), gated).chunk(2, -1)
                x = x + complete(F.linear(F.silu(gate) * up, down))
            return x

        return run


#: The networks by name, and their sizes in emulation.
NETWORKS: Mapping[str, tuple[type[Encoder] | type[Decoder], Mapping[str, int]]] = {
    "encoder": (Encoder, {"layers": 1, "batch": 2, "length": 16, "width": 64, "heads": 4, "inner": 128}),
    "decoder": (Decoder, {"layers": 1, "length": 16, "width": 64, "heads": 4, "inner": 128}),
}
