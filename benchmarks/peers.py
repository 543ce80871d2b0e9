"""edgec compared with the other engines for this CPU: every network, interleaved, with its outputs checked.

    python -m benchmarks.peers --write docs/results/peers.md

Networks are made and engines installed in a cache folder on the first run; what cannot be had is said so and left out.
A measurement is one network on one number of threads. Finished ones are kept in the cache, so that a run that was
interrupted goes on where it was; --again measures anew. The exit code is 1 when a result of edgec is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks import environment, spoiled
from benchmarks.cpu import peak
from benchmarks.engines import install as peer_install
from benchmarks.engines import page as peer_page
from benchmarks.engines.install import NotHad
from benchmarks.engines.peer import Peer
from benchmarks.networks.catalog import wanted
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.report.facts import macs

NETWORKS = (
    "mobilenetv2_224", "mobilenetv3s_224", "efficientnet_b0_224", "resnet50_224", "squeezenet11_224", "yolov8n_320",
    "unet_256", "bert_base_128", "tinybert_128", "gpt2_64", "vit_tiny_224", "dscnn_kws", "resnet8_cifar",
    "c3d_small_16x112",
)  # fmt: skip
ROUNDS = ("-m", "benchmarks.engines.rounds")


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    cache: Path = options.cache
    results = cache / "results"
    results.mkdir(parents=True, exist_ok=True)
    names = [n for n in options.networks or NETWORKS if wanted(n, options.only)]
    pythons, missing = environments(options.engines, cache)
    for name in names:
        todo = [t for t in options.threads if options.again or not _is_measured(results / f"{name}.{t}.json", options)]
        if not todo:
            continue
        try:
            peer_install.make_network(name, options.folder, cache)
        except NotHad as problem:
            print(f"{name}: left out: {problem}", flush=True)
            continue
        path = options.folder / f"{name}.onnx"
        reference_for(path, cache)
        record = results / f"{name}.build.json"
        built = json.loads(record.read_text()) if options.built and record.is_file() else _build(path, options, cache)
        record.write_text(json.dumps(built, indent=1) + "\n")
        models, unconverted = _models(path, pythons, cache)
        for _ in range(0 if options.prepare else 1 + spoiled.AGAIN):
            for threads in todo:
                found = _measure(path, threads, built, pythons, models, options)
                found["missing"] = {**missing, **unconverted}
                (results / f"{name}.{threads}.json").write_text(json.dumps(found, indent=1) + "\n")
                print(f"{name}: {peer_page.line(found)}", flush=True)
            why = peer_page.Table.read(results, [name], options.threads).spoiled(name)
            if not why:
                break
            print(f"{name}: spoiled: {'; '.join(why)}", flush=True)
            todo = options.threads  # all of them: never one side, nor one number of threads
    table = peer_page.Table.read(results, names, options.threads)
    print(peer_page.summary(table), flush=True)
    if options.write:
        # Where the cache is and what runs beside belongs to one machine.
        command = f"python -m benchmarks.peers --seconds {options.seconds:g} --write {options.write.name}"
        options.write.write_text(peer_page.page(table, command), encoding="utf-8")
    return 0 if table.is_right else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_cache(), help="environments, conversions, results")
    p.add_argument("--folder", type=Path, help="NAME.onnx, NAME.in.npz, NAME.tflite; made in the cache by default")
    p.add_argument("--networks", nargs="+", metavar="NAME", help="by default the fourteen of benchmarks.networks.make")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names to measure; may be repeated")
    p.add_argument("--engines", nargs="*", default=list(peer_install.PACKAGES), choices=list(peer_install.PACKAGES))
    p.add_argument("--compilers", nargs="+", default=[""], metavar="KIND", help="gcc, clang, zig; each a column")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=6.0, help="of taking turns, for a measurement")
    p.add_argument("--again", action="store_true", help="measure what is measured already")
    p.add_argument("--prepare", action="store_true", help="install, convert and build, but do not measure")
    p.add_argument("--built", action="store_true", help="measure what --prepare built, without building anew")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run measurements under a command")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    options = p.parse_args(arguments)
    if options.write and len(options.compilers) > 1:
        p.error("the page is of one compiler: leave out --write, or --compilers")
    options.folder = options.folder or options.cache / "networks"
    return options


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgec" / "peers"


def environments(engines: list[str], cache: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The Python of every engine that can be had, and why the others cannot."""
    pythons, missing = {}, {}
    for engine in engines:
        try:
            pythons[engine] = str(peer_install.environment(engine, cache).absolute())
        except NotHad as problem:
            missing[engine] = str(problem)
            print(f"{engine}: left out: {problem}", flush=True)
    return pythons, missing


def _is_measured(path: Path, options: argparse.Namespace) -> bool:
    if not path.is_file():
        return False
    found = json.loads(path.read_text())
    return {*options.engines, *map(_label, options.compilers)} <= {*found["engines"], *found["missing"]}


def _label(compiler: str) -> str:
    return f"edgec ({compiler})" if compiler else "edgec"


def reference_for(path: Path, cache: Path) -> Path:
    """Outputs of onnxruntime without its optimizations, on the inputs beside the network."""
    place = cache / "reference" / f"{path.stem}.npz"
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        np.savez(place, **Peer(path, {}, 1, optimize=False).run(inputs_of(path)))
    return place


def inputs_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(path.with_suffix(".in.npz"), allow_pickle=False) as data:
        return dict(data)


def _build(path: Path, options: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """The artefacts, one a compiler, and what building them took."""
    found: dict[str, Any] = {}
    shapes = {name: array.shape for name, array in inputs_of(path).items()}
    for compiler in options.compilers:
        folder = cache / "built" / (f"{path.stem}-{compiler}" if compiler else path.stem)
        folder.parent.mkdir(exist_ok=True)
        built = edgec.build(
            path, folder, shapes=shapes, threads=max(options.threads), device="host", compiler=compiler or None
        )
        found[_label(compiler)] = {
            "folder": str(folder.absolute()),
            "compiler": built.compiler,
            "macs": macs(built.stages.graph),
            "kernels": built.kernels,
            "weights_bytes": built.weights_bytes,
            "arena_bytes": built.arena_bytes,
            "text_bytes": _text_bytes(next(folder.glob("*.so"))),
            "edgec_s": sum(built.seconds.values()) - built.seconds["compile"],
            "compile_s": built.seconds["compile"],
        }
    return found


def _text_bytes(library: Path) -> int:
    """The size of the section of code."""
    done = subprocess.run(["size", "-A", str(library)], capture_output=True, text=True, check=True)
    return next(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(".text"))


def _models(path: Path, pythons: Mapping[str, str], cache: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The network as each engine takes it, and why some cannot have it."""
    models, missing = {}, {}
    for engine in pythons:
        try:
            models[engine] = str(peer_install.model_for(engine, path, inputs_of(path), cache).absolute())
        except NotHad as problem:
            missing[engine] = str(problem)
    return models, missing


def in_turns(
    engines: Sequence[Mapping[str, Any]], inputs: Path, reference: Path, threads: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Times of engines that ran interleaved on the same inputs, compared with the same outputs."""
    job = {"engines": list(engines), "threads": threads, "seconds": options.seconds}
    job |= {"inputs": str(inputs.absolute()), "reference": str(reference.absolute())}
    device = load_device("host")
    with tempfile.TemporaryDirectory(prefix="edgec-peers-") as folder:
        task, result = Path(folder, "job.json"), Path(folder, "result.json")
        job["peak"] = [str(program) for program in peak.programs(device, pick_compiler(device), Path(folder))]
        task.write_text(json.dumps(job))
        subprocess.run([*options.under, sys.executable, *ROUNDS, str(task), str(result)], check=True, env=environment())
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def _measure(
    path: Path,
    threads: int,
    built: Mapping[str, Any],
    pythons: Mapping[str, str],
    models: Mapping[str, str],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One measurement, in a process of its own under the command that was asked for."""
    engines: list[dict[str, Any]] = []
    own = {"engine": "edgec", "python": sys.executable}
    for label, entry in built.items():
        engines.append({"label": label, "model": entry["folder"], "threads": threads, **own})
    if threads > 1:  # in the same turns, for the gain of threads
        first = next(iter(built.values()))
        engines.append({"label": "edgec on 1 thread", "model": first["folder"], "threads": 1, **own})
    for engine, model in models.items():
        entry = {"label": engine, "engine": engine, "python": pythons[engine], "model": model, "threads": threads}
        engines.append(entry)
    device = load_device("host")
    found = in_turns(engines, path.with_suffix(".in.npz"), reference_for(path, options.cache), threads, options)
    return {
        "network": path.stem,
        "date": date.today().isoformat(),
        "threads": threads,
        "cpu": f"{device.description.partition(',')[0] or device.name}, {device.cores} cores",
        **found,
    }


if __name__ == "__main__":
    sys.exit(main())
