"""The zoo: networks that nobody tuned for, made and compared with onnxruntime, one after the other.

    python -m benchmarks.zoo [--only PATTERN] [--part K/N] [--limit COUNT] [--emulated] [--page docs/results/zoo.md]

Each network is made, built, checked and timed in processes of its own, with limits of time and memory; what was found
is a line of zoo.jsonl in the cache folder, and a run goes on after the last line. Networks are made in an environment
with torch, which the first run installs.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.networks.wheels import default_cache
from benchmarks.zoo import page, rows
from benchmarks.zoo.entries import SEED
from benchmarks.zoo.making import Maker, catalog


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_cache().with_name("zoo"))
    p.add_argument(
        "--python",
        help="a Python with torch, timm, torchvision and transformers, in place of an environment of its own",
    )
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names or families; may be repeated")
    p.add_argument("--seed", type=int, default=SEED, help="another draw of networks from what the packages offer")
    p.add_argument("--part", default="1/1", metavar="K/N", help="every N-th network, beginning with the K-th")
    p.add_argument("--limit", type=int, help="stop after this many networks")
    p.add_argument(
        "--seconds", type=float, default=1.0, help="timing of a pair on each number of threads; 0 checks only"
    )
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads that are timed")
    p.add_argument("--patience", type=float, default=600, help="seconds that one process may take")
    p.add_argument("--memory", type=float, default=12, help="GB that one process may take")
    p.add_argument("--emulated", action="store_true", help="on CUDA in emulation: right, kernels, predicted time")
    p.add_argument("--most-macs", type=float, default=60e6, help="multiply-adds up to which a network is emulated")
    p.add_argument("--again", action="store_true", help="measure networks that have a row already")
    p.add_argument("--keep", action="store_true", help="keep the files of networks")
    p.add_argument("--list", action="store_true", help="print the names alone")
    p.add_argument("--page", type=Path, help="write the page of all rows so far")
    p.add_argument("--note", default="", help="a sentence about the machine, for the page")
    options = p.parse_args(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    entries = catalog(options.cache, options.python, options.seed)
    k, _, n = options.part.partition("/")
    found = rows.read(options.cache, options.emulated)
    wanted = [
        e
        for e in entries[int(k) - 1 :: int(n)]
        if not options.only or any(fnmatch(text, o) for o in options.only for text in (e.name, e.family, e.source))
    ]
    if options.list:
        print("\n".join(e.name for e in wanted))
        return 0
    todo = [e for e in wanted if options.again or e.name not in found][: options.limit]
    with Maker(options.cache, options.python, options.patience) as maker:
        for number, entry in enumerate(todo):
            row = rows.measured(entry, maker, options)
            rows.append(options.cache, row, options.emulated)
            print(f"{number + 1}/{len(todo)} {rows.sentence(row)}", flush=True)
    if options.page:
        on_cuda = rows.read(options.cache, emulated=True).values()
        names = {e.name for e in entries}
        known = [row for row in rows.read(options.cache).values() if row["name"] in names]
        seed = "" if options.seed == SEED else f" --seed {options.seed}"
        command = f"python -m benchmarks.zoo{seed} --page {options.page.as_posix()}"
        text = page.text(known, len(entries), options.note, on_cuda, command)
        options.page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
