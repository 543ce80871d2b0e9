"""Options of a headless Chromium: no request to any network, and no sandbox, which root has none of."""

from __future__ import annotations

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
