"""Networks through OpenCL at batch 1: correctness, first run with and without the cache, milliseconds.

    python -m benchmarks.gpu.opencl [--device host_pocl] [--precision fp16] [--beside host] [--profile] [NAME ...]

Networks, weights and inputs are those of make_networks.py (--made FOLDER takes them from there when they are made),
correctness is against onnxruntime on the processor. ``--beside`` builds them for another device too (host, on two
threads, or one of CUDA: gpu/cuda_plain.toml has no tensor cores) and times both in turns. Enqueueing is what the
host spends until a run is in the queue.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

HEADLINE = ("mobilenetv2_224", "resnet50_224")


def made(name: str, folder: Path) -> Path:
    """The network with its inputs and reference; made now where it is not there."""
    path = folder / f"{name}.onnx"
    if not path.is_file():
        from benchmarks.networks import make as make_networks

        make_networks.make(name, folder, make_networks.RECIPES[name])
    if not (folder / f"{name}.ref.npz").is_file():
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        inputs = dict(np.load(folder / f"{name}.in.npz"))
        np.savez(folder / f"{name}.ref.npz", **dict(zip(names, session.run(names, inputs))))
    return path


def opened(folder: Path, cache: Path | None) -> tuple[Any, float]:
    """The network of a project, and the seconds it took to open it with compiled kernels from ``cache``."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("net", folder / "net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    begun = time.perf_counter()
    return module.Net(cache=cache), time.perf_counter() - begun


def measured(name: str, models: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    import edgec
    from edgec.device.load import load_device

    path = made(name, models)
    inputs, want = (dict(np.load(models / f"{name}.{what}.npz")) for what in ("in", "ref"))
    arrays = [np.ascontiguousarray(v) for v in inputs.values()]
    label = f"{name}_{options.precision}"
    built = edgec.build(str(path), folder / label, device=options.device, name="net", precision=options.precision)
    cache = folder / f"{label}_cache"
    cache.mkdir(exist_ok=True)
    # What drivers keep by themselves would hide what a first run costs.
    os.environ |= {"CUDA_CACHE_DISABLE": "1", "POCL_CACHE_DIR": str(folder / f"{label}_pocl")}
    record: dict[str, Any] = {"name": name, "precision": options.precision}
    record["kernels"] = len(built.program.kernels)
    for what in ("first", "cached"):
        network, record[f"{what}_open_s"] = opened(built.folder, cache)
        record[f"{what}_compiled"] = network.compiled
        begun = time.perf_counter()
        network.poison(0xFF)
        got = network(*arrays)
        record[f"{what}_run_s"] = time.perf_counter() - begun
    outputs = got if isinstance(got, tuple) else (got,)
    record |= {"device": network.device, "recorded": network.recorded}
    record["errors"] = [
        float(np.abs(g.astype(np.float64) - w).max() / np.abs(w).max()) for g, w in zip(outputs, want.values())
    ]
    others = []
    on_gpu = bool(options.beside) and load_device(options.beside).is_gpu
    if options.beside:
        more = {"threads": 2} if options.beside == "host" else {}
        other = edgec.build(str(path), folder / f"{name}_beside", device=options.beside, name="net", **more)
        others = [edgec.Network(other.folder, **more)]
        call, _ = others[0].bind(inputs)
        call()
    times: dict[str, list[float]] = {"ms": [], "enqueue_ms": [], "beside_ms": []}
    for _ in range(options.rounds):
        took, enqueue = network.milliseconds(options.runs)
        times["ms"].append(took)
        times["enqueue_ms"].append(enqueue)
        if on_gpu:
            times["beside_ms"].append(others[0]._net.milliseconds(options.runs))
        elif options.beside:
            begun = time.perf_counter()
            for _ in range(options.runs):
                call()
            times["beside_ms"].append((time.perf_counter() - begun) * 1e3 / options.runs)
    record |= {what: statistics.median(found) for what, found in times.items() if found}
    record |= {f"least_{what}": min(found) for what, found in times.items() if found}
    if options.profile:
        record["profile_us"] = [round(float(x) * 1e3, 1) for x in network.profile()]
    return record


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--device", default="host_pocl")
    p.add_argument("--precision", default="fp32", choices=["fp32", "fp16"])
    p.add_argument("--beside", help="a device to time beside it: host, cuda_sm90, benchmarks/gpu/cuda_plain.toml")
    p.add_argument("--runs", type=int, default=10, help="of the network, in a row")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--profile", action="store_true", help="times of every kernel")
    p.add_argument("--made", type=Path, help="where networks are, or are made")
    p.add_argument("--folder", type=Path)
    p.add_argument("--out", type=Path)
    options = p.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="edgec-opencl-"))
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for name in options.names or HEADLINE:
        try:
            results.append(measured(name, options.made or folder, folder, options))
        except Exception:
            results.append({"name": name, "failed": traceback.format_exc()[-1500:]})
        print(json.dumps({k: v for k, v in results[-1].items() if k != "profile_us"}), flush=True)
        if options.out:
            options.out.write_text(json.dumps(results))
    sys.exit(any("failed" in r for r in results))


if __name__ == "__main__":
    main()
