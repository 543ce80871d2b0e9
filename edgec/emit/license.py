"""License lines: every generated text file says under which license its code may be used."""

from __future__ import annotations

from pathlib import PurePosixPath

IDENTIFIER = "SPDX-License-Identifier: Apache-2.0"
_HASH, _SLASHES, _BLOCK, _MARKUP = "# {}\n", "// {}\n", "/* {} */\n", "<!-- {} -->\n"
#: How a comment is written, by the end of a file's name; files of other names are data.
_COMMENTS = {
    **dict.fromkeys((".c", ".h", ".S", ".ld", ".cl", ".cu", ".cpp", ".hpp", ".ino"), _BLOCK),
    **dict.fromkeys((".java", ".rs", ".js", ".ts", ".gradle", ".wgsl"), _SLASHES),
    **dict.fromkeys((".py", ".toml", ".smali", ".pro", ".properties", "CMakeLists.txt", "Makefile"), _HASH),
    **dict.fromkeys((".yml", ".yaml", ".conf", ".defaults", "Kconfig"), _HASH),
    **dict.fromkeys((".md", ".html", ".xml", ".pdsc"), _MARKUP),
    ".ini": "; {}\n",
}
#: Lines that have to be the first of a file.
_FIRST = (b"<?xml", b"<!doctype")


def licensed(path: str, content: bytes) -> bytes:
    """A file with the license in its first line; a file that has no comments as it is."""
    name = PurePosixPath(path)
    comment = _COMMENTS.get(name.name) or _COMMENTS.get(name.suffix)
    if comment is None:
        return content
    line = comment.format(IDENTIFIER).encode()
    if content.startswith(_FIRST):
        first, rest = content.split(b"\n", 1)
        return first + b"\n" + line + rest
    return line + content
