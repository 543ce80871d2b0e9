"""Commands that use a built language model: `edgec chat` in a terminal, `edgec serve-lm` for other programs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from edgec.artifact.sampling import Sampling
from edgec.cli.command import Answer, command
from edgec.errors import UsageError
from edgec.files import replace
from edgec.report.record import Record, head
from edgec.text import counted, printable

if TYPE_CHECKING:
    from edgec.artifact.language_model import Drawing, Generation, LanguageModel, Usage

USUAL = Sampling()
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a built language model.")]
Threads = Annotated[
    Optional[int], typer.Option("--threads", "-t", help="Threads to use; by default all that it was built for.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""

    @command(app)
    def chat(
        folder: Folder,
        prompt: Annotated[
            Optional[str], typer.Option("--prompt", metavar="TEXT", help="Answer this alone; - reads standard input.")
        ] = None,
        system: Annotated[Optional[str], typer.Option(metavar="TEXT", help="What the model is told first.")] = None,
        raw: Annotated[bool, typer.Option("--raw", help="Continue the text, without a chat template.")] = False,
        max_tokens: Annotated[
            Optional[int], typer.Option("--max-tokens", help="Most tokens of an answer; by default up to the context.")
        ] = None,
        temperature: Annotated[float, typer.Option(help="0 takes the most probable token.")] = USUAL.temperature,
        top_k: Annotated[int, typer.Option(help="So many tokens are considered; 0: all.")] = USUAL.top_k,
        top_p: Annotated[float, typer.Option(help="Considered tokens have this probability.")] = USUAL.top_p,
        min_p: Annotated[float, typer.Option(help="Least part of the largest probability.")] = USUAL.min_p,
        repetition_penalty: Annotated[float, typer.Option(help="Above 1, less of the last 64 tokens.")] = 1.0,
        seed: Annotated[Optional[int], typer.Option(help="For the same answer again.")] = None,
        stop: Annotated[
            Optional[list[str]], typer.Option("--stop", metavar="TEXT", help="The answer ends before this text.")
        ] = None,
        adapter: Annotated[
            Optional[Path],
            typer.Option(metavar="FILE", help="Low-rank adapter: PEFT's folder, GGUF, or a file of edgec adapter."),
        ] = None,
        threads: Threads = None,
        as_json: bool = False,
    ) -> Answer:
        """Talk to the language model in DIR; Ctrl-C ends an answer, Ctrl-D the conversation."""
        drawing: Drawing = {
            "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
            "repetition_penalty": repetition_penalty, "seed": seed,
        }  # fmt: skip
        if as_json and prompt is None:
            raise UsageError("a conversation is no JSON object", hint="give a --prompt")
        if raw and (system is not None or prompt is None):
            raise UsageError("without a chat template there is a --prompt alone", hint="leave out --raw, or --system")
        with _opened(folder, threads) as model:
            model.adapter(adapter)
            talk = _Talk(model, drawing, max_tokens, tuple(stop or ()), system, is_shown=not as_json)
            if prompt is None:
                return talk.converse(folder)
            return talk.answer(folder, sys.stdin.read() if prompt == "-" else prompt, raw)

    @command(app, "serve-lm")
    def serve(
        folder: Folder,
        port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 8000,
        host: Annotated[
            str, typer.Option(help="Address to listen at; others than this machine's need --key-file.")
        ] = "127.0.0.1",
        key_file: Annotated[
            Optional[Path], typer.Option("--key-file", metavar="FILE", help="A key that every request has to bring.")
        ] = None,
        parallel: Annotated[int, typer.Option(help="Generations at the same time, each with a cache.")] = 1,
        waiting: Annotated[int, typer.Option(help="Requests that may wait for their turn.")] = 16,
        adapter: Annotated[
            Optional[list[str]],
            typer.Option(metavar="NAME=FILE", help="A low-rank adapter, which requests name as their model."),
        ] = None,
        threads: Threads = None,
    ) -> Answer:
        """Serve the language model in DIR to clients of OpenAI's interface (completions, chat, streaming)."""
        from edgec.serve.language_model import Limits, run

        with _opened(folder, threads) as model:
            for word in adapter or ():
                _add_adapter(model, word)
            url = run(model, host, port, key_file, Limits(parallel, waiting))
        return Answer({**head("serve-lm"), "folder": str(folder), "url": url}, lambda r: "")

    @command(app, "adapter")
    def convert(
        folder: Folder,
        source: Annotated[Path, typer.Argument(metavar="FILE", help="PEFT's folder or file, or GGUF.")],
        out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")],
        as_json: bool = False,
    ) -> Answer:
        """Write a low-rank adapter as C programs of the language model in DIR take it (NAME_adapter)."""
        from edgec.artifact.adapter import layout_for
        from edgec.artifact.adapter import read as read_adapter
        from edgec.artifact.folder import read_lock
        from edgec.report.terminal import size

        layout = layout_for(read_lock(folder).get("language_model") or {}, str(folder))
        content = read_adapter(source, layout)
        replace(out, content)
        record = {**head("adapter"), "folder": str(folder), "file": str(out), "bytes": len(content)}
        return Answer(record, lambda r: f"{out}: {size(len(content))}, for ranks up to {layout.rank}")


def _add_adapter(model: LanguageModel, word: str) -> None:
    """Add the adapter of ``NAME=FILE``."""
    name, is_given, path = word.partition("=")
    if not (name and is_given and path):
        raise UsageError(f"'{printable(word)}' is no name and file", hint="for example --adapter formal=formal/")
    if name in (model.network.name, *model.adapters):
        raise UsageError(f"two models have the name '{printable(name)}'", hint="choose another", where="--adapter")
    model.add_adapter(name, path)


def _opened(folder: Path, threads: int | None) -> LanguageModel:
    from edgec.artifact.folder import read_lock
    from edgec.artifact.language_model import LanguageModel

    most = read_lock(folder).get("threads", 1)
    return LanguageModel(folder, most if threads is None else threads)


@dataclass
class _Talk:
    """A conversation, and how its answers are drawn."""

    model: LanguageModel
    drawing: Drawing
    max_tokens: int | None
    stop: Sequence[str]
    system: str | None
    is_shown: bool

    def answer(self, folder: Path, prompt: str, raw: bool) -> Answer:
        """The answer to one prompt."""
        generation = self._generation([*self._first(), _said("user", prompt)]) if not raw else self._continued(prompt)
        text = self._told(generation)
        record = {
            **head("chat"), "folder": str(folder), "text": text, "finish": generation.finish, "seed": generation.seed,
            "usage": usage(generation.usage),
        }  # fmt: skip
        return Answer(record, lambda r: self._summary(generation.usage))

    def converse(self, folder: Path) -> Answer:
        """Answers to lines, up to the end of the input."""
        from edgec.artifact.language_model import Usage

        messages, total = self._first(), Usage()
        while (line := _line()) is not None:
            if not line.strip():
                continue
            try:
                generation = self._generation([*messages, _said("user", line)])
            except UsageError as problem:  # the conversation has grown too long, for example
                sys.stderr.write(f"error: {problem}\n")
                continue
            try:
                text = self._told(generation)
            except KeyboardInterrupt:
                generation.close()
                text = self.shown
                sys.stdout.write(" ...\n")
            messages += [_said("user", line), _said("assistant", text)]
            _add(total, generation.usage)
        return Answer({**head("chat"), "folder": str(folder), "usage": usage(total)}, lambda r: self._summary(total))

    def _first(self) -> list[dict[str, str]]:
        return [] if self.system is None else [_said("system", self.system)]

    def _generation(self, messages: list[dict[str, str]]) -> Generation:
        return self.model.chat(messages, max_tokens=self.max_tokens, stop=self.stop, **self.drawing)

    def _continued(self, prompt: str) -> Generation:
        return self.model.generate(prompt, max_tokens=self.max_tokens, stop=self.stop, **self.drawing)

    def _told(self, generation: Generation) -> str:
        """The whole answer, shown as it comes."""
        self.shown = ""
        with contextlib.closing(generation):
            for piece in generation:
                self.shown += piece
                if self.is_shown:
                    sys.stdout.write(harmless(piece))
                    sys.stdout.flush()
        if self.is_shown:
            sys.stdout.write("\n")
        return self.shown

    def _summary(self, found: Usage) -> str:
        """The line behind the answers: on standard error, so that standard output is the text alone."""
        if not found.prompt_tokens:
            return ""
        sys.stderr.write(
            f"[{counted(found.prompt_tokens, 'token')} of prompts, {found.reused_tokens} of them known, "
            f"first token after {found.prefill_seconds:.2f} s; {counted(found.completion_tokens, 'token')} of answers,"
            f" {found.tokens_per_second:.1f} a second]\n"
        )
        return ""


def harmless(text: str) -> str:
    """A text without characters that a terminal obeys; line feeds and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def usage(found: Usage) -> Record:
    """Tokens, seconds and speed as a record."""
    return {
        "prompt_tokens": found.prompt_tokens, "reused_tokens": found.reused_tokens,
        "completion_tokens": found.completion_tokens, "prefill_seconds": found.prefill_seconds,
        "decode_seconds": found.decode_seconds, "tokens_per_second": found.tokens_per_second,
    }  # fmt: skip


def _add(total: Usage, more: Usage) -> None:
    for name, value in vars(more).items():
        setattr(total, name, getattr(total, name) + value)


def _line() -> str | None:
    """The next line of the user; None at the end."""
    is_asked = sys.stdin.isatty()
    try:
        if is_asked:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 # lines can be edited, and earlier ones called back
            return input("> ")
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None
    except (EOFError, KeyboardInterrupt):
        if is_asked:
            sys.stdout.write("\n")
        return None


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}
