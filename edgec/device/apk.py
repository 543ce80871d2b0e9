"""A signed app that tries a network on a phone, by the Android tools that distributions have.

They have no compiler from Java to Dalvik's code, so the app is written in its assembler (smali); and their zipalign
knows no pages of 16 KiB, so the archive is written here. The key is made on the spot: such an app is for trying.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from edgec.device import android
from edgec.device.android import Library, Progress
from edgec.errors import ToolchainError
from edgec.link.base import tool

#: How its tools are installed.
INSTALL = "apt install aapt apksigner smali android-framework-res, or build the app by Gradle"
_FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
#: The field of an archive's entry that says what its data are aligned to, for those who write it anew.
_ALIGNMENT_FIELD = 0xD935
#: The fixed part of an entry's own header.
_HEADER_BYTES = 30


def assemble(folder: Path, name: str, parts: Sequence[Library], progress: Progress | None = None) -> Path:
    """Compile the artefact in ``folder``, written with the app ``apk``, into ``android/NAME.aar`` and ``NAME.apk``.

    Raises ToolchainError where one of the tools is missing, or refuses.
    """
    smali, aapt, signer, keys = (tool(program, INSTALL) for program in ("smali", "aapt2", "apksigner", "keytool"))
    if not _FRAMEWORK.is_file():
        raise ToolchainError("Android's framework is not installed", hint=INSTALL)
    android.assemble(folder, name, parts, progress)
    own = folder / "android" / "apk"
    output = folder / "android" / f"{name}.apk"
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        work = Path(scratch)
        _call(smali, "a", "-o", work / "classes.dex", *sorted(own.glob("*.smali")))
        _call(aapt, "link", "-I", _FRAMEWORK, "--manifest", own / "AndroidManifest.xml", "-o", work / "base.apk")
        with zipfile.ZipFile(folder / "android" / f"{name}.aar") as aar:
            shared = {entry: aar.read(entry) for entry in aar.namelist() if entry.startswith("jni/")}
        with zipfile.ZipFile(work / "base.apk") as base, zipfile.ZipFile(work / "whole.apk", "w") as archive:
            for entry in base.namelist():
                _add(archive, entry, base.read(entry), 4)
            _add(archive, "classes.dex", (work / "classes.dex").read_bytes(), 4)
            for entry, data in shared.items():
                _add(archive, f"lib/{entry.removeprefix('jni/')}", data, android.PAGE_BYTES)
        store = ["-storepass", "android", "-keypass", "android", "-alias", "trial"]
        _call(
            keys, "-genkeypair", "-keystore", work / "keys", *store, "-keyalg", "RSA", "-keysize", "2048",
            "-validity", "3650", "-dname", "CN=trial",
        )  # fmt: skip
        _call(signer, "sign", "--ks", work / "keys", "--ks-pass", "pass:android", "--out", output, work / "whole.apk")
        output.with_suffix(".apk.idsig").unlink(missing_ok=True)
    return output


def _add(archive: zipfile.ZipFile, path: str, data: bytes, alignment: int) -> None:
    """An entry that is not compressed, whose data begin at a multiple of ``alignment``."""
    entry = zipfile.ZipInfo(path, android.TIME)
    assert archive.fp is not None
    begin = archive.fp.tell() + _HEADER_BYTES + len(path.encode()) + 6
    entry.extra = struct.pack("<HHH", _ALIGNMENT_FIELD, 2 + -begin % alignment, alignment) + bytes(-begin % alignment)
    archive.writestr(entry, data, zipfile.ZIP_STORED)


def _call(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"{Path(command[0]).name} failed\n{(done.stderr or done.stdout).strip()[:2000]}")
