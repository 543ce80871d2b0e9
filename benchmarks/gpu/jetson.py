"""Every network compiled for a Jetson: nvcc's time, and GPU resources of kernels, as a table.

    python -m benchmarks.gpu.jetson --folder networks [--precision fp32,fp16] [--write PAGE] [NAME ...]
    python -m benchmarks.gpu.jetson --folder networks --device jetson_agx_xavier,jetson_nano --nvrtc UNPACKED

Networks are those of networks.py; no GPU is needed. With --nvrtc kernels go through NVRTC (nvrtc.py), for GPUs that
nvcc does not know any more; --jobs is how many files are compiled side by side, --side how many networks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.networks import catalog as networks
from benchmarks.table import put_into
from edgec import pipeline
from edgec.device.cuda import compile_cuda, pick_cuda_compiler
from edgec.device.load import load_device
from edgec.emit.language import CUDA
from edgec.emit.source import generate
from edgec.errors import EdgecError
from edgec.frontend.source import read
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.report.launches import launch, totals

COLUMNS = (
    "network", "device", "precision", "kernels", "functions", "nvcc, s", "registers", "shared, KiB", "spilling",
    "predicted, ms",
)  # fmt: skip
PLACES = ("<!-- jetson -->", "<!-- end -->")


def row(network: networks.Network, device: str, precision: str, jobs: int, nvrtc: Path | None) -> dict[str, Any]:
    """One network compiled: seconds of the compiler, and what its kernels take."""
    settings: dict[str, Any] = {"device": device}
    if precision != "fp32":
        settings["precision"] = precision
    options = replace(resolve(settings), shapes=dict(network.shapes))
    project = pipeline.run(read(str(network.path)), Context(options))["emit"]
    calls = generate(project.program, options.name, options.templates, CUDA).calls
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        folder = Path(scratch)
        for path, content in project.files.items():
            if Path(path).suffix in (".cu", ".h", ".S", ".bin"):
                (folder / path).write_bytes(content)
        kernels = sorted(folder.glob("*_kernels_*.cu"))
        begun = time.perf_counter()
        if nvrtc is not None:
            from benchmarks.gpu.nvrtc import Nvrtc

            library = Nvrtc(nvrtc)
            found = [r for source in kernels for r in library.compile(source, options.device)]
        else:
            host = [*folder.glob("net.cu"), *folder.glob("*.S")]
            sources = [*kernels, *host]
            found = compile_cuda(pick_cuda_compiler(options.device), options.device, sources, folder / "net.so", jobs)
        seconds = time.perf_counter() - begun
    said = {r.name: r for r in found}
    rows = [launch(call, project.program, options.device, said) for call in calls]
    together = totals([r for r in rows if r is not None])
    return {
        "network": network.name, "device": device, "precision": precision, "seconds": seconds, **together,
        "functions": len(said), "fits": together["shared_bytes"] <= options.device.largest_shared_bytes,
        "spills": {r.name: r.spill_bytes for r in found if r.spill_bytes},
    }  # fmt: skip


def tried(arguments: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return row(*arguments)
    except EdgecError as error:
        return {"network": arguments[0].name, "device": arguments[1], "precision": arguments[2], "failed": str(error)}


def told(found: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    lines = []
    for r in found:
        head = (r["network"], r["device"], r["precision"])
        if "failed" in r:
            lines.append((*head, *(r["failed"].splitlines()[0][:60], *[""] * (len(COLUMNS) - 4))))
            continue
        spilling = ", ".join(f"{n.split('_', 1)[1]} ({b} B)" for n, b in r["spills"].items()) or "0"
        shared = f"{r['shared_bytes'] / 1024:.1f}{'' if r['fits'] else ' too much'}"
        sizes = (str(r["kernels"]), str(r["functions"]), f"{r['seconds']:.1f}", str(r["registers"]), shared)
        lines.append((*head, *sizes, spilling, f"{r['predicted_us'] / 1e3:.2f}"))
    return lines


def markdown(lines: Sequence[tuple[str, ...]]) -> str:
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--folder", type=Path, action="append", default=[])
    p.add_argument("--device", default="jetson")
    p.add_argument("--precision", default="fp32,fp16")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--side", type=int, default=1)
    p.add_argument("--nvrtc", type=Path)
    p.add_argument("--write", type=Path, help="a page whose table between two marks is replaced")
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    wanted, missing = networks.find(options.folder, options.names, download=False)
    for lost in missing:
        print(f"{lost.name}: left out, {lost.reason}")
    work = [
        (network, device, precision, options.jobs, options.nvrtc)
        for network in wanted
        for device in options.device.split(",")
        for precision in options.precision.split(",")
        if precision == "fp32" or load_device(device).gpu.compute_capability >= 80
    ]
    found = []
    with ProcessPoolExecutor(options.side) as pool:
        for done in pool.map(tried, work):
            found.append(done)
            print(json.dumps(done), flush=True)
    drawn = markdown(told(found))
    print(drawn)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if options.write:
        put_into(options.write, drawn, PLACES)


if __name__ == "__main__":
    main()
