"""Names of compilers and of Android's architectures, for modules that import little."""

from __future__ import annotations

from typing import Literal

CompilerKind = Literal["gcc", "clang", "zig"]
#: Android's names of the architectures.
ABI = {"aarch64": "arm64-v8a"}
#: The oldest Android that a library is for.
MIN_SDK = 24
