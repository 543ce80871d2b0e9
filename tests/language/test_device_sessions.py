"""Sessions of language models on GPUs, from Python: the texts, forks and files of a processor's sessions."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from gguf_files import llama
from test_chat_apps import TEMPLATE, model_file

import edgec
from edgec.artifact.language_model import LanguageModel
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import UsageError

CONTEXT = 80
#: Device, what the cache is stored as, and how far logits may be from those of a processor.
CASES = [("cuda_sm90", "fp16", 2e-3), ("host_pocl", "int8", 3e-2)]
Pair = tuple[LanguageModel, LanguageModel, float]


def options_of(device: str) -> dict[str, str]:
    return {"device": device, **({"compiler": "emulated"} if device != "host_pocl" else {})}


@pytest.fixture(scope="module", params=CASES, ids=[case[0] for case in CASES])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A model on a processor and on a GPU."""
    device, cache, tolerance = request.param
    folder = tmp_path_factory.mktemp(device)
    path = model_file(folder, TEMPLATE)
    for name, options in (("cpu", {}), ("gpu", options_of(device))):
        edgec.build(path, folder / name, context=CONTEXT, cache=cache, name="lm", **options)  # type: ignore[arg-type]
    with LanguageModel(folder / "cpu") as cpu, LanguageModel(folder / "gpu") as gpu:
        yield cpu, gpu, tolerance


def drawn(model: LanguageModel, count: int) -> list[int]:
    return [int(t) for t in RANDOM.integers(0, model.vocabulary, count)]


def error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


def test_texts_forks_and_ways_back(pair: Pair) -> None:
    cpu, gpu, tolerance = pair
    here, there, tokens = cpu.session(), gpu.session(), drawn(cpu, 70)
    assert error(there.prefill(tokens), here.prefill(tokens)) <= tolerance
    for session in (here, there):
        session.rewind(41)
    fork = there.fork()
    assert fork.tokens == there.tokens == tokens[:41]
    other = drawn(cpu, 9)
    want = here.prefill(other)
    assert error(fork.prefill(other), want) <= tolerance
    assert error(there.next(tokens[41]), want) > tolerance  # the fork has not changed the text that it came from
    assert there.past == 42 and error(there.extend(tokens[:41] + other), want) <= tolerance
    assert there.tokens == tokens[:41] + other
    with pytest.raises(UsageError, match="do not fit the context"):
        there.prefill(drawn(cpu, CONTEXT))
    with pytest.raises(UsageError, match="50 tokens, and 51 of them"):
        there.rewind(51)
    empty = gpu.session().fork()
    assert empty.past == 0 and error(empty.next(tokens[0]), cpu.session().next(tokens[0])) <= tolerance


def test_saved_texts(pair: Pair, tmp_path: Path) -> None:
    """Equal bits after a way through a file; files with a changed head, and shorter ones, are refused."""
    _, gpu, _ = pair
    session, other, tokens = gpu.session(), gpu.session(), drawn(gpu, 30)
    session.prefill(tokens)
    session.save(tmp_path / "text")
    other.prefill(drawn(gpu, 40))
    other.restore(tmp_path / "text")
    assert other.tokens == tokens and np.array_equal(other.next(1), session.next(1))
    saved = (tmp_path / "text").read_bytes()
    for at in (0, 8, 40, 48, 56):  # magic, hash, past, reached, bytes
        broken = bytearray(saved)
        broken[at] ^= 1
        (tmp_path / "bad").write_bytes(broken)
        with pytest.raises(UsageError, match="was not saved by this model"):
            other.restore(tmp_path / "bad")
    for content in (saved[:-1], saved[:20], saved + b"\0", b""):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(UsageError, match="was not saved by this model"):
            other.restore(tmp_path / "bad")
    assert other.tokens == [*tokens, 1]


def test_answers_in_two_threads(pair: Pair) -> None:
    """Chat and continuation, alone and beside each other, are those of a processor."""
    cpu, gpu, _ = pair
    said = [{"role": "user", "content": "hello"}]
    want = [cpu.chat(said, max_tokens=8, temperature=0).text(), cpu.generate("ab", max_tokens=8, temperature=0).text()]
    got = ["", ""]

    def chat() -> None:
        got[0] = gpu.chat(said, max_tokens=8, temperature=0).text()

    def go_on() -> None:
        got[1] = gpu.generate("ab", max_tokens=8, temperature=0).text()

    threads = [threading.Thread(target=work) for work in (chat, go_on)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == want


@pytest.mark.parametrize("device", ["cuda_sm90", "host_pocl"])
def test_windows_know_what_they_hold_after_a_fork_and_a_file(device: str, tmp_path: Path) -> None:
    keys = {"block_count": 1, "context_length": 256, "embedding_length": 256, "feed_forward_length": 256}
    heads = {"head_count": 4, "head_count_kv": 2, "layer_norm_rms_epsilon": 1e-5, "sliding_window": 8}
    keys |= {f"attention.{name}": value for name, value in heads.items()}
    gemma = {"general.architecture": "gemma2", **{f"gemma2.{name}": value for name, value in keys.items()}}
    (tmp_path / "lm.gguf").write_bytes(llama("F32", 1, **gemma))
    edgec.build(tmp_path / "lm.gguf", tmp_path / "lm", context=120, **options_of(device))  # type: ignore[arg-type]
    with Network(tmp_path / "lm") as network:
        session = Session(network)
        session.prefill([int(t) for t in RANDOM.integers(0, 40, 110)])
        session.save(tmp_path / "text")
        restored = Session(network)
        restored.restore(tmp_path / "text")
        for text in (session, session.fork(), restored):
            with pytest.raises(UsageError, match="windows of the model keep no rows"):
                text.rewind(45)
            text.rewind(46)
        want = session.next(5)
        assert np.array_equal(restored.next(5), want)
    with pytest.raises(UsageError, match="the network is closed"):
        session.next(5)


def test_saved_texts_tell_in_which_precision_they_were_computed(tmp_path: Path) -> None:
    """The hash that a text begins with differs between builds of one model whose bits differ by design."""
    path = model_file(tmp_path, TEMPLATE)

    def saved_by(name: str, precision: str) -> str:
        options = {"device": "cuda_sm90", "precision": precision, "context": CONTEXT, "cache": "fp16", "name": "lm"}
        edgec.build(path, tmp_path / name, compile=False, **options)
        text = "".join(p.read_text() for p in sorted((tmp_path / name).glob("*.c*")))
        (found,) = re.findall(r"'K', 'V', '2'},\s*{([0-9, ]+)}", text)
        return str(found)

    assert saved_by("a", "fp32") == saved_by("b", "fp32")
    assert len({saved_by(p, p) for p in ("fp32", "tf32", "fp16")}) == 3
