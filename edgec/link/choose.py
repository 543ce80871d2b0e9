"""From what a user writes to a link."""

from __future__ import annotations

from edgec.device.device import Device
from edgec.errors import LinkError, UsageError
from edgec.link.adb import Adb
from edgec.link.base import Link
from edgec.link.board import Board
from edgec.link.forms import FORMS
from edgec.link.local import Local, emulated
from edgec.link.node import node
from edgec.link.ssh import Ssh


def open_link(device: Device, text: str | None = None) -> Link:
    """The link that ``text`` names, or the one the device's file names.

    Raises UsageError for a text that names none, LinkError when the device cannot be reached, ToolchainError when a
    program is missing that the link needs.
    """
    if not device.is_compiled_here:
        hint = "serve the folder web of a build (python -m http.server); --device wasm32 runs in Node.js too"
        raise LinkError(f"networks for '{device.name}' run in browsers alone, which no link reaches", hint=hint)
    kind, _, rest = (text if text is not None else device.link).partition(":")
    if kind == "local" and not rest:
        return Local()
    if kind == "node" and not rest:
        return node()
    if kind == "qemu":
        return emulated(device, rest)
    if kind == "board" and (rest or device.board.qemu_machine):
        return Board(device, rest or device.board.qemu_machine)
    if kind == "ssh" and rest:
        return Ssh(rest)
    if kind == "adb":
        return Adb(rest)
    if text is None and kind == "ssh":
        raise UsageError(f"'{device.name}' is reached by ssh", hint="say where it is: --link ssh:user@host")
    if text is None:
        raise LinkError(f"no way to '{device.name}' is known", hint=f"give --link: {FORMS}", where=device.name)
    raise UsageError(f"'{text}' names no link", hint=f"it is one of {FORMS}")
