"""Names of compilers and of Android's architectures, for modules that import little."""

from __future__ import annotations

from typing import Literal

CompilerKind = Literal["gcc", "clang", "zig"]
#: Android's names of the architectures, and the device of each that any phone with it has.
ABI = {"aarch64": "arm64-v8a", "arm": "armeabi-v7a", "x86_64": "x86_64"}
ABI_DEVICES = {"arm64-v8a": "android_arm64", "armeabi-v7a": "android_arm32", "x86_64": "android_x86_64"}
#: The oldest Android that a library is for.
MIN_SDK = 24
