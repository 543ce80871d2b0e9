"""Data out of files that anybody may have written: inputs, labels, calibration, masks, constants, locks, reports."""

from __future__ import annotations

import errno
import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import UsageError

if TYPE_CHECKING:  # imported by what reads arrays: the command line starts without it
    import numpy as np


def regular(path: str | Path) -> Path:
    """The path of a file; raises OSError where there is none, or a device, a pipe or a socket, which may never end."""
    found = Path(path)
    mode = found.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a folder says what it is itself
        raise OSError(errno.EINVAL, "this is a device, a pipe or a socket, not a file", str(path))
    return found


#: Bytes that the arrays of a compressed file may have, and how many times the bytes of the file.
_INFLATED, _RATIO = 1 << 30, 64


def read_arrays(path: str | Path, narrow: bool = False) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name, or that of an .npy file by the name "".

    Types that numpy does not know (`ml_dtypes`) are raw bytes in a file, and allowed if ``narrow``.

    Raises UsageError for what cannot be read, for arrays that hold no numbers or truth values, and for a compressed
    file that claims to hold absurdly more than it is long; what it claims is also all that is read.
    """
    import numpy as np

    if Path(path).is_dir():
        hint = "edgec samples makes an .npz file of a folder of pictures or sounds"
        raise UsageError("this is a folder, and a file of arrays is read here", hint=hint, where=str(path))
    try:
        loaded = np.load(regular(path), allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                entries = loaded.zip.infolist() if loaded.zip is not None else []
                _require_plausible(Path(path), sum(entry.file_size for entry in entries))
                arrays = {name: np.asarray(loaded[name]) for name in loaded.files}
        else:
            arrays = {"": np.asarray(loaded)}
    except UsageError:
        raise
    except Exception as error:  # a damaged file raises whatever numpy, zipfile, zlib and the parser of headers do
        what = "it holds objects of Python" if "pickle" in str(error) else reason(error)
        raise UsageError(
            f"cannot be read: {what}", hint="arrays of numbers are saved with numpy.savez", where=str(path)
        ) from None
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" and not (narrow and array.dtype.kind == "V" and array.dtype.names is None):
            where = f"{path}, '{name}'" if name else str(path)
            raise UsageError(f"an array of {array.dtype.name} holds no numbers", where=where)
    return arrays


def _require_plausible(path: Path, claimed: int) -> None:
    length = path.stat().st_size
    if claimed > max(_INFLATED, _RATIO * length):
        raise UsageError(
            f"its {length} bytes would become {claimed} bytes of arrays",
            hint="save the arrays with numpy.savez, which does not compress them",
            where=str(path),
        )


def read_array(path: str | Path) -> np.ndarray:
    """The array of an .npy file; raises UsageError as `read_arrays` does."""
    arrays = read_arrays(path)
    if "" not in arrays:
        raise UsageError("cannot be read: it holds arrays by name", hint="save one with numpy.save", where=str(path))
    return arrays[""]


def read_json(path: Path) -> Any:
    """Content of a JSON file; raises UsageError for invalid JSON, OSError if it cannot be opened."""
    try:
        return json.loads(regular(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot be read: {reason(error)}", where=str(path)) from None


def reason(error: Exception) -> str:
    """The text of an exception, in one line of bounded length."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error) or type(error).__name__).splitlines()[0][:200]
