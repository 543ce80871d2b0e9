"""Kernels that a fit times: small models of one operator each, drawn for the memory and the speed of a device.

They cover the kinds of blocks whose prices the planner compares (products, convolutions, windows, rows, maps, copies,
attention, procedures), each from sizes that a cache holds to sizes that it does not. Several of them make one network,
so that a device compiles, receives and starts few programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgec.device.device import Device

#: The most bytes and operations of one kernel, and bytes of one network: with an operating system, and on a board.
HOSTED = (8 << 20, 6e7, 16 << 20)
BOARD = (24 << 10, 4e5, 96 << 10)
#: The largest over the smallest of those that are drawn, and elements of kernels that are nothing but their start.
RANGE, TINY = 100.0, (1, 2, 3, 4, 6, 8)
#: The most kernels in one network.
BATCH = 12
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One operator to be timed: its name, the nodes that ``make`` writes around names of its own, and what it needs.

    ``inputs`` and ``weights`` are the shapes of fp32 tensors; the nodes read them as x0, x1, .. and w0, w1, .., and
    write y. ``operations`` are about as many as its kernel executes.
    """

    name: str
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...]
    output: int
    operations: float
    nodes: Callable[[Callable[[str], str]], list[onnx.NodeProto]]
    constants: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def has_tiles(self) -> bool:
        """Whether its kernel is a product, which is timed in several tiles."""
        return self.name.partition(" ")[0] in ("product", "computed", "convolution")

    @property
    def bytes(self) -> int:
        """Bytes of its operands and its result."""
        return 4 * (sum(map(prod, (*self.inputs, *self.weights))) + self.output)


def cases_for(device: Device, count: int = 120, seed: int = 0) -> list[Case]:
    """About ``count`` cases that the device has room for, as many of each kind, in a fixed order.

    The kinds take turns, and the sizes of a kind are drawn with a fixed ``seed``, evenly by their logarithm: the same
    device gets the same cases.
    """
    most_bytes, most_operations, _ = limits(device)
    random = np.random.default_rng(seed)
    makers = [m for m in _MAKERS if not (device.is_gpu and m is _procedure)]
    found: dict[str, Case] = {c.name: c for c in (_tiny(n) for n in TINY)}
    for turn in range(20 * count):
        bytes, operations = (most * RANGE ** -float(random.random()) for most in (most_bytes, most_operations))
        case = makers[turn % len(makers)](random, bytes, operations)
        if case.bytes <= most_bytes and case.operations <= most_operations:
            found.setdefault(case.name, case)
        if len(found) == count:
            break
    return list(found.values())


def limits(device: Device) -> tuple[int, float, int]:
    """The most bytes and operations of one kernel, and the most bytes of one network, for a device."""
    return HOSTED if device.hosted else BOARD


def batches(cases: Sequence[Case], device: Device) -> Iterator[list[Case]]:
    """The cases in networks: neighbors by bytes share one, so that small kernels do not lose their caches to large."""
    _, _, room = limits(device)
    batch: list[Case] = []
    for case in sorted(cases, key=lambda c: c.bytes):
        if batch and (len(batch) == BATCH or sum(c.bytes for c in batch) + case.bytes > room):
            yield batch
            batch = []
        batch.append(case)
    if batch:
        yield batch


def network(cases: Sequence[Case], seed: int = 0) -> onnx.ModelProto:
    """A model of independent cases: the tensors of case k begin with ``k<k>_``, and its result is ``k<k>_y``."""
    random = np.random.default_rng(seed)
    nodes, inputs, outputs, held = [], [], [], []
    for k, case in enumerate(cases):

        def own(name: str, k: int = k) -> str:
            return f"k{k}_{name}"

        for i, shape in enumerate(case.inputs):
            inputs.append(helper.make_tensor_value_info(own(f"x{i}"), TensorProto.FLOAT, shape))
        for i, shape in enumerate(case.weights):
            values = random.standard_normal(shape).astype(np.float32) / np.float32(max(1, prod(shape[1:])) ** 0.5)
            held.append(numpy_helper.from_array(values, own(f"w{i}")))
        held += [numpy_helper.from_array(np.array(values, np.int64), own(name)) for name, values in case.constants]
        made = case.nodes(own)
        for i, node in enumerate(made):
            node.name = own(f"n{i}")
        nodes += made
        outputs.append(onnx.ValueInfoProto(name=own("y")))
    graph = helper.make_graph(nodes, "fit", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- the kinds


def _size(random: np.random.Generator, low: float, high: float) -> int:
    """A size between two, drawn evenly by its logarithm; every other one is a multiple of 8."""
    drawn = round(float(np.exp(random.uniform(np.log(low), np.log(max(high, low + 1))))))
    return max(8, drawn // 8 * 8) if random.random() < 0.5 else max(1, drawn)


def _tiny(elements: int) -> Case:
    """A map of so few elements that its time is that of starting a kernel."""

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        return [helper.make_node("Relu", [own("x0")], [own("y")])]

    return Case(f"tiny {elements}", ((elements,),), (), elements, elements, nodes)


def _product(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """A matmul by constant weights with a bias: rows by columns by terms, from one row up."""
    m = 1 if random.random() < 0.25 else _size(random, 2, 512)
    k = _size(random, 8, max(9.0, (bytes / 4) ** 0.5))
    n = _size(random, 8, max(9.0, min(bytes / 4 / k, operations / k / m)))

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        return [
            helper.make_node("MatMul", [own("x0"), own("w0")], [own("a")]),
            helper.make_node("Add", [own("a"), own("w1")], [own("y")]),
        ]

    return Case(f"product {m}x{n}x{k}", ((m, k),), ((k, n), (n,)), m * n, 2.0 * m * n * k, nodes)


def _computed(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """A matmul of two inputs for several heads, neither of which is constant."""
    heads, m = int(random.integers(1, 9)), _size(random, 8, 256)
    k = _size(random, 8, max(9.0, bytes / 4 / heads / m))
    n = _size(random, 8, max(9.0, min(operations / heads / m / k / 2, bytes / 4 / heads / k)))

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        return [helper.make_node("MatMul", [own("x0"), own("x1")], [own("y")])]

    name = f"computed {heads}x{m}x{n}x{k}"
    return Case(name, ((heads, m, k), (heads, k, n)), (), heads * m * n, 2.0 * heads * m * n * k, nodes)


def _convolution(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """A convolution of 1 to 5 taps a side, behind which a ReLU follows."""
    taps, stride = int(random.choice([1, 1, 3, 3, 5])), int(random.choice([1, 1, 2]))
    outputs = _size(random, 8, 256)
    channels = _size(random, 3, max(9.0, min(bytes / 4 / outputs / taps**2, 512)))
    side = max(taps + stride, int(min(bytes / 4 / channels, operations / channels / outputs / 2) ** 0.5 / taps) + taps)
    out = (side - taps) // stride + 1

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Conv", [own("x0"), own("w0"), own("w1")], [own("a")], strides=[stride, stride]),
            helper.make_node("Relu", [own("a")], [own("y")]),
        ]

    total = 2.0 * out * out * outputs * channels * taps * taps
    name = f"convolution {channels}->{outputs} {side}x{side} {taps}x{taps}/{stride}"
    shapes = ((outputs, channels, taps, taps), (outputs,))
    return Case(name, ((1, channels, side, side),), shapes, outputs * out * out, total, nodes)


def _depthwise(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """A depthwise convolution, or a pooling, of 2 to 5 taps a side."""
    taps, stride = int(random.choice([2, 3, 3, 5])), int(random.choice([1, 2]))
    channels = _size(random, 8, 512)
    side = max(taps + stride, int(min(bytes / 8 / channels, operations / channels / taps**2 / 2) ** 0.5))
    out, pools = (side - taps) // stride + 1, random.random() < 0.3

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        strides = [stride, stride]
        if pools:
            return [
                helper.make_node("AveragePool", [own("x0")], [own("y")], kernel_shape=[taps, taps], strides=strides)
            ]
        operands = [own("x0"), own("w0"), own("w1")]
        return [helper.make_node("Conv", operands, [own("y")], strides=strides, group=channels)]

    weights: tuple[Shape, ...] = () if pools else ((channels, 1, taps, taps), (channels,))
    kind = "pool" if pools else "depthwise"
    name, total = f"{kind} {channels} {side}x{side} {taps}x{taps}/{stride}", 2.0 * channels * out * out * taps * taps
    return Case(name, ((1, channels, side, side),), weights, channels * out * out, total, nodes)


def _row(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """A reduction of rows: softmax, a layer's normalization, a mean, or the largest element."""
    kind = str(random.choice(["Softmax", "LayerNormalization", "ReduceMean", "ReduceMax"]))
    columns = _size(random, 16, min(4096.0, max(17.0, bytes / 32)))
    rows = _size(random, 1, max(2.0, min(bytes / 8, operations / 20) / columns))

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        if kind == "LayerNormalization":
            return [helper.make_node(kind, [own("x0"), own("w0"), own("w1")], [own("y")])]
        given = {"axis": -1} if kind == "Softmax" else {"axes": [1]}
        return [helper.make_node(kind, [own("x0")], [own("y")], **given)]

    weights: tuple[Shape, ...] = ((columns,), (columns,)) if kind == "LayerNormalization" else ()
    results = rows * columns if kind in ("Softmax", "LayerNormalization") else rows
    return Case(f"row {kind} {rows}x{columns}", ((rows, columns),), weights, results, 20.0 * rows * columns, nodes)


def _map(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """Element-wise work: a sum and a ReLU, a product and a sigmoid, GELU's error function, or an exponential."""
    kind = str(random.choice(["Relu", "Sigmoid", "Erf", "Exp", "Tanh"]))
    rows, columns = _size(random, 1, 64), 0
    columns = _size(random, 8, max(9.0, min(bytes / 12, operations / 20) / rows))

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Add", [own("x0"), own("x1")], [own("a")]),
            helper.make_node(kind, [own("a")], [own("b")]),
            helper.make_node("Mul", [own("b"), own("a")], [own("y")]),
        ]

    both = (rows, columns)
    return Case(f"map {kind} {rows}x{columns}", (both, both), (), rows * columns, 20.0 * rows * columns, nodes)


def _copy(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """Data movement: a transpose, every other column, or rows in another order."""
    kind = str(random.choice(["transpose", "slice", "gather"]))
    rows = _size(random, 8, max(9.0, (bytes / 8) ** 0.5))
    columns = _size(random, 8, max(9.0, bytes / 8 / rows))
    constants: tuple[tuple[str, tuple[int, ...]], ...] = ()
    if kind == "slice":
        constants = (("begin", (1,)), ("end", (columns,)), ("axis", (1,)), ("step", (2,)))
    elif kind == "gather":
        constants = (("order", tuple(int(i) for i in random.permutation(rows))),)

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        if kind == "transpose":
            return [helper.make_node("Transpose", [own("x0")], [own("y")], perm=[1, 0])]
        if kind == "gather":
            return [helper.make_node("Gather", [own("x0"), own("order")], [own("y")])]
        return [helper.make_node("Slice", [own(n) for n in ("x0", "begin", "end", "axis", "step")], [own("y")])]

    results = rows * (columns // 2) if kind == "slice" else rows * columns
    return Case(f"copy {kind} {rows}x{columns}", ((rows, columns),), (), results, 0.0, nodes, constants)


def _attention(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """Attention of several heads over keys that are computed."""
    heads, features = int(random.choice([1, 2, 4, 8])), int(random.choice([16, 32, 64]))
    most = max(9.0, min(bytes / 16 / heads / features, (operations / 4 / heads / features) ** 0.5))
    queries, keys = (_size(random, min(32.0, most / 2), min(most, 1024)) for _ in range(2))

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Transpose", [own("x1")], [own("t")], perm=[0, 2, 1]),
            helper.make_node("MatMul", [own("x0"), own("t")], [own("s")]),
            helper.make_node("Softmax", [own("s")], [own("p")], axis=-1),
            helper.make_node("MatMul", [own("p"), own("x2")], [own("y")]),
        ]

    shapes = ((heads, queries, features), (heads, keys, features), (heads, keys, features))
    total = heads * queries * keys * (4.0 * features + 24)
    return Case(f"attention {heads}x{queries}x{keys}x{features}", shapes, (), heads * queries * features, total, nodes)


def _procedure(random: np.random.Generator, bytes: float, operations: float) -> Case:
    """An operator without a formula: a running sum, or rows in the order of their elements."""
    kind = str(random.choice(["CumSum", "TopK"]))
    columns = _size(random, 8, min(256.0, max(9.0, bytes / 64)))
    rows = _size(random, 1, max(2.0, min(bytes / 16, operations / 400) / columns))
    constants = (("axis", (1,)),) if kind == "CumSum" else (("count", (columns,)),)

    def nodes(own: Callable[[str], str]) -> list[onnx.NodeProto]:
        if kind == "CumSum":
            return [helper.make_node(kind, [own("x0"), own("axis")], [own("y")])]
        return [helper.make_node(kind, [own("x0"), own("count")], [own("y"), own("places")], axis=1)]

    total = 40.0 * rows * columns
    return Case(f"procedure {kind} {rows}x{columns}", ((rows, columns),), (), rows * columns, total, nodes, constants)


_MAKERS = (
    _product, _convolution, _map, _row, _attention, _depthwise, _copy, _product, _map, _row, _convolution, _attention,
    _depthwise, _copy, _computed, _procedure,
)  # fmt: skip
