"""The command `edgec worker`: serves parts of a divided network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.report.record import head

Folders = Annotated[
    list[Path], typer.Argument(metavar="PART...", help="Folders of parts of a network that was built with --over.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def worker(
        parts: Folders,
        listen: Annotated[
            str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; a port of 0 is any.")
        ] = "127.0.0.1:7000",
        secret_file: Annotated[
            Optional[Path],
            typer.Option(
                "--secret-file", metavar="FILE", help="What the coordinator knows too; by default EDGEC_WORKER_SECRET."
            ),
        ] = None,
        threads: Annotated[int, typer.Option("--threads", "-t", help="Threads of every part.")] = 1,
        core: Annotated[
            Optional[int], typer.Option("--core", metavar="N", help="Stay on this core of the machine.")
        ] = None,
        once: Annotated[bool, typer.Option("--once", help="End with the first coordinator.")] = False,
        overlap: Annotated[
            bool, typer.Option("--overlap/--no-overlap", help="Receive and send while a part is computed.")
        ] = True,
    ) -> Answer:
        """Serve PARTs of a divided network to a coordinator that knows the secret, until stopped."""
        from edgec.distribute.protocol import SECRET, secret_of
        from edgec.distribute.start import LISTENS
        from edgec.distribute.worker import serve
        from edgec.errors import UsageError
        from edgec.text import printable
        from edgec.untrusted import reason, regular

        try:
            told = regular(secret_file).read_text(encoding="utf-8") if secret_file is not None else None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot be read: {reason(error)}", where=str(secret_file)) from None
        where = str(secret_file) if secret_file is not None else f"the environment's {SECRET}"
        secret = secret_of(told if secret_file is not None else os.environ.get(SECRET), where)
        if core is not None:
            _stay_on(core)
        at = []

        def ready(address: str) -> None:
            at.append(address)
            print(f"{LISTENS}{address}", file=sys.stderr if "--json" in sys.argv else sys.stdout, flush=True)

        def complain(text: str) -> None:
            print(f"a connection ended: {printable(text, 400)}", file=sys.stderr, flush=True)

        serve(parts, listen, secret, threads=threads, once=once, overlaps=overlap, ready=ready, complain=complain)
        return Answer({**head("worker"), "address": at[0], "parts": len(parts)}, lambda r: "the coordinator is done\n")


def _stay_on(core: int) -> None:
    """Keep this process on a core. Raises UsageError where that cannot be had."""
    from edgec.errors import UsageError

    try:
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError, ValueError):
        raise UsageError(f"this process cannot stay on core {core}", hint="leave out --core", where="--core") from None
