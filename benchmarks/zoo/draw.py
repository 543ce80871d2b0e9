"""The catalog of networks that torch makes: drawn from what timm, torchvision and transformers offer.

    python -m benchmarks.zoo.draw CATALOG.jsonl [--seed N]

Runs where torch is. The same versions of the packages give the same catalog.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch

from benchmarks.zoo import hugging, vision
from benchmarks.zoo.entries import SEED, Entry, save

#: Networks of a family of timm, and parameters and pixels along a side that one may have.
EACH, PARAMETERS, SIDE = 2, 16e6, 260
#: The first of a family may be larger.
FIRST_PARAMETERS = 32e6
LEGACY, DYNAMO = (11, 12, 13, 14, 15, 16, 17, 18), (18, 19, 20, 21)
#: Things that are done to some files: those of onnxruntime's optimizer and quantizer, and fp16.
VARIANTS = ("fp16", "ort-basic", "ort-extended", "int8-dynamic", "int8-qdq", "int8-qoperator")


def exporters(name: str, seed: int) -> tuple[str, int]:
    """The exporter and the operator set of a network, by a draw of its own."""
    chance = random.Random(f"{seed} {name}")
    return chance.choice([("legacy", chance.choice(LEGACY)), ("dynamo", chance.choice(DYNAMO))])


def from_timm(seed: int) -> list[Entry]:
    timm = vision.timm()
    found = []
    for family in sorted(timm.list_modules()):
        offered = sorted(timm.list_models(module=family))
        names = random.Random(f"{seed} {family}").sample(offered, len(offered))
        taken = 0
        for name in names[:12]:
            if taken == EACH:
                break
            try:
                with torch.device("meta"):
                    network = timm.create_model(name)
                parameters = sum(p.numel() for p in network.parameters())
                side = max(vision.timm_input(network)[1:])
            except Exception:  # some cannot be made without memory behind them
                continue
            if parameters <= (PARAMETERS if taken else FIRST_PARAMETERS) and side <= SIDE:
                found.append(Entry("timm", name, family, *exporters(name, seed)))
                taken += 1
    return found


def from_torchvision(seed: int) -> list[Entry]:
    found = []
    for name in vision.torchvision_names():
        found.append(Entry("torchvision", name, vision.torchvision_family(name), *exporters(name, seed)))
    return found


def from_transformers(seed: int) -> list[Entry]:
    return [Entry("transformers", name, family, *exporters(name, seed)) for name, family in hugging.names(seed)]


def variants(entries: list[Entry], count: int, seed: int) -> list[Entry]:
    """Some entries again, each with something done to its file."""
    chance = random.Random(f"{seed} variants")
    drawn = chance.sample(entries, min(count, len(entries)))
    return [Entry(e.source, e.model, f"{v}", e.exporter, e.opset, v) for e, v in zip(drawn, VARIANTS * count)]


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("catalog", type=Path)
    p.add_argument("--seed", type=int, default=SEED)
    options = p.parse_args()
    plain = [e for draw in (from_timm, from_torchvision, from_transformers) for e in draw(options.seed)]
    save([*plain, *variants(plain, 48, options.seed)], options.catalog)


if __name__ == "__main__":
    main()
