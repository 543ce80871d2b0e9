"""`edgec schema`: JSON Schemas of everything that `--json` prints."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.errors import UsageError
from edgec.report.record import head


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def schema(
        words: Annotated[
            Optional[list[str]],
            typer.Argument(metavar="[COMMAND]", help="A command, such as build or device list; by default all."),
        ] = None,
        markdown: Annotated[
            bool, typer.Option("--markdown", help="Print tables of all keys, as in docs/guide/json.md.")
        ] = False,
    ) -> Answer:
        """Print the JSON Schema of what COMMAND prints with --json."""
        import json

        from edgec.report.answers.json_schema import schema_of, schema_of_all
        from edgec.report.answers.markdown import tables

        name = " ".join(words or ())
        if markdown:
            if name:
                raise UsageError("tables are of all commands", hint="leave out the command, or --markdown")
            text = tables()
            return Answer({**head("schema"), "schema_of": None, "markdown": text, "json_schema": None}, lambda r: text)
        found = schema_of(name) if name else schema_of_all()
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        return Answer(
            {**head("schema"), "schema_of": name or None, "markdown": None, "json_schema": found}, lambda r: text
        )
