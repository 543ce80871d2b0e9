"""A built folder made ready for delivery: a Python package, encrypted weights, updates of weights, evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.report.record import Record, head

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""

    @command(app)
    def wheel(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that edgec build wrote.")],
        target: Annotated[
            str,
            typer.Option(
                "--target",
                metavar="SYSTEM[_PROCESSOR]",
                help="manylinux, musllinux, macos or windows; as manylinux_x86_64 only if the build is for that.",
            ),
        ] = "manylinux",
        out: Annotated[
            Optional[Path],
            typer.Option("--out", "-o", metavar="DIR", help="Folder for the wheel, if not that of the build."),
        ] = None,
    ) -> Answer:
        """Compile the C of a build for a system, and pack it into a wheel for pip."""
        from edgec.artifact import wheel as wheels

        made = wheels.wheel(folder, target, out)
        told = {"file": str(made.file), "tag": made.tag, "needs": made.needs, "hint": made.hint}
        return Answer({**head("wheel"), "folder": str(folder), **told}, _draw)

    @command(app)
    def encrypt(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of edgec build --weights file.")],
        key: Annotated[Path, typer.Option("--key", metavar="FILE", help="A key: 32 bytes, or 64 hex digits.")],
    ) -> Answer:
        """Encrypt the weights of a build by AES-256, and write the C that opens them."""
        from edgec.artifact import encrypt as sealing

        made = sealing.encrypt(folder, key)
        sources = [str(path) for path in made.sources]
        return Answer(
            {**head("encrypt"), "folder": str(folder), "file": str(made.file), "sources": sources}, _draw_encrypted
        )

    @command(app)
    def update(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of edgec build --weights file.")],
        model: Annotated[Path, typer.Argument(metavar="MODEL", help="The same network with other weights.")],
        out: Annotated[
            Optional[Path],
            typer.Option("--out", "-o", metavar="FILE", help="The file of weights to write, if they fit."),
        ] = None,
    ) -> Answer:
        """Weights of MODEL for the program of a build: do they fit its code, and if not, why?"""
        from edgec.artifact import update as updates

        made = updates.update(folder, model, out)
        record = {
            **head("update"), "ok": made.fits, "folder": str(folder), "file": str(out) if out and made.fits else None,
            "bytes": len(made.weights), "abi": made.abi, "built_abi": made.built_abi, "reasons": list(made.reasons),
        }  # fmt: skip
        return Answer(record, _draw_update, made.fits)

    @command(app)
    def evidence(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that edgec build wrote, in C.")],
        out: Annotated[
            Optional[Path],
            typer.Option("--out", "-o", metavar="DIR", help="Folder for the files, if not DIR/evidence."),
        ] = None,
        misra: Annotated[bool, typer.Option("--misra/--no-misra", help="Count rules of MISRA C by cppcheck.")] = True,
    ) -> Answer:
        """Bounds of the loops of a build as files for WCET tools, and the rules of MISRA C that its code breaks."""
        from edgec.check import evidence as evidences
        from edgec.report.evidence import drawn, record

        found = evidences.evidence(folder, misra)
        files = evidences.write(found, out or evidences.folder_of(folder))
        return Answer(record(found, folder, files), drawn, not found.unbounded)


def _draw(record: Record) -> RenderableType:
    from rich.markup import escape

    needs = f"; needs {record['needs']}" if record["needs"] else ""
    hint = f"{escape(record['hint'])}\n" if record["hint"] else ""
    return f"{escape(record['file'])}{needs}\n{hint}"


def _draw_encrypted(record: Record) -> RenderableType:
    from rich.markup import escape

    told = f"opened by {', '.join(Path(path).name for path in record['sources'])}, with -lcrypto"
    return f"{escape(record['file'])}, {escape(told)}\n"


def _draw_update(record: Record) -> RenderableType:
    from rich.markup import escape

    if record["ok"]:
        written = f"; {record['file']}, {record['bytes']} bytes" if record["file"] else ""
        return f"the program in {escape(record['folder'])} takes these weights{escape(written)}\n"
    told = "".join(f"  {escape(reason)}\n" for reason in record["reasons"])
    return f"the program in {escape(record['folder'])} does not take these weights:\n{told}"
