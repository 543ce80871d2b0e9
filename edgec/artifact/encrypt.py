"""Weights of a built folder, encrypted for delivery, with the C that opens them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgec import files as files_of_user
from edgec.artifact.folder import read_lock
from edgec.artifact.names import sealed_names
from edgec.emit.encrypted import KEY_BYTES, encrypted, opener
from edgec.emit.weights import is_whole
from edgec.errors import UsageError
from edgec.untrusted import reason


@dataclass(frozen=True)
class Encrypted:
    """The encrypted file of weights, and the sources that open it."""

    file: Path
    sources: tuple[Path, ...]


def encrypt(folder: Path, key: Path) -> Encrypted:
    """Encrypt the weights of a folder built with ``weights="file"`` by the key in a file: 32 bytes, or 64 hex digits.

    Files of an earlier call are replaced. Raises UsageError for a folder whose weights are no file of their own, a key
    of another size, and where the package `cryptography` is missing.
    """
    lock = read_lock(folder)
    place = (lock.get("weights") or {}).get("place") if "name" in lock else None
    if place != "file":
        told = f"its weights are {place}" if place else "it holds no weights in a file"
        hint = "build with --weights file; linked weights are part of the program, and streamed ones are read in pieces"
        raise UsageError(f"only weights in a file of their own can be encrypted: {told}", hint=hint, where=str(folder))
    name, secret = str(lock["name"]), _key(key)
    try:
        plain = (folder / f"{name}.weights").read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the weights: {reason(error)}", hint="build it again", where=str(folder)
        ) from None
    if not is_whole(plain, lock.get("weights_bytes")):
        hint = "build it again"
        raise UsageError("the weights are not those of the build: cut off, or changed", hint=hint, where=str(folder))
    target = folder / sealed_names(name)[0]
    files_of_user.replace(target, encrypted(plain, secret))
    sources = opener(name, (lock.get("device_facts") or {}).get("hosted", True) is not False)
    for path, content in sources.items():
        files_of_user.replace(folder / path, content)
    return Encrypted(target, tuple(folder / path for path in sources))


def _is_hex(content: bytes) -> bool:
    return bool(content) and all(byte in b"0123456789abcdefABCDEF" for byte in content)


def _key(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the key: {reason(error)}", where=str(path)) from None
    if len(content) == KEY_BYTES and not _is_hex(content):  # 32 digits are a key of half the length
        return content
    try:
        digits = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        digits = b""
    if len(digits) != KEY_BYTES:
        hint = "make one: openssl rand -hex 32 > key"
        raise UsageError(f"a key is {KEY_BYTES} bytes, or {2 * KEY_BYTES} hex digits", hint=hint, where=str(path))
    return digits
