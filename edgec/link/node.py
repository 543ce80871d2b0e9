"""WebAssembly programs, started by Node.js through its system interface for them."""

from __future__ import annotations

from edgec.link.base import tool
from edgec.link.local import Local
from edgec.resources import data_folder


def node() -> Local:
    """A folder whose programs Node.js starts. Raises ToolchainError where that is not installed."""
    starter = data_folder("codegen_templates") / "link" / "wasi.mjs"
    return Local("node", [tool("node", "install Node.js 20 or newer"), "--no-warnings", str(starter)])
