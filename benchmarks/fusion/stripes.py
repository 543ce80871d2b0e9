"""Gain of a kernel for expand + depthwise + project: blocks of MobileNetV2 as a whole, and in stripes of rows.

    python -m benchmarks.fusion.stripes build --cache DIR
    python -m benchmarks.fusion.stripes time --cache DIR

A template that keeps what is between the three convolutions in the cache goes over a picture in stripes of rows. The
same C does so today if it is built for the height of a stripe: its buffers are then as small as that template's would
be. So a block is timed at its whole height, and as many times at the height of a stripe as it has stripes. Rows that
stripes share are not computed twice here (a stripe of r rows reads r of its input), and padding is filled for every
stripe: the first is better than a template could do, the second worse.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx

import edgec
from benchmarks.measure import Ours, on_cores, take_turns
from benchmarks.published.layers import Net

#: Blocks of MobileNetV2 at 224x224: channels in, expanded, out; height and width; stride; how often it is there.
BLOCKS = {
    "112, 16-96-24": (16, 96, 24, 112, 2, 1),
    "56, 24-144-24": (24, 144, 24, 56, 1, 1),
    "56, 24-144-32": (24, 144, 32, 56, 2, 1),
    "28, 32-192-32": (32, 192, 32, 28, 1, 2),
    "28, 32-192-64": (32, 192, 64, 28, 2, 1),
}
#: Rows of the input in a stripe; those of the whole picture are added.
STRIPES = (4, 8, 14, 28)


def block(channels: int, inner: int, after: int, height: int, width: int, stride: int) -> onnx.ModelProto:
    net = Net()
    x = net.transpose(net.input("x", 1, height, width, channels), 0, 3, 1, 2)  # as it lies within a network
    y = net.act(net.conv(x, inner, 1), "relu6")
    y = net.act(net.conv(y, inner, 3, stride, groups=inner), "relu6")
    y = net.conv(y, after, 1)
    y = net.each("Add", x, y) if channels == after and stride == 1 else y
    return net.giving(net.transpose(y, 0, 2, 3, 1)).finished("block")


def folders(cache: Path, name: str) -> dict[int, Path]:
    height = BLOCKS[name][3]
    place = cache / "".join(c if c.isalnum() else "_" for c in name)
    return {rows: place / str(rows) for rows in (*(s for s in STRIPES if height % s == 0 and s < height), height)}


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("what", choices=("build", "time"))
    p.add_argument("--cache", type=Path, default=Path("stripes"))
    p.add_argument("--seconds", type=float, default=2.0, help="of timing for each block")
    o = p.parse_args()
    if o.what == "time":
        print("| block | times | whole, us | " + " | ".join(f"stripes of {s}, us" for s in STRIPES) + " |")
        print("|---" * (3 + len(STRIPES)) + "|")
    total = best = 0.0
    for name, (channels, inner, after, width, stride, times) in BLOCKS.items():
        found = folders(o.cache, name)
        if o.what == "build":
            for rows, folder in found.items():
                edgec.build(block(channels, inner, after, rows, width, stride), folder, threads=1)
            continue
        with on_cores(1):
            nets = [Ours(folder, 1) for folder in found.values()]
            random = np.random.default_rng(0)
            given = [{"x": random.standard_normal((1, rows, width, channels), np.float32)} for rows in found]
            calls = tuple(net.bind(x, net.results()) for net, x in zip(nets, given))
            us = [min(t) * 1e6 for t in take_turns(calls, o.seconds)]
        whole = us[-1]
        striped = {rows: t * width / rows for rows, t in zip(found, us[:-1])}
        total, best = total + times * whole, best + times * min(whole, *striped.values())
        cells = " | ".join(f"{striped[s]:.1f}" if s in striped else "" for s in STRIPES)
        print(f"| {name} | {times} | {whole:.1f} | {cells} |", flush=True)
    if total:
        print(f"\nall: {total:.0f} us whole, {best:.0f} us with the best stripes: {total - best:.0f} us saved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
