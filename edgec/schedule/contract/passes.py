"""Long sums in passes: a part of the sum is added up for several tasks before the next part is begun.

A tile that runs through all of a long sum reads its factors from far away, and so does the next one. What a part of the
sum reads is small: it stays in a near cache while all tiles of the tasks pass over it, and their sums wait in scratch
memory (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). Panels that are packed at run
time are no longer than a part, then.
"""

from __future__ import annotations

#: The share of the second-level cache that sums which wait may take.
SHARE = 4


def tasks_of_pass(sum_bytes: int, tasks: int, of_panel: int, cache_bytes: int) -> int:
    """Tasks whose sums, ``sum_bytes`` a task, wait at the same time; 0 where sums are added up as a whole.

    Panels serve ``of_panel`` tasks in a row: with as many or a multiple of that none is packed twice.
    """
    room = min(tasks, cache_bytes // SHARE // max(sum_bytes, 1))
    if room > of_panel:
        room -= room % of_panel
    return room
