"""The weights of a project: linked, as a C array, or in a file that is mapped when the program runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.files import Pieces
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Program
from edgec.schedule.streaming import PAGE, Streaming, memory_beside, streaming

#: How weights come with a project: linked by the assembler, as a C array, mapped from a file, or read while it runs.
PLACES = ("incbin", "array", "file", "stream")
#: The beginning of a file of weights, and the number of its layout (`ec_weights.h`).
MAGIC, LAYOUT, HEAD_BYTES = b"ecweight", 2, 4096
#: Places in that head: the SHA-256 of the weights, and the digest of the code that reads them.
HASH, ABI = 24, 56
#: The head of an encrypted file (`edgec.emit.encrypted`), before that one.
SEAL_BYTES = 64
#: Larger arrays take compilers minutes and gigabytes.
MOST_ARRAY_BYTES = 64 << 20
_WORDS_A_LINE = 6
#: Extras that read the file of linked weights themselves.
_READ_BIN = ("web", "python")


def weights_blob(program: Program) -> bytes:
    """The weights as they are in memory."""
    return b"".join(weights_pieces(program))


def weights_pieces(program: Program) -> Pieces:
    """The weights as they are in memory, in parts that are those of the program."""
    beside = (
        program.single,
        program.bounds,
        program.training.step if program.training is not None else None,
        *(level.program for level in program.levels),
    )
    shared = {b: place for other in beside if other is not None for b, place in other.offsets.items()}
    placed = {
        offset: np.ascontiguousarray(buffer.data).reshape(-1).view(np.uint8)
        for buffer, offset in {**program.offsets, **shared}.items()
        if buffer.space == "weights" and buffer.data is not None
    }
    pieces: list[bytes | memoryview] = []
    end = 0
    for offset, raw in sorted(placed.items(), key=lambda pair: pair[0]):
        pieces += [bytes(offset - end), raw.data]
        end = offset + raw.size
    pieces.append(bytes(max(program.weights_bytes, ALIGNMENT) - end))
    others = program.ranks.others if program.ranks is not None else ()
    return [*pieces, *(piece for rank in others for piece in weights_pieces(rank))]


@dataclass(frozen=True)
class Weights:
    """The weights of a network called ``name``, or another ``kind`` of table, in one of the `PLACES`."""

    place: str
    name: str
    pieces: Pieces
    kind: str = "weights"
    stream: Streaming | None = None
    abi: bytes = bytes(32)  # the digest of the code (`edgec.emit.weights_abi`), which a file of weights repeats
    hosted: bool = True  # else the file is an image at a fixed address
    fingerprint_at: int | None = None  # the place of their own hash among them

    @property
    def linked(self) -> str:
        """The place of tables that are linked whatever becomes of the weights."""
        return "array" if self.place == "array" else "incbin"

    @property
    def ctype(self) -> str:
        """The type of the elements of the symbol."""
        return "uint64_t" if self.place == "array" else "unsigned char"

    @property
    def head_bytes(self) -> int:
        return HEAD_BYTES

    @property
    def abi_at(self) -> int:
        return ABI

    @property
    def is_opened(self) -> bool:
        """Are the weights in a file of their own, which the program opens before it runs the network?"""
        return self.place in ("file", "stream")

    @property
    def image(self) -> str | None:
        """The source that places the file in the flash memory of a board; None where there is a file system."""
        return f"{self.name}_weights_image.S" if self.is_opened and not self.hosted else None

    @property
    def image_bytes(self) -> int:
        """The room that the file takes in flash memory, in whole pages, also where it is encrypted."""
        return -(-(HEAD_BYTES + self.size + SEAL_BYTES) // PAGE) * PAGE

    @property
    def memory_bytes(self) -> int:
        """Memory that opening takes from the caller."""
        return self.stream.memory_bytes if self.stream is not None else 0

    @property
    def memory_alignment(self) -> int:
        return PAGE

    @property
    def pointer(self) -> str:
        """The weights in C: a symbol, or the variable of a program that has opened them."""
        return "weights" if self.is_opened else f"{self.name}_{self.kind}"

    @property
    def source(self) -> str:
        """The source that holds or opens them."""
        return f"{self.name}_{self.kind}.{'S' if self.place == 'incbin' else 'c'}"

    @property
    def template(self) -> str:
        """The template of that source."""
        return f"project/weights/{self.place}.{'S' if self.place == 'incbin' else 'c'}.jinja"

    @property
    def runtime(self) -> Sequence[str]:
        """The files of the runtime that it needs."""
        return {"file": ("ec_weights.h",), "stream": ("ec_weights.h", "ec_reader.h", "ec_reader.c")}.get(self.place, ())

    @property
    def runtime_sources(self) -> Sequence[str]:
        """Those of them that are compiled."""
        return [file for file in self.runtime if file.endswith(".c")]

    @property
    def file(self) -> str | None:
        """The file that holds them; None where they are in the source."""
        linked = f"{self.name}_{self.kind}.bin" if self.place == "incbin" else None
        return f"{self.name}.weights" if self.is_opened else linked

    @property
    def files(self) -> Mapping[str, bytes]:
        """That file."""
        return {self.file: self._content} if self.file is not None else {}

    @cached_property
    def _content(self) -> bytes:
        """The weights, behind a head where a program opens the file."""
        head = [self.mark, bytes(HEAD_BYTES - len(self.mark))] if self.is_opened else []
        return b"".join([*head, *self.pieces])

    @property
    def blob(self) -> memoryview:
        """The weights as they are in memory."""
        return memoryview(self._content)[HEAD_BYTES if self.is_opened else 0 :]

    @cached_property
    def sha256(self) -> bytes:
        found = sha256()
        for piece in self.pieces:
            found.update(piece)
        return found.digest()

    @cached_property
    def mark(self) -> bytes:
        """The beginning of the file: its layout and length, the hash of the weights, and the digest of the code."""
        return self.begin + self.sha256 + self.abi

    @property
    def begin(self) -> bytes:
        """Bytes before the hash: the same in all files for one program."""
        sizes = LAYOUT.to_bytes(4, "little") + HEAD_BYTES.to_bytes(4, "little")
        return MAGIC + sizes + self.size.to_bytes(8, "little")

    @property
    def expected(self) -> bytes:
        """The beginning as the program has it, which accepts any content: zeros for the hash."""
        return self.begin + bytes(ABI - HASH) + self.abi

    @property
    def with_fingerprint(self) -> Weights:
        """With the hash of the weights behind them, where a program reads it that has other weights one day."""
        at = -(-self.size // ALIGNMENT) * ALIGNMENT
        behind = bytes(at - self.size) + self.sha256 + bytes(ALIGNMENT - len(self.sha256))
        return replace(self, pieces=(*self.pieces, behind), fingerprint_at=at)

    @property
    def size(self) -> int:
        """Size of the weights in memory."""
        return sum(len(piece) for piece in self.pieces)

    @property
    def interface(self) -> Mapping[str, str]:
        """The digest of the code for the lock, where a file of weights has one."""
        return {"abi": self.abi.hex()} if self.is_opened else {}

    @property
    def words(self) -> Iterator[str]:
        """Lines of the array."""
        padded = b"".join([*self.pieces, bytes(-self.size % 8)])
        words = [f"0x{word:x}u" for word in np.frombuffer(padded, "<u8").tolist()]
        for at in range(0, len(words), _WORDS_A_LINE):
            yield ", ".join(words[at : at + _WORDS_A_LINE])


def weights_of(
    program: Program, device: Device, name: str, place: str, beside: Sequence[str] = (), ram: int | None = None
) -> Weights:
    """The weights of a program; raises UsageError for a place that does not fit the device, the extras or ``ram``."""
    found = Weights(place, name, weights_pieces(program))
    if place == "incbin":
        return found
    linked, where = "leave out --weights, which links them", f"--weights {place}"
    if device.language != "c":
        message = f"weights of '{device.name}' are copied to its own memory when it is opened"
        raise UsageError(message, hint=linked, where=where)
    if place == "array" and found.size > MOST_ARRAY_BYTES:
        told = f"{found.size >> 20} MB of weights as a C array take compilers minutes"
        raise UsageError(told, hint="give --weights file, or leave it out", where=where)
    if place != "array" and not device.hosted and not (place == "file" and device.has_board):
        hint = "give --weights array, or leave it out"
        raise UsageError(f"'{device.name}' has no operating system, and so no files", hint=hint, where=where)
    refused = [e for e in beside if (place != "array" or e in _READ_BIN) and not (place == "file" and e == "embedded")]
    if refused:
        raise UsageError(f"'{refused[0]}' is written for weights that are linked", hint=linked, where=where)
    if place != "stream":
        return replace(found, hosted=device.hosted)
    if ram is None:
        hint = "give --ram 300M, of all that it may take, or --weights file"
        raise UsageError("how much memory weights may take is not said", hint=hint, where=where)
    stream = streaming(program, ram - memory_beside(program))
    return Weights(place, name, (stream.content,), stream=stream)


def is_whole(content: bytes, size: object) -> bool:
    """True for a file of so many bytes of weights as a build writes it, whose length and hash are those in its head."""
    held = content[HEAD_BYTES:]
    return (
        content[: len(MAGIC)] == MAGIC
        and len(held) == size == int.from_bytes(content[16:24], "little")
        and content[HASH:ABI] == sha256(held).digest()
    )
