"""A network at work for minutes on this machine: latency, clock, heat and power by the minute.

python -m benchmarks.fitting.sustained MODEL --minutes 5 --write docs/results/sustained.md
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

from benchmarks.zoo.page import processor
from edgec.bench.sustained import Sustained, bench_for_minutes
from edgec.device.probe import usable_cores

_INTRODUCTION = """\
# Minutes at work

Made by `python -m benchmarks.fitting.sustained` on {date}, on {machine}, {threads} threads at most, fp32: `edgec device
bench --minutes {minutes:g} --sweep` of {model} ([guide](../guide/devices.md#minutes-at-work)). Threads and cores were
chosen by trial before. Latency is that of single runs, by the clock of the runner; sensors are read every five seconds.
"""


def page(found: Sustained, model: str, minutes: float, threads: int) -> str:
    text = _INTRODUCTION.format(
        date=date.today(), machine=processor(), threads=threads, minutes=minutes, model=model
    )  # fmt: skip
    lines = [text, "| threads | cores | median, ms |", "|---|---|---|"]
    for p in sorted(found.placements, key=lambda p: p.median_ms):
        lines.append(f"| {p.threads} | {' '.join(map(str, p.cores)) or 'any'} | {p.median_ms:.4g} |")
    lines += ["", "| minute | runs | median, ms | 99 %, ms | clock, MHz | °C | W | J an inference |", "|---" * 8 + "|"]
    for k, m in enumerate(found.minutes, 1):
        sensors = ("" if v is None else f"{v:.4g}" for v in (m.mhz, m.celsius, m.watts, m.joules))
        lines.append(f"| {k} | {m.runs:,} | {m.median_ms:.4g} | {m.p99_ms:.4g} | {' | '.join(sensors)} |")
    lines += ["", f"The last minute takes {found.slowdown:.3f} of the time of the first."]
    if found.hidden:
        lines.append(f"This system does not tell {', '.join(found.hidden)}.")
    return "\n".join([*lines, ""])


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("model", type=Path)
    p.add_argument("--minutes", type=float, default=5.0)
    p.add_argument("--write", type=Path, metavar="PAGE")
    o = p.parse_args(arguments)
    threads = usable_cores()
    found = bench_for_minutes(str(o.model), o.minutes, sweep=True, link="local", device="host", threads=threads)
    text = page(found, o.model.stem, o.minutes, threads)
    print(text)
    if o.write is not None:
        o.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
