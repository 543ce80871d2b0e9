"""Networks with fp16 accumulation on an emulated 64-bit Arm: their errors, and their decisions on images.

    python -m benchmarks.cpu.fp16_sums --folder networks [--pictures 12] [--write docs/guide/precision.md] [NAME ...]

NAME.onnx are looked for in the folder (make_networks.py writes them). Each is compiled for Raspberry Pi 5 with
--precision fp16 and run once on random inputs by qemu as Neoverse N1, whose core it has; and for this machine, which
stores fp16 and adds up floats. The error is the largest difference from onnxruntime's result in fp32 over its largest
value. Then EfficientNet-Lite0 from its wheel tells the class of the first pictures that accuracy.py reads.
"""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from pathlib import Path

import numpy as np

import edgec
from benchmarks.accuracy.decisions import pictures
from benchmarks.engines.peer import Peer
from benchmarks.networks import catalog as networks
from benchmarks.networks import wheels
from edgec.bench.remote import connect
from edgec.progress import silent

NAMES = (
    "mobilenetv2_224", "mobilenetv3s_224", "efficientnet_b0_224", "resnet50_224", "squeezenet11_224", "tinybert_128",
    "dscnn_kws", "resnet8_cifar",
)  # fmt: skip
DEVICE, LINK = "raspberry_pi_5", "qemu:neoverse-n1"
BEGIN, END = "<!-- benchmarks/cpu/fp16_sums.py -->\n", "<!-- /benchmarks/cpu/fp16_sums.py -->\n"


def error(path: Path, device: str, link: str | None) -> tuple[str, bool]:
    """The largest error of an output in fp16, and whether `edgec check` lets it pass."""
    checked = edgec.check(str(path), device=device, precision="fp16", link=link, samples=1)
    return f"{max(d.max_rel for d in checked.outputs):.1e}", checked.ok


def seen(count: int) -> tuple[int, int, int, int]:
    """Pictures; how many of them edgec and onnxruntime tell rightly; how many they tell differently."""
    path = wheels.network("efficientnet_lite0", wheels.default_cache())
    built = edgec.build(str(path), device=DEVICE, precision="fp16")
    peer = Peer(path, {}, 1)
    (entry,) = built.stages.graph.inputs
    name = entry.attributes["name"]
    examples = list(islice(pictures(networks.models_folder() / "imagenet_even"), count))
    with connect(built, LINK, None, 600.0, silent) as on:
        got = [int(np.argmax(next(iter(ran.outputs.values())))) for ran in on.run([{name: x} for x, _ in examples])]
    wanted = [int(np.argmax(next(iter(peer.run({name: x}).values())))) for x, _ in examples]
    labels = [label for _, label in examples]
    ours, theirs = (sum(a == b for a, b in zip(told, labels)) for told in (got, wanted))
    return len(examples), ours, theirs, sum(a != b for a, b in zip(got, wanted))


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME", default=NAMES)
    p.add_argument("--folder", type=Path, default=Path("networks"))
    p.add_argument("--pictures", type=int, default=12)
    p.add_argument("--write", type=Path, metavar="FILE", help="write the section of the page")
    given = p.parse_args()
    rows, right = [], True
    for name in given.names:
        path = given.folder / f"{name}.onnx"
        if not path.is_file():
            print(f"left out {name}: no {path}", file=sys.stderr)
            continue
        (fp16, passes), (floats, _) = error(path, DEVICE, LINK), error(path, "host", None)
        right &= passes
        rows.append(f"| {name} | {fp16}{'' if passes else ' **too much**'} | {floats} |")
        print(rows[-1], flush=True)
    head = "| network | accumulated in fp16 | stored in fp16, accumulated in fp32 |\n|---|---:|---:|\n"
    text = head + "\n".join(rows) + "\n"
    if given.pictures:
        count, ours, theirs, differing = seen(given.pictures)
        text += (
            f"\nOf {count} images, EfficientNet-Lite0 classifies {ours} correctly with fp16 accumulation and {theirs} "
            f"in fp32 by onnxruntime; {differing} classes differ.\n"
        )
    print(text)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        where = f"--folder networks --pictures {given.pictures} --write docs/guide/precision.md"
        command = f"python -m benchmarks.cpu.fp16_sums {where}"
        said = f"Written by `{command}`; the largest error relative to the largest value, "
        said += "on one random input, under qemu.\n\n"
        given.write.write_text(f"{before}{BEGIN}\n{said}{text}\n{END}{after}", encoding="utf-8")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
