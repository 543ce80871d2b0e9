"""Seconds from a model to its first answer on an NVIDIA GPU: edgec and its nvcc, and torch.compile.

    python -m benchmarks.gpu.first_answer [--device DEVICE] [--precision fp16] [--modes MODE,MODE] [NAME ...]

Each is a process of its own with empty caches. edgec's time is all of it: Python's imports, `edgec build` of the ONNX
file, nvcc, loading, one run. PyTorch's begins when module and weights are on the GPU already.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path


def ours(name: str, folder: Path, device: str, precision: str) -> dict[str, float]:
    begun = time.perf_counter()
    import numpy as np

    import edgec

    settings = {"precision": precision} if precision != "fp32" else {}
    built = edgec.build(str(folder / f"{name}.onnx"), folder / f"{name}_first", device=device, **settings)
    made = time.perf_counter()
    built.network.run(dict(np.load(folder / f"{name}.in.npz")))
    end = time.perf_counter()
    compiled = built.seconds["compile"]
    return {"edgec": end - begun, "of it nvcc": compiled, "of it load and run": end - made}


def theirs(name: str, folder: Path, mode: str, precision: str) -> dict[str, float]:
    import numpy as np
    import torch

    from benchmarks.networks import make as make_networks

    torch.manual_seed(zlib.crc32(name.encode()))
    recipe = make_networks.RECIPES[name]
    module = recipe.make()
    with torch.no_grad():
        make_networks.draw_weights(module)
    dtype = torch.float16 if precision == "fp16" else torch.float32
    module = module.eval().cuda().to(dtype)
    given = [torch.from_numpy(v).cuda() for v in dict(np.load(folder / f"{name}.in.npz")).values()]
    given = [a.to(dtype) if a.is_floating_point() else a for a in given]
    torch.cuda.synchronize()
    begun = time.perf_counter()
    with torch.inference_mode():
        torch.compile(module, mode=mode)(*given)
    torch.cuda.synchronize()
    return {f"torch.compile {mode}": time.perf_counter() - begun}


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--device", default="cuda_sm90")
    p.add_argument("--precision", default="fp16")
    p.add_argument("--modes", default="default,reduce-overhead")
    p.add_argument("--folder", type=Path, help="where NAME.onnx are, or are made")
    p.add_argument("--who", help=argparse.SUPPRESS)
    options = p.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="edgec-first-"))
    if options.who:
        (name,) = options.names
        is_ours = options.who == "edgec"
        where = options.device if is_ours else options.who
        print(json.dumps((ours if is_ours else theirs)(name, folder, where, options.precision)))
        return
    names = options.names or ["mobilenetv2_224", "resnet50_224"]
    for name in names:
        if not (folder / f"{name}.onnx").is_file():
            from benchmarks.networks import make as make_networks

            make_networks.make(name, folder, make_networks.RECIPES[name])
        found: dict[str, float] = {}
        for who in ("edgec", *options.modes.split(",")):
            with tempfile.TemporaryDirectory() as cache:
                own = {"TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor", "TRITON_CACHE_DIR": f"{cache}/triton"}
                command = [sys.executable, "-m", __spec__.name, name, "--folder", str(folder), "--who", who]
                command += ["--device", options.device, "--precision", options.precision]
                done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own}, check=False)
            lines = done.stdout.strip().splitlines()
            found |= json.loads(lines[-1]) if done.returncode == 0 and lines else {f"{who} failed": 0.0}
            if done.returncode:
                print(done.stderr[-800:], file=sys.stderr)
        print(f"{name} {options.precision}: " + ", ".join(f"{k} {s:.1f} s" for k, s in found.items()), flush=True)


if __name__ == "__main__":
    main()
