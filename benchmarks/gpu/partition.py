"""Networks on a phone's CPU and GPU: the plan of ``--place auto``, and correctness of the divided network.

    python -m benchmarks.gpu.partition [--device pixel_8] [--made FOLDER] [--write docs/results/opencl.md] [NAME ...]

The plan is of the phone's device files. For the results, the processor's part is built for this machine, and kernels
for the phone's GPU, without its extensions, are run by the OpenCL of this machine (PoCL); prices are those of this
processor beside that GPU with transfers for nothing, so that the cut is another one. Errors are against onnxruntime,
of the largest value.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import edgec
from benchmarks.gpu.opencl import made
from benchmarks.table import markdown, put_into
from edgec.device.load import load_device
from edgec.report.partition import record

NAMES = ("dscnn_kws", "mobilenetv2_224", "yolov8n_320", "vit_tiny_224")
COLUMNS = [
    "network",
    "blocks on the CPU",
    "on the GPU",
    "predicted ms",
    "CPU alone",
    "parts here",
    "error",
]
PLACES = ("<!-- placed -->", "<!-- end of placed -->")


def here(phone: str, folder: Path) -> Path:
    """A device file: this processor, beside it the kernels of a phone's GPU."""
    gpu, device = folder / "gpu_here.toml", folder / "phone_here.toml"
    free = "[measured]\nhandover_us = 0.01\ncopy_gbps = 1_000\n"
    base = load_device(phone).gpu_device
    gpu.write_text(f'base = "{base}"\ndescription = "its kernels, on this machine"\nopencl_extensions = []\n{free}')
    device.write_text(f'base = "host"\ndescription = "this processor"\ngpu = "{gpu}"\n')
    return device


def row(name: str, models: Path, folder: Path, phone: str) -> list[str]:
    path = str(made(name, models))
    planned = edgec.build(path, folder / f"{name}_phone", device=phone, place="auto", compile=False)
    found = record(planned)
    assert found is not None
    sides = [b["place"] for b in found["blocks"]]
    built = edgec.build(path, folder / f"{name}_here", device=here(phone, folder), place="auto", threads=2)
    checked = edgec.check(built)
    assert checked.ok, checked
    divided = record(built)
    parts = [p["place"] for p in divided["parts"]] if divided else []
    shown = f"{parts.count('gpu')} of the GPU, {parts.count('cpu')} of the CPU" if parts else "one"
    return [
        name, str(sides.count("cpu")), str(sides.count("gpu")), f"{found['predicted_ms']:.3g}",
        f"{found['cpu_alone_ms']:.3g}", shown, f"{max(o.max_rel for o in checked.outputs):.1e}",
    ]  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--device", default="pixel_8")
    p.add_argument("--made", type=Path, help="where networks are, or are made")
    p.add_argument("--write", type=Path, help="a page to put the table into")
    options = p.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="edgec-place-"))
    rows = []
    for name in options.names or NAMES:
        rows.append(row(name, options.made or folder, folder, options.device))
        print(*rows[-1], flush=True)
    if options.write:
        put_into(options.write, markdown(COLUMNS, rows), PLACES)


if __name__ == "__main__":
    main()
