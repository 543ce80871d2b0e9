"""View of the kernels that take attention backwards: a tile, and how its operands lie in memory."""

from __future__ import annotations

from edgec.emit.c_literal import STORAGE
from edgec.emit.gpu.procedure import GpuProcedureView
from edgec.ir.vector import HALF
from edgec.schedule.gpu.attention_gradients import AttentionGradients, BackwardTile, Band


class AttentionGradientsView(GpuProcedureView):
    """As a procedure, but thread blocks are as many as tiles of rows need."""

    @property
    def params(self) -> AttentionGradients:
        schedule = self.kernel.schedule
        assert isinstance(schedule, AttentionGradients)
        return schedule

    @property
    def tile(self) -> BackwardTile:
        tile = self.params.tile
        assert tile is not None
        return tile

    @property
    def band(self) -> Band | None:
        return self.params.band

    @property
    def scale(self) -> float:
        """The factor of scores."""
        return self._factor("scale")

    @property
    def of_query(self) -> float:
        """The factor of gradients of queries."""
        return self.scale * self._factor("of_query")

    @property
    def of_key(self) -> float:
        """The factor of gradients of keys."""
        return self.scale * self._factor("of_key")

    def _factor(self, name: str) -> float:
        return float(self.params.node.attributes.get(name, 1.0))

    @property
    def threads(self) -> int:
        return self.tile.threads

    @property
    def heads(self) -> int:
        return int(self.params.procedure.tasks)

    @property
    def query_blocks(self) -> int:
        """Tiles of queries of a head."""
        return -(-int(self.at.m) // self.tile.rows)

    @property
    def key_blocks(self) -> int:
        """Tiles of keys of a head."""
        return -(-int(self.at.n) // self.tile.rows)

    @property
    def groups(self) -> int:
        if self.operator == "attention_statistics":
            return self.heads * self.query_blocks
        return self.heads * (self.query_blocks + self.key_blocks) * self.tile.slices

    @property
    def shared_bytes(self) -> int:
        return self.tile.shared_bytes

    @property
    def element(self) -> str:
        return STORAGE.get(self.tile.element, "float")

    def stored(self, number: int) -> str:
        """The type of an operand in memory."""
        return self.params.arguments[number][0].dtype

    def is_copied(self, number: int, columns: int) -> bool:
        """Can 16 bytes of rows of an operand be copied as they are?"""
        return self.stored(number) == self._held and columns % self.tile.chunk == 0

    @property
    def _held(self) -> str:
        """The type of an element in shared memory."""
        return self.tile.element if self.tile.element in HALF else "f32"

    @property
    def half(self) -> str:
        """The type of 16 bits that gradients are stored in; empty where they have 32."""
        return self.params.store.dtype if self.params.store.dtype in HALF else ""
