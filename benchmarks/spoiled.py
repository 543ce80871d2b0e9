"""The rule for measurements that something else on the machine spoiled: one for all engines of a page.

A network's measurement is spoiled when an engine whose calls take long enough gains nothing from a second thread, or
when its own times vary too much. All engines are then measured again on all numbers of threads; what stays spoiled is
named on the page and counts in no mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The part of its time on one thread that an engine takes at most on two.
SCALES = 0.9
#: Milliseconds on one thread below which a second thread need not pay.
WORTH_MS = 1.0
#: Distance of the 10th from the 90th percentile of an engine's times, over their median.
SPREAD = 0.15
#: Times that a spoiled network is measured again.
AGAIN = 2


@dataclass(frozen=True)
class Times:
    """Milliseconds of an engine on a number of threads: median, 10th and 90th percentile."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median if self.median else 0.0


def reasons(by_threads: Mapping[int, Mapping[str, Times]], peers: set[str]) -> list[str]:
    """Reasons why the measurement of a network is spoiled, in words; none where it is not.

    ``by_threads`` has the engines' times by number of threads. Only ``peers`` are asked to scale: that we do not is a
    result.
    """
    found = []
    for threads, engines in sorted(by_threads.items()):
        for name, times in engines.items():
            if times.spread > SPREAD:
                found.append(f"{name} on {_told(threads)}: times vary by {times.spread:.0%}")
            alone = by_threads.get(1, {}).get(name)
            if threads == 1 or alone is None or name not in peers or alone.median < WORTH_MS:
                continue
            if times.median > SCALES * alone.median:
                found.append(f"{name} on {_told(threads)}: {times.median / alone.median:.2f} of its time on one")
    return found


def _told(threads: int) -> str:
    return f"{threads} thread{'s' * (threads > 1)}"


#: What a page says of the rule.
RULE = (
    f"A measurement is spoiled when a peer that takes {WORTH_MS:g} ms or more on one thread takes more than "
    f"{SCALES:.0%} of that on two, or when the 10th and the 90th percentile of any engine are more than {SPREAD:.0%} "
    f"of its median apart. All engines are then measured again, up to {AGAIN} times; what is still spoiled is listed "
    "here and counts in no mean."
)
