"""Sessions: texts that go on, back and apart give what one run over all their tokens gives."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT
from gguf_files import llama

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import UsageError

CONTEXT, CHUNK = 80, 64
MAIN = r"""
#include <stdio.h>
#include "lm_session.h"
static _Alignas(LM_ALIGNMENT) unsigned char arena[LM_ARENA_BYTES], cache[2][LM_CACHE_BYTES];
static float logits[LM_VOCABULARY];
int main(void) {
  lm_session a = {lm_weights, arena, 0, cache[0], 0}, b = {lm_weights, arena, 0, cache[1], 0};
  int32_t tokens[LM_CONTEXT + 1] = {0};
  for (int i = 0; i < LM_CONTEXT; ++i) tokens[i] = (7 * i + 3) % LM_VOCABULARY;
  int status = lm_prefill(&a, tokens, 70, logits);
  status += lm_fork(&b, &a);
  for (int i = 70; i < LM_CONTEXT; ++i) status += lm_next(&b, tokens[i], logits);
  printf("%d %d %d %d", status, lm_next(&b, 0, logits), lm_next(&a, LM_VOCABULARY, logits), lm_next(&a, -1, logits));
  for (int i = 0; i < LM_VOCABULARY; ++i) printf(" %.9g", logits[i]);
  return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("lm")
    (where / "lm.gguf").write_bytes(llama("Q4_1"))
    edgec.build(where / "lm.gguf", where / "out", context=CONTEXT, threads=2, name="lm")
    return where / "out"


@pytest.fixture
def network(folder: Path) -> Iterator[Network]:
    with Network(folder, threads=2) as opened:
        yield opened


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max()


def test_parts_are_the_whole(network: Network) -> None:
    """More tokens than one run takes, and single ones."""
    tokens = RANDOM.integers(0, 40, CONTEXT).tolist()
    want = {end: Session(network).prefill(tokens[:end]) for end in (3, 64, 65, 79, CONTEXT)}
    session = Session(network)
    same(session.prefill(tokens[:3]), want[3])
    same(session.prefill(tokens[3:65]), want[65])
    session.rewind(60)
    for end in range(61, CONTEXT + 1):
        logits = session.next(tokens[end - 1])
        if end in want:
            same(logits, want[end])
    assert session.past == CONTEXT


def test_forks_are_independent(network: Network) -> None:
    first = Session(network)
    first.prefill([1, 2, 3, 4])
    second = first.fork()
    a, b = first.next(5), second.next(6)
    assert not np.array_equal(a, b)
    second.rewind(4)
    assert np.array_equal(second.next(5), a) and first.past == 5


def test_two_threads(network: Network) -> None:
    texts = [RANDOM.integers(0, 40, 20).tolist() for _ in range(2)]
    found: list[list[np.ndarray]] = [[], []]

    def write(k: int) -> None:
        session = Session(network)
        found[k] = [session.next(token) for token in texts[k]]

    for k in (0, 1):
        write(k)
    alone = [list(logits) for logits in found]
    threads = [threading.Thread(target=write, args=(k,)) for k in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in (0, 1):
        assert all(np.array_equal(got, want) for got, want in zip(found[k], alone[k]))


def test_one_text_in_two_threads(network: Network) -> None:
    """Every token is in the text once, in some order, and the logits are those of that order."""
    session, errors = Session(network), list[BaseException]()

    def write(token: int) -> None:
        try:
            for _ in range(30):
                session.next(token)
        except BaseException as error:  # shown by the thread of the test
            errors.append(error)

    for _ in range(3):
        session.rewind(0)
        threads = [threading.Thread(target=write, args=(token,)) for token in (1, 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors and sorted(session.tokens) == [1] * 30 + [2] * 30
        same(session.next(3), Session(network).prefill([*session.tokens[:-1], 3]))


def test_a_closed_network_refuses(folder: Path, tmp_path: Path) -> None:
    """Its threads are gone: what goes on would wait for them for ever."""
    network = Network(folder, threads=2)
    session = Session(network)
    session.prefill([1, 2, 3])
    session.save(tmp_path / "text")
    network.close()
    calls = [
        lambda: session.next(4), session.fork, lambda: session.save(tmp_path / "other"), lambda: session.rewind(1),
        lambda: session.restore(tmp_path / "text"), lambda: session.extend([1, 2]), lambda: network.run({}),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(UsageError, match="the network is closed"):
            call()
    network.close()


def test_a_text_that_cannot_be_extended_stays(folder: Path, network: Network) -> None:
    """A token outside the vocabulary, in C."""
    session = Session(network)
    session.prefill([1, 2, 3])
    tokens, logits = np.array([1, 2, 40], np.int32), np.empty(40, np.float32)
    held = session._held.copy()
    for out, status in ((logits.ctypes.data, 16), (None, 1)):
        given = (ctypes.c_void_p(held.ctypes.data), ctypes.c_void_p(tokens.ctypes.data), ctypes.c_int64(3))
        assert session._call("extend", *given, ctypes.c_void_p(out)) == status
        assert session.tokens == [1, 2, 3]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([], "no token"), ([40], "token 40 is outside"), ([-1], "outside"), ([0] * (CONTEXT - 1), "do not fit")],
)
def test_refused(network: Network, tokens: list[int], message: str) -> None:
    session = Session(network)
    session.prefill([1, 2])
    with pytest.raises(UsageError, match=message):
        session.prefill(tokens)
    assert session.past == 2
    with pytest.raises(UsageError, match="to stay"):
        session.rewind(3)


def test_in_c(folder: Path, network: Network, tmp_path: Path) -> None:
    """Strictly compiled, under the sanitizers; the last call that succeeds leaves the logits of all tokens."""
    (tmp_path / "main.c").write_text(MAIN)
    sources = [*folder.glob("lm*.c"), folder / "lm_weights.S", folder / "ec_pool.c", tmp_path / "main.c"]
    flags = [*STRICT, "-march=native", "-fsanitize=address,undefined", "-fno-sanitize=null,object-size"]
    command = ["gcc", *flags, f"-I{folder}", *map(str, sources), "-o", str(tmp_path / "main"), "-lm", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:3000]
    ran = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
    status, full, bad, negative, *logits = ran.stdout.split()
    assert (status, full, bad, negative) == ("0", "17", "16", "16")
    want = Session(network).prefill([(7 * i + 3) % 40 for i in range(CONTEXT)])
    same(np.array([*map(float, logits)]), want)


def test_other_networks_have_no_session(tmp_path: Path) -> None:
    from small_models import model, node, tensor_input

    made = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4])], ["y"])
    edgec.build(made, tmp_path / "out")
    with Network(tmp_path / "out") as network, pytest.raises(UsageError, match="no language model"):
        Session(network)
