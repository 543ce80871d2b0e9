"""Tiles of a contraction for cores that run instructions in order: the order of the instructions is decided here.

A turn is the steps of the innermost loop that one load of S serves. What the next turn needs is loaded between the
multiply-adds of this one, in parts of 64 bits. One of the two parts goes through the integer registers: both start in
the same cycle as a multiply-add, or as one another, where a load of 128 bits keeps the core for itself. A column of L
is loaded three columns ahead, the S of a row (or a block) when the row has used what it had. A part is put in its
place in the same cycle as the next load. The compiler is asked to leave this order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from edgec.emit.views.tile import Tile

#: Columns of L that are held: the one at hand, and three that are loaded or joined.
HELD = 4


@dataclass(frozen=True)
class Column:
    """One column of L in one of the steps that are written out.

    ``number`` counts the columns of all steps, ``vector`` those of one. ``lane`` is the position, in what a row of S
    holds, of the number or group that the column is multiplied by.
    """

    number: int
    lane: int
    vector: int


class InOrderTile(Tile):
    """One unrolled tile whose sum is taken in turns, each a list of lines in the order they are to run."""

    @property
    def turns(self) -> list[str]:
        """The lines of the innermost loop of a sum."""
        return self._turns("", str(self.view.turns_end), "")

    @property
    def turns_of_part(self) -> list[str]:
        """The lines of the innermost loop of one part of a sum in fp16."""
        view, fp16 = self.view, self.view.fp16
        assert fp16 is not None
        extent, turn = view.part_loops[0].extent, view.turn
        if len(view.part_loops) > 1 or not view.has_part_loop:
            return self.turns
        return self._turns(" + part", f"(end - part) / {turn} * {turn}", f"end == {extent}")

    def _turns(self, start: str, steps: str, ends: str) -> list[str]:
        """Whole turns from ``start`` on, ``steps`` steps, then the steps left over where ``ends`` holds."""
        view = self.view
        lines = [
            *self._first_columns(),
            *(line for r in range(self.rows) for line in self._first_of_row(r, start)),
            f"const {view.element} *ahead = {self._ready(0, True)}{start};",
            f"for (ec_int left = {steps}; left;) {{ /* what comes next is loaded; the last turn loads its own again */",
            "  ec_int more;",
            *(f"  {line}" for line in self._turn()),
            "}",
            f"panel += {view.turn * view.step_width};",
        ]
        if not view.steps_left:
            return lines
        rest = self._steps_left()
        return [*lines, f"if ({ends}) {{", *rest, "}"] if ends else [*lines, *rest]

    def _first_columns(self) -> list[str]:
        """The first two columns of L, and the parts of the third."""
        vector, suffix = self.view.vector, self.view.order.suffix
        low, joined, at = f"ec_low{suffix}", f"ec_join{suffix}", [self._place_of(c) for c in range(HELD - 1)]
        return [
            *(f"{vector} l{c} = {joined}({low}(panel + {at[c]}), ec_high(panel + {at[c]}));" for c in range(2)),
            f"{vector} l2 = {low}(panel + {at[2]}), l3;",
            f"uint64_t high0, high1, high2 = ec_high(panel + {at[2]}), high3;",
        ]

    def _first_of_row(self, r: int, start: str) -> list[str]:
        """The S of a row for the first turn."""
        view, place = self.view, f"{self._ready(r, True)}{start}"
        lines = [f"ec_products p{r};"] if self._passes > 1 else []
        lines.append(f"{view.vector} s{r} = ec_low{view.order.suffix}({place});")
        if view.loads_half_vectors:
            return [*lines, f"s{r} = {self._turned(f's{r}')};"] if view.dots is not None and view.dots.flip else lines
        lines.append(f"uint64_t rest{r} = ec_high({place});")
        return [*lines, self._join_row(r)] if r < self.rows - self._late else lines

    def _turn(self) -> list[str]:
        """One turn: its multiply-adds, and between them what the next turn needs."""
        columns, between = self._columns(self.view.turn), self._between()
        lines = []
        for column in columns:
            for number in range(self._passes):
                for r in range(self.rows):
                    lines += [f"{self._updates(r, column)[number]};", *between[column.number, number, r]]
        if not self.view.loads_half_vectors:
            lines += [self._join_row(r) for r in range(max(self.rows - 2, 0), self.rows - self._late)]
        return lines

    def _between(self) -> defaultdict[tuple[int, int, int], list[str]]:
        """Lines behind the multiply-add of a (column, pass, row); low tiles have them behind their last row."""
        view, count, last_pass = self.view, len(self._columns(self.view.turn)), self._passes - 1
        found: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)

        def put(column: int, number: int, row: int, *lines: str) -> None:
            found[column, number, min(row, self.rows - 1)] += lines

        for c in range(count):
            after = c + HELD - 1
            put(c, 0, 0, f"high{after % HELD} = ec_high(panel + {self._place_of(after % count)});")
        for r in range(self._late):
            put(0, 0, r, self._join_row(self.rows - self._late + r))
        for c in range(count):
            after, ready = c + HELD - 1, (c + HELD - 2) % HELD
            put(
                c, 0, 1,
                f"l{after % HELD} = ec_low{view.order.suffix}(panel + {self._place_of(after % count)});",
                f"l{ready} = ec_join{view.order.suffix}(l{ready}, high{ready});",
            )  # fmt: skip
        for c in range(count - HELD + 1):
            if view.streams and self._place_of(c) % view.line == 0:
                put(c, 0, 2, f"ec_prefetch(panel + EC_AHEAD{f' + {self._place_of(c)}' if c else ''});")
        counting = min(1, last_pass)
        put(0, counting, 4 - 3 * counting, f"left -= {view.turn};", "EC_OPAQUE(left);")
        put(0, counting, 5 - 3 * counting, f"more = ec_min_int(left, {view.turn});", "EC_OPAQUE(more);")
        put(1, last_pass, 6, f"ahead += more * {self._stride};", "EC_OPAQUE(ahead);")
        put(count - HELD, last_pass, self.rows - 1, f"panel += more * {view.step_width};")
        for r in range(self.rows):
            self._put_next_of_row(r, found, count)
        return found

    def _put_next_of_row(self, r: int, found: defaultdict[tuple[int, int, int], list[str]], count: int) -> None:
        """The S of a row for the next turn, where the row has done its last multiply-adds of this one."""
        view, low = self.view, f"ec_low{self.view.order.suffix}(ahead + {self._away(r)})"
        end = (count - 1, self._passes - 1, r)
        if view.loads_half_vectors:
            found[end].append(f"s{r} = {self._turned(low)};")
            return
        column, number = divmod(count * self._passes - 2, self._passes)
        found[column, number, r].append(f"rest{r} = ec_high(ahead + {self._away(r)});")
        found[end].append(f"s{r} = {low};")
        if 2 <= r < self.rows - self._late + 2:
            found[end].append(self._join_row(r - 2))

    def _steps_left(self) -> list[str]:
        """The steps that are no whole turn."""
        view = self.view
        lines = [f"const ec_int {view.turns_loop.name} = {view.turns_end};"]
        for r in range(self.rows):
            first = f"ec_first{view.order.suffix}({self._ready(r, False)}, {view.steps_left})"
            lines.append(f"s{r} = {self._turned(first)};")
        for column in self._columns(view.steps_left):
            lines.append(f"l{column.number % HELD} = {self._lanes_at(column.number)};")
            lines += [f"{self._updates(r, column)[0]};" for r in range(self.rows)]
        return [*lines, f"panel += {view.steps_left * view.step_width};"]

    def _columns(self, steps: int) -> list[Column]:
        """The columns of so many steps, in the order they are multiplied."""
        return [Column(c, *divmod(c, self._each)) for c in range(steps * self._each)]

    @property
    def _each(self) -> int:
        """Columns of a step: vectors, or the columns of a vector one by one."""
        return self.view.lanes if self.view.order.by_column else -(-self.vectors // self.view.micro.columns)

    def _place_of(self, column: int) -> int:
        """Position in the panel of a column of L, from the first of the step at hand on."""
        step, vector = divmod(column, self._each)
        lanes = self.view.lanes * self.view.micro.columns
        return step * self.view.step_width + vector * lanes

    @property
    def _passes(self) -> int:
        """Passes over the rows that multiply by a column of L."""
        return len(self.view.order.updates)

    def _lanes_at(self, column: int) -> str:
        kind = "_h" if self.view.fp16 is not None else "_i32" if self.view.dots is not None else ""
        return f"ec_load{kind}(panel + {self._place_of(column)})"

    def _updates(self, r: int, column: Column) -> list[str]:
        """The multiply-adds of a row with a column of L, one for each pass over the rows."""
        order = self.view.order
        total = f"{'h' if self.view.fp16 is not None else 'c'}{r}_{column.vector}"
        if order.by_column:
            total = f"c{r}_0.{'abcd'[column.vector]}"
        of = {"c": total, "s": f"s{r}", "l": f"l{column.number % HELD}", "lane": column.lane, "p": f"p{r}"}
        return [update.format(**of) for update in order.updates]

    def _ready(self, r: int, is_first: bool) -> str:
        """Pointer to the S of one row for the first turn, or for the step at which the loop is."""
        k = self.view.params.k
        return f"s + {self._place(r, k[: len(self.view.turns_outer)] + (() if is_first else k[-1:]))}"

    @property
    def _stride(self) -> int:
        """Distance of steps of the innermost loop in S."""
        assert self._pointer is not None
        return self._pointer[1][self.view.params.k[-1]]

    def _away(self, r: int) -> int:
        """Distance of the S of a row from that of the first."""
        assert self._pointer is not None
        return sum(far * self._pointer[1][v] for v, far in self._at(r).items())

    @property
    def _late(self) -> int:
        """Number of the last rows that are joined in the next turn: too little follows their loads in this one."""
        return 2 if self.rows > 3 and not self.view.loads_half_vectors else 0

    def _join_row(self, r: int) -> str:
        """The line that joins both parts of the S of a row."""
        return f"s{r} = {self._turned(f'ec_join{self.view.order.suffix}(s{r}, rest{r})')};"

    def _turned(self, text: str) -> str:
        """S with the sign bits that the dot products of the machine want."""
        return f"ec_turned({text})" if self.view.dots is not None and self.view.dots.flip else text
