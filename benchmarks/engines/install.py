"""Preparation of a peer: an environment of its own, and the network in its own format."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks import environment as with_benchmarks

#: What pip installs for every engine. That of LiteRT makes the networks too: it brings torch. That of the zoo makes its
#: networks only.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "litert": ("litert-torch", "transformers", "onnx"),
    "ncnn": ("ncnn", "pnnx"),
    "mnn": ("MNN",),
    "zoo": ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript"),
}
#: Seconds that pip, and a converter, may take.
PATIENCE = 1800
# MNN's command line installs a package that reports its use when it starts; the module behind it does not.
_MNN = "import sys, _tools; _tools.mnnconvert(['', '-f', 'ONNX', '--modelFile', *sys.argv[1:], '--bizCode', 'x'])"


class NotHad(Exception):
    """A peer, or a network for it, cannot be had here; the message says why."""


def environment(engine: str, cache: Path) -> Path:
    """The Python of the engine's virtual environment, made on the first call; raises NotHad."""
    folder = cache / "venv" / engine
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.is_file():
        venv.create(folder, with_pip=True, symlinks=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        run([*pip, "numpy", *PACKAGES[engine]], f"pip install {' '.join(PACKAGES[engine])}")
        done.write_text("\n".join(PACKAGES[engine]) + "\n")
    return python


def make_network(name: str, folder: Path, cache: Path) -> None:
    """Write NAME.onnx, NAME.in.npz and NAME.tflite into the folder, unless they are there; raises NotHad."""
    if (folder / f"{name}.onnx").is_file() and (folder / f"{name}.in.npz").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    module = "benchmarks.networks.make"
    run([str(environment("litert", cache)), "-m", module, "--tflite", str(folder), name], f"making {name}")


def model_for(engine: str, path: Path, inputs: Mapping[str, np.ndarray], cache: Path) -> Path:
    """The network as the engine wants it, converted on the first call; raises NotHad.

    A conversion that failed is remembered, and not tried again.
    """
    if engine in ("onnxruntime", "openvino"):
        return path
    if engine == "litert":
        if not path.with_suffix(".tflite").is_file():
            raise NotHad(f"no {path.stem}.tflite beside the network (benchmarks.networks.make --tflite)")
        return path.with_suffix(".tflite")
    folder = cache / "converted" / engine / path.stem
    failure, done = folder / "failed.txt", folder / "done"
    if failure.is_file():
        raise NotHad(failure.read_text().strip())
    if not done.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        python = environment(engine, cache)
        try:
            _to_ncnn(path, folder, inputs, python) if engine == "ncnn" else _to_mnn(path, folder, python)
        except NotHad as problem:
            failure.write_text(f"{problem}\n")
            raise
        done.touch()
    return folder if engine == "ncnn" else folder / f"{path.stem}.mnn"


def _to_ncnn(path: Path, folder: Path, inputs: Mapping[str, np.ndarray], python: Path) -> None:
    source = folder / path.name
    source.unlink(missing_ok=True)
    source.symlink_to(path.resolve())  # pnnx writes beside its source
    types = {"float32": "", "int64": "i64"}
    shapes = ",".join(str(list(a.shape)).replace(" ", "") + types[str(a.dtype)] for a in inputs.values())
    run([str(python.with_name("pnnx")), source.name, f"inputshape={shapes}", "fp16=0"], "pnnx", folder)
    wanted = [folder / f"{path.stem}{end}" for end in (".ncnn.param", ".ncnn.bin", "_ncnn.py")]
    for file in folder.iterdir():
        if file not in wanted:
            file.unlink()
    if not all(file.is_file() for file in wanted):
        raise NotHad("pnnx wrote no network")


def _to_mnn(path: Path, folder: Path, python: Path) -> None:
    target = folder / f"{path.stem}.mnn"
    run([str(python), "-c", _MNN, str(path.resolve()), "--MNNModel", target.name], "MNN's converter", folder)
    if not target.is_file():
        raise NotHad("MNN's converter wrote no network")


def run(command: Sequence[str], what: str, folder: Path | None = None) -> None:
    print(f"  {what}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
            cwd=folder,
            env=with_benchmarks(),
        )
    except subprocess.TimeoutExpired:
        raise NotHad(f"{what} took more than {PATIENCE} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotHad(f"{what}: {lines[-1][:200]}")
