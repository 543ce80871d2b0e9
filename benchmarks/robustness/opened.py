"""Compiled networks that read files of the fuzzer: a training its state, a session a text; built once a process."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.robustness import seeds
from edgec import api
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.trainer import Trainer
from edgec.errors import UsageError

#: Tokens of the text that mutations of a saved one start from.
TOKENS = (1, 2, 3, 5, 8)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for what is built, as long as the process lives."""
    return tempfile.TemporaryDirectory(prefix="edgec-fuzz-built-")


@cache
def trainer() -> Trainer:
    """A training of one product with Adam, which has numbers of its own in the state."""
    seeds.from_tests("", "chance").begin("trainer")
    model = seeds.from_tests("training", "trained_models").linear()
    out = Path(_folder().name) / "training"
    api.build(model, out, loss="mse", optimizer="adam")
    return Trainer(out)


@cache
def session() -> Session:
    """A session of a model whose layers have windows, so that saved texts say how far their rows reach."""
    plain = seeds.from_tests("language", "plain")
    seeds.from_tests("", "chance").begin("session")
    file, out = Path(_folder().name) / "lm.gguf", Path(_folder().name) / "lm"
    file.write_bytes(plain.gguf("gemma2", plain.draw("gemma2")))
    api.build(file, out, context=plain.CONTEXT)
    return Session(Network(out))


def states() -> list[bytes]:
    """The state of the training, as it saves it."""
    trainer().reset()
    path = Path(_folder().name) / "state.npz"
    trainer().save(path)
    return [path.read_bytes()]


def texts() -> list[bytes]:
    """A text that the session saved, and an empty one."""
    path, found = Path(_folder().name) / "text", []
    for tokens in (TOKENS, ()):
        session().rewind()
        if tokens:
            session().prefill(tokens)
        session().save(path)
        found.append(path.read_bytes())
    return found


def read_state(content: bytes, folder: Path) -> object:
    """A step from a restored state; one that is refused leaves everything as it was."""
    (folder / "state.npz").write_bytes(content)
    before = trainer().stepping.held.copy()
    try:
        trainer().restore(folder / "state.npz")
    except UsageError:
        assert np.array_equal(trainer().stepping.held, before), "a refused state is in use"
        raise
    shapes = [port.shape for port in (*trainer().inputs, trainer().target)]
    return trainer().step(*(np.ones(shape, np.float32) for shape in shapes))  # type: ignore[arg-type]


def read_text(content: bytes, folder: Path) -> object:
    """A token behind a restored text; one that is refused leaves everything as it was."""
    (folder / "text").write_bytes(content)
    before = session().tokens
    try:
        session().restore(folder / "text")
    except UsageError:
        assert session().tokens == before, "a refused text is in use"
        raise
    assert session().past <= session().context and all(-1 <= t < session().vocabulary for t in session().tokens)
    return session().next(1)
