"""Every tile of a matmul on a GPU, timed and compared with the prediction in `edgec.schedule.gpu.tile_cycles`.

    python -m benchmarks.gpu.tiles [--device cuda_sm90] [--precision fp32,tf32,fp16,int8] [--groups] [--gelu]
        [--shapes ROWSxCOLUMNSxDEPTH ...] --out FILE.json

For each shape of the list, one project with a kernel for every tile and split that could make sense. The table says how
much slower the predicted tile is than the best. Results go through a ReLU, with --gelu through a GELU, and with int8
become bytes then. With --groups only tiles of groups of four warps are timed, from which `benchmarks.gpu.fit_tiles`
solves for their costs. Needs nvcc and a GPU; with --replay FILE.json only the predictions are made anew, for times that
were taken before.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from math import ceil, exp, log
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu import products
from edgec.artifact.compile import compile_library
from edgec.device.cuda import pick_cuda_compiler
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.gpu import contract as scheduler
from edgec.schedule.gpu import tiles
from edgec.schedule.gpu.tile import AnyTile
from edgec.schedule.gpu.variants import TILES
from edgec.schedule.options import ScheduleOptions

#: (rows, columns, depth): mobile networks, ResNet-50, transformers of 64 to 197 tokens.
SHAPES = (
    (12544, 16, 32), (3136, 24, 144), (784, 192, 32), (196, 64, 384), (196, 576, 96), (49, 160, 960), (49, 1280, 320),
    (3136, 64, 576), (784, 128, 1152), (784, 512, 128), (196, 256, 2304), (196, 256, 1024), (49, 512, 4608),
    (49, 2048, 512), (197, 192, 192), (197, 768, 192), (197, 192, 768), (128, 768, 768), (128, 3072, 768),
    (128, 768, 3072), (128, 2304, 768), (64, 3072, 768), (64, 2304, 768), (64, 768, 3072), (64, 768, 768),
    (1500, 384, 384), (1500, 1536, 384), (1500, 384, 1536), (512, 1024, 1024), (1024, 4096, 1024), (3136, 256, 64),
    (784, 768, 192), (12544, 64, 147), (784, 32, 1152), (196, 32, 1152), (196, 128, 928), (3136, 384, 96),
)  # fmt: skip


def offers(shape: tuple[int, int, int], device: Device, groups_alone: bool = False) -> list[AnyTile]:
    """The tiles and splits worth timing: neither a handful of groups, nor many more than the machine holds at once."""
    rows, columns, depth = shape
    found: list[AnyTile] = []
    element = element_of(device)
    groups = tiles.group_offers(rows, columns, depth, device, element or tiles.multiplied(device), True)
    for offer in (*(() if groups_alone else tiles.offers(columns, depth, device, element, True)), *groups):
        count = ceil(rows / offer.m) * ceil(columns / offer.n)
        for split in tiles.SPLITS:
            if split > 1 and (depth // split < 2 * offer.k or count * split > 4 * device.gpu.multiprocessors):
                break
            if count * split * 3 >= device.gpu.multiprocessors or split == 1:
                found.append(replace(offer, split=split))
    return found


def element_of(device: Device) -> str:
    """The type of factors that the tiles of a product are asked for by; of floats the precision says it."""
    return "s8" if device.name.endswith("int8") else ""


def device_of(device: Device, precision: str) -> Device:
    """The device in a precision; int8 is one of products, whose results are halves."""
    if precision == "int8":
        return replace(device, precision="fp16", name=f"{device.name} int8")
    return replace(device, precision=precision)  # type: ignore[arg-type]


def made(
    shape: tuple[int, int, int], device: Device, folder: Path, groups_alone: bool, gelu: bool
) -> list[dict[str, Any]]:
    """A compiled project with one kernel for every offer; the offers, in the order of its kernels."""
    wanted = offers(shape, device, groups_alone)
    graph = products.graph(shape, element_of(device) or "f16", len(wanted), gelu)
    left = list(wanted)
    scheduler.tile_for = lambda *_: left.pop(0)  # type: ignore[assignment]
    program = schedule(plan(graph, gpu=True), device, ScheduleOptions(fp32_blocks=0))
    folder.mkdir(parents=True)
    for path, content in files(program, device, "net").items():
        (folder / path).write_bytes(content)
    compile_library(folder, device, pick_cuda_compiler(device), jobs=1)
    return [vars(k.schedule.tile) if k.template == "contract" else {} for k in program.kernels]


def timed(shape: tuple[int, int, int], folder: Path) -> list[float]:
    """Microseconds of every kernel."""
    sys.path.insert(0, str(folder))
    sys.modules.pop("net", None)
    import net

    network = net.Net()
    network(np.random.default_rng(1).standard_normal((shape[0], shape[2]), dtype=np.float32))
    found = [float(x) * 1e3 for x in network.profile()]
    network.close()
    sys.path.pop(0)
    return found


def told(results: dict[str, Any], device: Device) -> None:
    """Report of the predicted tile relative to the best one, shape by shape."""
    for precision, shapes in results.items():
        one = device_of(device, precision)
        losses, tuned = [], []
        for text, rows in shapes.items():
            if not rows:  # a product that no tile on offer fits
                continue
            shape = tuple(map(int, text.split("x")))
            best = min(rows, key=lambda r: r["us"])
            chosen = tiles.tile_for(1, *shape, one, element_of(one), True)
            same = [r for r in rows if all(r[k] == v for k, v in vars(chosen).items())]
            us = same[0]["us"] if same else float("nan")
            proposed = [vars(t) for t in tiles.tiles_for(1, *shape, one, element_of(one), True)[:TILES]]
            ways = [r["us"] for r in rows if {k: v for k, v in r.items() if k != "us"} in proposed]
            tuned += [min(ways) / best["us"]] if ways else []
            losses.append(us / best["us"])
            flops = 2 * shape[0] * shape[1] * shape[2]
            rate = flops / best["us"] / 1e6
            print(f"{precision} {text}: best {_short(best)} {best['us']:.1f} us ({rate:.1f} TFLOP/s), "
                  f"chosen {_short(vars(chosen))} {us:.1f} us")  # fmt: skip
        known = [x for x in losses if x == x]
        mean = exp(sum(map(log, known)) / max(len(known), 1))
        print(f"{precision}: chosen over best, geometric mean {mean:.3f}, worst {max(known, default=1.0):.2f}, "
              f"{len(losses) - len(known)} not timed; the quickest of the {TILES} that edgec tune times "
              f"{exp(sum(map(log, tuned)) / max(len(tuned), 1)):.3f}")  # fmt: skip


def _short(t: dict[str, Any]) -> str:
    return f"{t['m']}x{t['n']}" + (f"/{t['split']}" if t["split"] > 1 else "")


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--device", default="cuda_sm90")
    p.add_argument("--precision", default="fp32,fp16")
    p.add_argument("--out", type=Path)
    p.add_argument("--groups", action="store_true", help="only tiles of groups of four warps")
    p.add_argument("--shapes", nargs="*", default=[], metavar="ROWSxCOLUMNSxDEPTH")
    p.add_argument("--gelu", action="store_true", help="results go through a GELU")
    p.add_argument("--replay", type=Path)
    options = p.parse_args()
    device = load_device(options.device)
    results: dict[str, Any] = {}
    if options.replay:
        results = json.loads(options.replay.read_text())
    else:
        shapes = [tuple(map(int, text.split("x"))) for text in options.shapes] or SHAPES
        root = Path(tempfile.mkdtemp(prefix="edgec-tiles-"))
        begun = time.perf_counter()
        with ProcessPoolExecutor() as pool:
            waiting = [
                (precision, shape, root / precision / str(number),
                 pool.submit(made, shape, device_of(device, precision), root / precision / str(number), options.groups,
                             options.gelu))
                for precision in options.precision.split(",")
                for number, shape in enumerate(shapes)
            ]  # fmt: skip
            for precision, shape, folder, work in waiting:
                rows = work.result()
                try:
                    pairs = zip(rows, timed(shape, folder))
                except RuntimeError as error:
                    raise SystemExit(f"{precision} {shape}: {error}") from None
                kept = [{**row, "us": round(us, 2)} for row, us in pairs if row]
                results.setdefault(precision, {})["x".join(map(str, shape))] = kept
        print(f"{time.perf_counter() - begun:.0f} s")
    if options.out:
        options.out.write_text(json.dumps(results))
    told(results, device)


if __name__ == "__main__":
    main()
