"""Encrypted files of weights: AES-256 in counter mode, and the C that opens them by OpenSSL or PSA Crypto.

The head of a file: `MAGIC`, the number of the layout, the first counter, and the HMAC-SHA256 by the key of all that,
which tells a wrong key. The counter is the HMAC-SHA256 by the key of the content's hash, cut to 16 bytes: the same
build gives the same file, no two contents share a key stream, and a program that computes it again finds a changed
content.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from edgec.emit.license import licensed
from edgec.emit.render import render
from edgec.emit.weights import HEAD_BYTES
from edgec.errors import UsageError
from edgec.schedule.memory import ALIGNMENT
from edgec.version import __version__

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

MAGIC, LAYOUT = b"ecsealed", 1
KEY_BYTES = 32


def encrypted(plain: bytes, key: bytes) -> bytes:
    """A file of weights, encrypted by a key of `KEY_BYTES`. Raises UsageError where `cryptography` is missing."""
    counter = hmac.digest(key, b"counter" + sha256(plain).digest(), "sha256")[:16]
    head = MAGIC + LAYOUT.to_bytes(4, "little") + bytes(4) + counter
    cipher = _cipher(key, counter)
    return head + hmac.digest(key, head, "sha256") + cipher.update(plain) + cipher.finalize()


def _cipher(key: bytes, counter: bytes) -> CipherContext:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        hint = "pip install 'edgec[encrypt]'"
        raise UsageError("encrypting weights needs the package cryptography", hint=hint) from None
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()


def opener(name: str, hosted: bool = True) -> Mapping[str, bytes]:
    """The C that opens the encrypted weights of a network, by the names of its files; without ``hosted``, in memory."""
    values: dict[str, Any] = {"name": name, "NAME": name.upper(), "version": __version__}
    values |= {"head_bytes": HEAD_BYTES, "alignment": ALIGNMENT, "hosted": hosted}
    pages = {f"{name}_encrypted.{end}": f"project/weights/encrypted.{end}.jinja" for end in ("c", "h")}
    return {path: licensed(path, render(page, **values).encode()) for path, page in pages.items()}
