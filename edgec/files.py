"""Files of the user: replaced whole or not at all, and every failure of the system said in words."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.errors import UsageError
from edgec.text import printable

if TYPE_CHECKING:
    import numpy as np


def replace(path: str | Path, content: str | bytes | memoryview) -> None:
    """Write a file beside ``path``, then rename it: at every moment ``path`` is the old file or the new one.

    A symbolic link stays one, and what it leads to is replaced; permissions stay. Raises UsageError for a text that
    cannot be stored, and for what the system refuses; ``path`` is as before then.
    """
    import tempfile

    target = Path(os.path.realpath(path))
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError:
        raise UsageError("half a character (a lone surrogate) cannot be stored", where=printable(str(path))) from None
    with writing(path):
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}-", suffix=".tmp", dir=target.parent)
        fresh = Path(name)
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fresh.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~umask())
            fresh.replace(target)
        except BaseException:
            with suppress(OSError):
                fresh.unlink()
            raise


#: Bytes in a row, in parts, so that large weights are in memory no more often than they have to be.
Pieces = Sequence[bytes | memoryview]


class InPieces(Mapping[str, bytes]):
    """Contents of files by path, some of them in ``parts``, which are joined only where somebody asks for the whole.

    ``whole`` has every path, with any content for those that are in parts.
    """

    def __init__(self, whole: Mapping[str, bytes], parts: Mapping[str, Pieces]) -> None:
        self.whole, self.parts = dict(whole), dict(parts)

    def __getitem__(self, path: str) -> bytes:
        if path in self.parts:
            self.whole[path] = b"".join(self.parts.pop(path))
        return self.whole[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)


def pieces_of(files: Mapping[str, bytes], path: str) -> Pieces:
    """The content of a file in parts, which are one where it is whole."""
    return files.parts.get(path) or (files.whole[path],) if isinstance(files, InPieces) else (files[path],)


def size_of(files: Mapping[str, bytes], path: str) -> int:
    """Bytes of a file."""
    return sum(map(len, pieces_of(files, path)))


def with_others(files: Mapping[str, bytes], others: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Files with others, of other paths."""
    return InPieces({**files.whole, **others}, files.parts) if isinstance(files, InPieces) else {**files, **others}


def npz(arrays: Mapping[str, np.ndarray], compression: int = 0) -> bytes:
    """Content of an .npz file for any names: as keywords of numpy.savez some of them would have another meaning.

    ``compression`` is one of `zipfile`; 0 stores arrays as they are.
    """
    import zipfile

    from numpy.lib.format import write_array

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = compression
            with archive.open(entry, "w", force_zip64=True) as file:
                write_array(file, array, allow_pickle=False)
    return content.getvalue()


def zipped(content: Mapping[str, bytes]) -> bytes:
    """A zip archive of files by path: equal content gives equal bytes."""
    import zipfile

    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return written.getvalue()


def near(path: Path) -> str | None:
    """A hint that names the file which ``path`` was to be, where one of a similar name is beside it."""
    import difflib

    with suppress(OSError):
        found = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.75)
        if found:
            return f"did you mean '{printable(str(path.with_name(found[0])))}'?"
    return None


def folder(path: str | Path, what: str) -> Path:
    """A folder that is there; raises UsageError where it is not, which says of ``what`` it is one."""
    if not os.path.isdir(path):
        hint = near(Path(path)) or f"name the folder that holds your {what}"
        raise UsageError(f"no such folder of {what}", hint=hint, where=printable(str(path)))
    return Path(path)


@contextmanager
def writing(where: str | Path) -> Iterator[None]:
    """Turn refusals of the system, while something is written, into a UsageError about ``where``."""
    try:
        yield
    except OSError as error:
        shown = printable(str(where))
        raise UsageError(f"cannot write: {error.strerror or error}", hint=advice(error), where=shown) from None


@contextmanager
def system() -> Iterator[None]:
    """Turn refusals of the system in the middle of some work (a full disk, no memory) into a UsageError."""
    try:
        yield
    except MemoryError as error:  # numpy's says of which shape
        hint = "the model, or its inputs, are larger than this machine has memory for"
        raise UsageError(f"out of memory: {error}".rstrip(": "), hint=hint) from None
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        where = printable(str(error.filename)) if error.filename is not None else None
        raise UsageError(f"the system refused: {error.strerror}", hint=advice(error), where=where) from None


def advice(error: OSError) -> str | None:
    """A hint for a refusal of the system, where that is known."""
    return _ADVICE.get(error.errno or 0)


def user_folder(variable: str, usual: str) -> Path:
    """edgec's folder below one of the XDG base directories, which a relative path does not name."""
    named = Path(os.environ.get(variable) or "")
    return (named if named.is_absolute() else Path.home() / usual) / "edgec"


def is_own(folder: Path) -> bool:
    """True for a folder of this user's that nobody else can write to: what is taken from it is loaded and run."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def umask() -> int:
    """The permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


#: Errors that come from the machine, not from a mistake in the program.
_REFUSALS = {
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ELOOP, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE,
    errno.ENOMEM, errno.ENOSPC, errno.EPERM, errno.EROFS,
}  # fmt: skip
_ADVICE = {
    errno.ENOSPC: "make room on the disk, or name another folder",
    errno.EDQUOT: "make room on the disk, or name another folder",
    errno.EROFS: "name a folder that can be written to",
    errno.EACCES: "name a folder that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
}
