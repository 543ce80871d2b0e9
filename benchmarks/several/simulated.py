"""Networks over 2, 4 and 8 Raspberry Pi 5 on a switch: predicted from the device file, nothing is measured.

python -m benchmarks.several.simulated [--device raspberry_pi_5] [--link-speed 1G/0.2] [--write PAGE] [NAME ...]
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from benchmarks.several.networks import NETWORKS, STATES, written
from benchmarks.table import markdown
from edgec import pipeline
from edgec.build import read
from edgec.distribute.choose import Choice, Wanted, best_rows, choose, priced
from edgec.distribute.consecutive import chain_of
from edgec.distribute.links import links_of
from edgec.distribute.parts import Division
from edgec.distribute.places import places_of, speed_of
from edgec.distribute.prices import Prices
from edgec.distribute.rows import NO_TILES
from edgec.distribute.same_bits import SameBits
from edgec.ir.graph import Node
from edgec.options import resolve
from edgec.pipeline.context import Context

DEVICES = (2, 4, 8)
COLUMNS = [
    "network", "goal", "devices", "taken", "ms a frame", "frames/s", "x of one", "KiB a frame", "MiB of weights",
]  # fmt: skip
TILES = ["network", "ms of one", "by rows", "rows", "without tiles", "rows without"]
PAGE = """# Several devices, simulated

**Predicted, not measured**: {device} on a switch, {link} to each and to the coordinator, which has the frames. Times of
kernels are those that the device file predicts, on one thread. "x of one" is what the goal counts, beside one device
that has the frames itself; `edgec build --over ... --split auto` takes fewer devices where more are not predicted to be
faster. That one device, too, gets its frames over the link, so that it is below 1. Memory is that of the device with
the most weights. Two processes of one machine are [measured](several-devices.md), beside what is predicted for them.

{table}

## Rows and the tiles of Winograd's method

Rows have the bits of one device. Winograd's method transforms tiles of {rows} rows as a whole, so that a device begins
and ends with a tile of the whole network: before each such layer it computes up to {more} rows more than the window
needs, and before a chain of them most of the picture: then one device is taken. Milliseconds of a frame by rows on two
devices, with whole tiles and, were other bits allowed, without; "rows" are those of both devices for their rows,
beside those of one device for all of them.

{tiles}

```sh
{command}
```
"""


def weights(division: Division) -> int:
    """Bytes of constants of the worker that has most."""
    found: dict[int, int] = {}
    for part in division.parts:
        held = sum(n.type.bytes for n in part.graph.nodes() if n.op == "const")
        found[part.worker] = found.get(part.worker, 0) + held
    return max(found.values())


def choices(
    path: Path, device: str, link_speed: str, states: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, int, Choice]]:
    """The choice for every goal and number of devices."""
    options = resolve({"device": device, "states": states})
    graph = pipeline.run(read(path), Context(options), until="compress").result.graph
    for goal in ("throughput", "latency"):
        for count in DEVICES:
            places = places_of([f"{device}@ssh:pi{k}" for k in range(count)])
            prices = Prices((options,) * count, (1.0,) * count)
            plan = prices.planned(graph, 0)
            speeds = (speed_of(link_speed),) * count
            yield goal, count, choose(graph, plan, prices, links_of(places, speeds), Wanted("auto", goal))


class OtherBits(SameBits):
    """Divisions whose bits may be others than those of one device."""

    @property
    def tiles(self) -> Mapping[Node, int]:
        return NO_TILES

    def of(self, division: Division) -> Division:
        return division


def in_tiles(
    path: Path, device: str, link_speed: str, states: Mapping[str, str] = MappingProxyType({})
) -> tuple[set[int], list[str]] | None:
    """Rows of a tile, and the cells of a network by rows on two devices; None where Winograd's method has no part."""
    options = resolve({"device": device, "states": states})
    graph = pipeline.run(read(path), Context(options), until="compress").result.graph
    prices = Prices((options,) * 2, (1.0,) * 2)
    plan = prices.planned(graph, 0)
    links = links_of(places_of([f"{device}@ssh:pi{k}" for k in range(2)]), (speed_of(link_speed),) * 2)
    chain = chain_of(plan, prices.of_blocks(plan))
    same = SameBits(prices, graph)
    if not same.tiles or chain.held.loops:
        return None
    cells: list[str] = [f"{sum(chain.seconds[0]) * 1e3:.3g}"]
    for bits in (same, OtherBits(prices, graph)):
        found = best_rows(chain, plan, bits, links, Wanted("rows", "latency"), 2)
        if found is None:
            return None
        *rows, rest = (p.seconds * 1e3 for p in found.parts)
        frame = priced(found, links, None).predicted.latency_s * 1e3
        cells += [f"{frame:.3g}", f"{' + '.join(f'{s:.3g}' for s in rows)} of {sum(chain.seconds[0]) * 1e3 - rest:.3g}"]
    return {*same.tiles.values()}, cells


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; all when none is given")
    p.add_argument("--device", default="raspberry_pi_5")
    p.add_argument("--link-speed", default="1G/0.2", help="bits a second, and milliseconds")
    p.add_argument("--write", type=Path, metavar="FILE")
    given = p.parse_args()
    lines, tiles, sizes = [], [], set[int]()
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names or NETWORKS:
            for goal, count, choice in choices(
                written(name, Path(folder)), given.device, given.link_speed, STATES.get(name, {})
            ):
                found = choice.tried.predicted
                gain = choice.alone_s / choice.tried.seconds(goal)
                division = choice.division
                lines.append([
                    name, goal, str(count), f"{division.split} on {division.workers}", f"{found.latency_s * 1e3:.3g}",
                    f"{1 / found.period_s:.4g}", f"{gain:.2f}", f"{found.bytes_a_frame / 1024:.0f}",
                    f"{weights(division) / (1 << 20):.1f}",
                ])  # fmt: skip
                print(" | ".join(lines[-1]), flush=True)
            own = in_tiles(written(name, Path(folder)), given.device, given.link_speed, STATES.get(name, {}))
            if own is not None:
                sizes |= own[0]
                tiles.append([name, *own[1]])
                print(" | ".join(tiles[-1]), flush=True)
    command = f"python -m benchmarks.several.simulated {shlex.join(sys.argv[1:])}".strip()
    text = PAGE.format(
        device=given.device, link=given.link_speed, table=markdown(COLUMNS, lines, 4), command=command,
        rows=" or ".join(map(str, sorted(sizes))), more=max(sizes, default=1) - 1, tiles=markdown(TILES, tiles, 1),
    )  # fmt: skip
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
