"""A folder put in the place of another in one step, whatever happens meanwhile: a crash, a full disk, another build.

The new folder is made inside a hidden one beside its place (``.edgec-XXXX/build``), then the two are exchanged. Who
makes it holds a lock on ``.edgec-XXXX/owner``: a hidden folder whose lock is free was left by a process that is gone,
and the next build beside it sweeps it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgec.errors import UsageError

#: Names of hidden folders begin so.
HIDDEN = ".edgec-"
#: Seconds until a hidden folder that nobody locked yet counts as left, and that a build waits for another one.
FORGOTTEN, PATIENCE = 60.0, 60.0
_AT_FDCWD, _EXCHANGE, _RENAME_SWAP = -100, 2, 2


@contextmanager
def hidden(parent: Path) -> Iterator[Path]:
    """A fresh folder inside a hidden one of ``parent``, which goes at the end with what is in it then."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    holder = Path(tempfile.mkdtemp(prefix=HIDDEN, dir=parent))
    owner = os.open(holder / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks: then nothing is swept
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(holder / "new", holder / "owner")
        fresh = holder / "build"
        fresh.mkdir()
        yield fresh
    finally:
        shutil.rmtree(holder, ignore_errors=True)
        os.close(owner)


def sweep(parent: Path) -> None:
    """Remove hidden folders of builds that ended before they were done. Those of other users and running ones stay."""
    for left in parent.glob(f"{HIDDEN}*"):
        with suppress(OSError):
            found = left.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if not (left / "owner").exists():
                if time.time() - found.st_mtime > FORGOTTEN:
                    (left / "new").unlink(missing_ok=True)
                    left.rmdir()  # refused where anything else is in it
                continue
            owner = os.open(left / "owner", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(owner)


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """The place of ``folder`` for this process alone. Raises UsageError where another one keeps it."""
    place = os.open(folder.absolute().parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    hint = "wait for it, or name another folder"
                    raise UsageError("another program keeps this place locked", hint=hint, where=str(folder)) from None
                time.sleep(0.01)
            except OSError:
                break  # a file system without locks
        yield
    finally:
        os.close(place)


def put(fresh: Path, folder: Path) -> None:
    """Move ``fresh`` to ``folder``; what was there is at ``fresh`` then. At every moment there is one of the two."""
    if not folder.exists():
        os.rename(fresh, folder)
    elif not _exchanged(fresh, folder):  # a file system without it: the old one is away for a moment
        old = fresh.with_name("old")
        os.rename(folder, old)
        try:
            os.rename(fresh, folder)
        except BaseException:
            os.rename(old, folder)
            raise
        os.rename(old, fresh)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system cannot."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        return bool(library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) == 0)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(*names, _RENAME_SWAP) == 0)
    return False
