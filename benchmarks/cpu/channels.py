"""Channel pruning: the smaller network compiled by edgec, compared with onnxruntime on the smaller ONNX file.

    python -m benchmarks.cpu.channels --sparsity 0.3

Networks are ResNet-50, MobileNetV2 and a U-Net of make_networks.py. The exit code is 1 where outputs differ by more
than 1e-4 of the largest.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime

import edgec
from benchmarks.cpu.sparse_page import put
from benchmarks.networks import catalog as networks
from benchmarks.table import markdown
from edgec.execute.samples import random_inputs

FAR = 1e-4


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("networks", nargs="*", metavar="NAME", default=["resnet50_224", "mobilenetv2_224", "unet_256"])
    p.add_argument("--folder", type=Path, help="of NAME.onnx (benchmarks/README.md says where they come from)")
    p.add_argument("--sparsity", type=float, default=0.3, help="the share of channels that goes")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="networks compiled at the same time")
    p.add_argument("--write", type=Path, help="put the table between its marks in a page")
    given = p.parse_args(arguments)
    found = {n.name: n for n in networks.find([given.folder] if given.folder else (), given.networks)[0]}
    if missing := [name for name in given.networks if name not in found]:
        raise SystemExit(f"{', '.join(missing)}: not found; --folder says where NAME.onnx lie (benchmarks/README.md)")
    chosen = [found[name] for name in given.networks]
    with ProcessPoolExecutor(given.jobs) as pool:
        differences, rows = zip(*pool.map(compared, chosen, [given.sparsity] * len(chosen)), strict=True)
    heads = ["network", "weights, MB", "smaller, MB", "largest difference, of the largest value"]
    text = (
        f"`--prune channel --sparsity {given.sparsity:g}`, outputs for one random input.\n\n{markdown(heads, rows, 1)}"
    )
    print(text)
    if given.write:
        put(given.write, "channels", text)
    return int(max(differences) > FAR)


def compared(network: networks.Network, share: float) -> tuple[float, list[str]]:
    """Difference of edgec's C from onnxruntime for a network without a fraction of its channels, and its row."""
    with tempfile.TemporaryDirectory(prefix="edgec-channels-") as folder:
        small = Path(folder) / "small.onnx"
        built = edgec.build(network.path, Path(folder) / "c", shapes=network.shapes, prune="channel", sparsity=share)
        built.write_onnx(small)
        inputs = random_inputs(built.stages.graph, 0)
        session = onnxruntime.InferenceSession(str(small), providers=["CPUExecutionProvider"])
        wanted = session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs.values(), strict=True)))
        got = built.network.run(inputs).values()
        far = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, wanted, strict=True))
        sizes = [f"{path.stat().st_size / 1e6:.1f}" for path in (network.path, small)]
    return far, [network.name, *sizes, f"{far:.1e}"]


if __name__ == "__main__":
    sys.exit(main())
