"""One network of the catalog as an ONNX file, made where torch is.

    python -m benchmarks.zoo.export ENTRY.json FILE.onnx

Exits with 1 and a line of text where the package, or its exporter, cannot make it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import warnings
import zlib
from pathlib import Path

import torch

from benchmarks.zoo import hugging, vision, weights
from benchmarks.zoo.entries import Entry

#: Bytes of addresses that making a network may take, of which its packages alone reserve some.
MEMORY = 14 * 10**9
MAKERS = {"timm": vision.make_timm, "torchvision": vision.make_torchvision, "transformers": hugging.make}


def export(entry: Entry, path: Path) -> None:
    torch.manual_seed(zlib.crc32(entry.model.encode()))
    torch.set_num_threads(1)
    network, inputs = MAKERS[entry.source](entry.model)
    network.eval()
    with torch.no_grad():
        weights.draw(network)
        weights.calibrate(network, inputs)
        found = network(*inputs)
        parts = [found] if isinstance(found, torch.Tensor) else [v for v in found if isinstance(v, torch.Tensor)]
        if not all(bool(torch.isfinite(v).all()) for v in parts if v.is_floating_point()):
            raise ValueError("its results are not finite with random weights")
        dynamo = entry.exporter == "dynamo"
        settings = {"external_data": False} if dynamo else {}
        torch.onnx.export(network, inputs, str(path), opset_version=entry.opset, dynamo=dynamo, **settings)  # type: ignore[arg-type]


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("entry")
    p.add_argument("path", type=Path)
    options = p.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    part = options.path.with_suffix(".part")
    try:
        export(Entry(**json.loads(options.entry)), part)
    except Exception as problem:  # whatever an exporter meets is what there is to say about it
        lines = [line for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
        print(f"{type(problem).__name__}: {lines[0][:300]}", file=sys.stderr)
        return 1
    part.replace(options.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
