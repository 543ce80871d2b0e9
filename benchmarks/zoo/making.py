"""Files of networks: the catalog, the environment with torch, and the file of one entry."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from benchmarks import environment
from benchmarks.engines import install
from benchmarks.zoo import packages
from benchmarks.zoo.entries import SEED, Entry, load, mixed


class NotMade(Exception):
    """A network that its package or its exporter does not give; the message says why."""


def python_of(cache: Path, given: str | None) -> str:
    return given or str(install.environment("zoo", cache))


def catalog(cache: Path, python: str | None, seed: int = SEED) -> list[Entry]:
    """All entries of a draw, in an order of which every prefix is a fair sample."""
    path = cache / ("catalog.jsonl" if seed == SEED else f"catalog-{seed}.jsonl")
    if not path.is_file():
        part = path.with_suffix(".part")
        _run([python_of(cache, python), "-m", "benchmarks.zoo.draw", str(part), "--seed", str(seed)], 3600)
        part.replace(path)
    entries = load(path)
    plain = [e for e in entries if not e.variant]
    groups = [[e for e in plain if e.source == source] for source in ("timm", "torchvision", "transformers")]
    return mixed([*groups, [e for e in entries if e.variant], packages.entries()])


class Maker:
    """Files of entries, made in a cache folder where they are not there yet.

    A process with torch makes them one after another. It starts with the first network that needs it.
    """

    #: Seconds that the process may take to start, beside those of a network.
    START = 300

    def __init__(self, cache: Path, python: str | None, patience: float) -> None:
        self.cache, self.python, self.patience = cache, python, patience
        self.process: subprocess.Popen[str] | None = None
        self.said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # closed with the process

    def __enter__(self) -> Maker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self.said.close()

    def file_of(self, entry: Entry) -> Path:
        """The file of an entry; raises NotMade and packages.Missing."""
        folder = self.cache / "models"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{entry.name}{entry.suffix}"
        if path.is_file():
            return path
        if entry.exporter == "package":
            packages.fetch(entry, path, self.cache)
        elif entry.variant:
            source = self.file_of(entry.base)
            _run(
                [sys.executable, "-m", "benchmarks.zoo.variants", entry.variant, str(source), str(path)], self.patience
            )
        else:
            self._export(entry, path)
        if not path.is_file():
            raise NotMade("no file was written")
        return path

    def _export(self, entry: Entry, path: Path) -> None:
        if self.process is None or self.process.poll() is not None:
            self._start()
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        job = {"entry": asdict(entry), "path": str(path.absolute()), "patience": self.patience}
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            line = ""
        else:
            with selectors.DefaultSelector() as ready:
                ready.register(self.process.stdout, selectors.EVENT_READ)
                line = self.process.stdout.readline() if ready.select(self.patience + self.START) else ""
        if not line:
            self._end()
            self.said.seek(0)
            lines = [text for text in self.said.read().splitlines() if text.strip()]
            raise NotMade(f"the process with torch ended: {lines[-1][:300] if lines else 'it said nothing'}")
        if problem := json.loads(line)["problem"]:
            raise NotMade(problem)

    def _start(self) -> None:
        self.said.seek(0)
        self.said.truncate()
        self.process = subprocess.Popen(
            [python_of(self.cache, self.python), "-m", "benchmarks.zoo.export"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.said, text=True, env=environment(), start_new_session=True,
        )  # fmt: skip

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def _run(command: list[str], patience: float) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=patience, env=environment(), check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotMade(f"it took more than {patience:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise NotMade(lines[-1][:400])
