"""Every kernel of every network by itself, compared with the operators it was fused from (`edgec check --blocks`).

    python -m benchmarks.fusion.blocks --folder DIR [--published | --small] [--only PATTERN ...]

Networks are those of ``--folder``, and with ``--published`` the topologies that DNNFusion and SmartMem counted; with
``--small`` these have fewer channels and smaller pictures, and the same graph. The exit code is 1 where a kernel or an
output is off by more than the bound of `edgec check`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.networks import catalog as networks
from benchmarks.published.figures import NETWORKS
from edgec.errors import EdgecError


def models(o: argparse.Namespace) -> Iterator[tuple[str, Any, dict[str, tuple[int, ...]]]]:
    """Name, model and shapes of every network that was asked for."""
    for network in networks.find(o.folder, o.only, download=False)[0] if o.folder else ():
        shapes = dict(network.shapes)
        if network.inputs is not None:
            with np.load(network.inputs, allow_pickle=False) as data:
                shapes |= {name: data[name].shape for name in data.files}
        yield network.name, network.path, shapes
    for name, published in NETWORKS.items() if o.published or o.small else ():
        if not o.only or any(fnmatch(name.lower(), pattern.lower()) for pattern in o.only):
            net = published.make(**(published.small if o.small else {}))
            yield name, net.finished("".join(c if c.isalnum() else "_" for c in name)).SerializeToString(), {}


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: DIR/NAME.onnx, NAME.in.npz")
    p.add_argument("--published", action="store_true", help="the published topologies, at the papers' sizes")
    p.add_argument("--small", action="store_true", help="the published topologies, small")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names; may be repeated")
    print("| network | kernels | worst kernel | whole network | seconds |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    ok = True
    for name, model, shapes in models(p.parse_args()):
        begun = time.perf_counter()
        try:
            checked = edgec.check(model, samples=1, blocks=True, shapes=shapes)
        except EdgecError as error:
            print(f"| {name} | | | {error} | |", flush=True)
            ok = False
            continue
        ok = ok and checked.ok
        worst = max((b.max_rel for b in checked.blocks), default=0.0)
        whole = max((d.max_rel for d in checked.outputs), default=0.0)
        mark = "" if checked.ok else " **off**"
        seconds = time.perf_counter() - begun
        print(f"| {name} | {len(checked.blocks)} | {worst:.1e} | {whole:.1e}{mark} | {seconds:.0f} |", flush=True)
    return int(not ok)


if __name__ == "__main__":
    sys.exit(main())
