"""A network with its preprocessing inside, beside Pillow in front of the network: milliseconds on one thread.

MODEL takes one f32 picture. Pillow resizes (bilinear, antialiased) and numpy normalizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

import edgec
from edgec.media.pictures import frame_of

HEIGHT, WIDTH = 480, 640
MEAN, STD = 127.0, 128.0
WORDS = f"fit=stretch,scale=1,mean={MEAN},std={STD}"


def least(runs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The shortest time of each run on its processor in milliseconds, all in turns: other programs do not count."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            begun = time.thread_time()
            run()
            best[k] = min(best[k], 1e3 * (time.thread_time() - begun))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    alone = edgec.build(given.model)
    (port,) = alone.graph.inputs
    frame = frame_of(port.type.shape, port.type.dtype, "input", None)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    planes = random.integers(0, 256, (1, HEIGHT * 3 // 2, WIDTH), np.uint8)

    def pillow() -> np.ndarray:
        small = Image.fromarray(pixels).resize((frame.width, frame.height), Image.Resampling.BILINEAR)
        values = (np.asarray(small, np.float32).reshape(frame.height, frame.width, frame.channels) - MEAN) / STD
        return np.ascontiguousarray(values.transpose(2, 0, 1) if frame.is_first else values)[None]

    def inside(format: str, **more: Any) -> Any:
        return edgec.build(given.model, pre=f"picture={format}:{HEIGHT}x{WIDTH}", picture=WORDS, **more)

    ready, rgb, nv12, apart = pillow(), inside("rgb8"), inside("nv12"), inside("rgb8", fuse="none")
    unfused = edgec.build(given.model, fuse="none")
    runs: dict[str, Callable[[], Any]] = {
        "network alone": lambda: alone(ready),
        "rgb8 inside": lambda: rgb(pixels[None]),
        "nv12 inside": lambda: nv12(planes),
        "Pillow and numpy, then the network": lambda: alone(pillow()),
        "network alone, not fused": lambda: unfused(ready),
        "rgb8 inside, not fused": lambda: apart(pixels[None]),
    }
    print("| | ms |\n|---|---:|")
    for name, found in zip(runs, least(list(runs.values()), given.rounds)):
        print(f"| {name} | {found:.2f} |")


if __name__ == "__main__":
    main()
