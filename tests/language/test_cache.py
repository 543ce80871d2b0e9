"""Caches: every way to divide a text gives the same logits, whatever rows are stored as, also after a ring is full."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT, Compiled, compile_graphs, program_of
from gguf_files import llama
from test_decoder import CASES, CHUNK, CONFIGS, CONTEXT, reference

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import UsageError
from edgec.execute.executor import run_graph
from edgec.frontend.language import cache
from edgec.frontend.language.cache import KINDS, Cache, Kind, Rows
from edgec.frontend.language.decoder import decoder
from edgec.frontend.values import Value, constant
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES

Arrays = dict[str, np.ndarray]
NAMES = ("plain", "windows", "bounded")
#: How far logits may be from the definition in fp64, and from each other in other parts: rounding to the stored type
#: may go the other way where sums were added in another order.
EXACT = {"fp32": 1e-4, "fp16": 4e-3, "int8": 1e-1}
EQUAL = {"fp32": 1e-5, "fp16": 1e-3, "int8": 2e-2}
PARTS = ([5, 5, 5, 5, 4], [1] * 24, [4, 1, 1, 5, 3, 5, 5], [2, 5, 5, 1, 5, 5, 1])


def graph_of(name: str, kind: Kind) -> Graph:
    weights = CASES[name]
    return decoder(
        CONFIGS[name], lambda key: constant(weights[key]) if key in weights else None, CONTEXT, CHUNK, cache=kind
    )


GRAPHS = {(name, kind): graph_of(name, kind) for name in NAMES for kind in KINDS}


def poisoned(graph: Graph) -> Arrays:
    """States with what memory may hold that nobody has written to."""
    return {
        n.attributes["name"]: np.full(n.type.bytes, 0xFF, np.uint8).view(DTYPES[n.type.dtype]).reshape(n.type.shape)
        for n in graph.inputs[2:]
    }


class Text:
    """A text that a graph reads part by part; its states may be copied and its past set back."""

    def __init__(self, graph: Graph, run: Callable[[Arrays], Arrays], tokens: list[int]) -> None:
        self.run, self.tokens, self.past, self.states = run, tokens, 0, poisoned(graph)

    def read(self, count: int) -> np.ndarray:
        part = np.array(self.tokens[self.past : self.past + count], np.int32)
        found = self.run({"tokens": part, "past": np.array(self.past), **self.states})
        self.states = {name: found[f"{name}_new"].copy() for name in self.states}
        self.past += count
        return found["logits"]

    def at_ends(self, parts: list[int]) -> dict[int, np.ndarray]:
        """The logits at the end of each part."""
        found = {}
        for count in parts:
            logits = self.read(count)
            found[self.past] = logits
        return found


def error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


def drawn() -> list[int]:
    return [int(t) for t in RANDOM.integers(0, 31, CONTEXT)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Compiled]:
    made = compile_graphs({f"{n}_{k}": g for (n, k), g in GRAPHS.items()}, tmp_path_factory.mktemp("cache"), threads=2)
    assert all(isinstance(network, Compiled) for network in made.values()), made
    return {key: made["_".join(key)] for key in GRAPHS}  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_any_parts_forks_and_ways_back(name: str, kind: str, compiled: dict[tuple[str, str], Compiled]) -> None:
    """To the end of the context: in parts, token by token, after a fork, after going back; two threads give the bits
    of one."""
    graph, network, tokens = GRAPHS[name, kind], compiled[name, kind], drawn()  # type: ignore[index]
    want = reference(CONFIGS[name], CASES[name], tokens)
    single: dict[int, np.ndarray] = {}
    for parts in PARTS[::-1]:
        ends = Text(graph, lambda fed: network(fed, None, True), tokens).at_ends(parts)
        threads = Text(graph, lambda fed: network(fed, 2, True), tokens).at_ends(parts)
        single = ends if len(ends) == CONTEXT else single
        for end, logits in ends.items():
            assert error(logits, want[end - 1]) <= EXACT[kind], (parts, end)
            assert np.array_equal(threads[end], logits), (parts, end)
    text = Text(graph, lambda fed: network(fed, None, True), tokens)
    text.at_ends([5, 5, 5, 5])
    fork = Text(graph, text.run, tokens)
    fork.past, fork.states = text.past, {name: s.copy() for name, s in text.states.items()}
    text.past -= CHUNK
    for found, parts in ((text, [3, 1, 5]), (fork, [1, 3])):
        for end, logits in found.at_ends(parts).items():
            assert error(logits, single[end]) <= EQUAL[kind], (parts, end)


def _one_too_few(self: Rows) -> int:
    return self.window + self.at.chunk - 2 if self.is_ring else self.at.capacity


def _one_late(self: Rows) -> Value:
    return POSITIONS(self) + 1 if self.is_ring else POSITIONS(self)


def _without_scales(self: Cache, name: str, new: Value, axis: int, rows: Rows) -> Value:
    """The state of a scale as it was before the run: with those of the tokens before."""
    found = STATE(self, name, new, axis, rows)
    return Value(self.states[-1][0]).part(axis, 0, rows.seen) if name.endswith("_scale") else found


POSITIONS, STATE = Rows.positions, Cache._state
MISTAKES: dict[str, tuple[str, Kind, type, str, object]] = {
    "a ring of one row too few": ("windows", "fp32", Rows, "capacity", property(_one_too_few)),
    "positions in the ring one off": ("windows", "fp32", Rows, "positions", _one_late),
    "a stale scale": ("plain", "int8", Cache, "_state", _without_scales),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, kind, owner, attribute, wrong = MISTAKES[mistake]
    tokens = drawn()
    want = reference(CONFIGS[name], CASES[name], tokens)

    def worst(graph: Graph) -> float:
        text = Text(graph, lambda fed: run_graph(graph, fed), tokens)
        text.states = {name: np.zeros_like(state) for name, state in text.states.items()}
        return float(np.max([error(logits, want[end - 1]) for end, logits in text.at_ends(PARTS[0]).items()]))

    assert worst(GRAPHS[name, kind]) <= EXACT[kind]
    monkeypatch.setattr(owner, attribute, wrong)
    assert not worst(graph_of(name, kind)) <= EXACT[kind]  # it may be NaN


def test_bytes() -> None:
    """Of keys and values: what the type takes, a scale for each head and position, rings for windows."""
    for (name, kind), graph in GRAPHS.items():
        c, size = CONFIGS[name], {"fp32": 4 * 8, "fp16": 2 * 8, "int8": 8 + 4}[kind]
        rows = [layer.window + CHUNK - 1 if layer.window else CONTEXT + CHUNK - 1 for layer in c.layers]
        found = sum(n.type.bytes for n in graph.inputs[2:] if n.attributes["name"] != cache.REACHED)
        assert found == 2 * c.kv_heads * size * sum(rows)
        program = program_of(graph)
        assert {"keys_0", "values_0"} <= {b.name for b in program.states.values()}


# ---- sessions of a model with windows

WINDOW, LONG, MOST = 8, 150, 64
MAIN = r"""
#include <stdio.h>
#include "lm_session.h"
static _Alignas(LM_ALIGNMENT) unsigned char arena[LM_ARENA_BYTES], cache[2][LM_CACHE_BYTES];
static float logits[LM_VOCABULARY];
int main(void) {
  lm_session a = {lm_weights, arena, 0, cache[0], 0}, b = {lm_weights, arena, 0, cache[1], 0};
  int32_t tokens[LM_CONTEXT] = {0};
  for (int i = 0; i < LM_CONTEXT; ++i) tokens[i] = (7 * i + 3) % LM_VOCABULARY;
  int status = lm_prefill(&a, tokens, 150, logits);
  a.past = 150 - 65;
  const int lost = lm_next(&a, 1, logits), still = (int)a.past;
  a.past = 150 - 64;
  status += lm_fork(&b, &a) + lm_prefill(&b, tokens + b.past, 150 - b.past, logits);
  printf("%d %d %d", status, lost, still);
  for (int i = 0; i < LM_VOCABULARY; ++i) printf(" %.9g", logits[i]);
  return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model in the form of Gemma 2: every other layer sees a window."""
    where = tmp_path_factory.mktemp("ring")
    shared = {"block_count": 2, "context_length": 256, "embedding_length": 256, "feed_forward_length": 256}
    attention = {"head_count": 4, "head_count_kv": 2, "layer_norm_rms_epsilon": 1e-5, "sliding_window": WINDOW}
    keys = {**shared, **{f"attention.{name}": value for name, value in attention.items()}}
    gemma = {"general.architecture": "gemma2", **{f"gemma2.{name}": value for name, value in keys.items()}}
    (where / "lm.gguf").write_bytes(llama("Q4_1", **gemma))
    edgec.build(where / "lm.gguf", where / "out", context=200, threads=2, name="lm")
    return where / "out"


@pytest.fixture
def network(folder: Path) -> Iterator[Network]:
    with Network(folder, threads=2) as opened:
        yield opened


def test_a_session_beyond_the_ring(network: Network, tmp_path: Path) -> None:
    tokens = [int(t) for t in RANDOM.integers(0, 40, LONG)]
    want = {end: Session(network).prefill(tokens[:end]) for end in (90, 100, LONG)}
    single = Session(network)
    found = {end: single.next(token) for end, token in enumerate(tokens, 1)}
    for end, logits in want.items():
        assert error(found[end], logits) <= 5e-5
    fork = single.fork()
    fork.rewind(LONG - MOST)
    fork.save(tmp_path / "text")
    restored = Session(network)
    restored.restore(tmp_path / "text")
    for session in (fork, restored):
        assert error(session.prefill(tokens[LONG - MOST : 100]), want[100]) <= 5e-5
        assert error(session.prefill(tokens[100:]), want[LONG]) <= 5e-5
    single.rewind(LONG - MOST - 1)
    with pytest.raises(UsageError, match="keep no rows from which 85 tokens could go on"):
        single.next(1)
    assert single.past == LONG - MOST - 1
    single.rewind()
    single.prefill(tokens[:70])
    single.rewind(3)  # the ring was not full yet: all rows are there
    assert error(single.prefill(tokens[3:90]), want[90]) <= 5e-5


def test_a_saved_text_tells_what_its_rings_hold(network: Network, tmp_path: Path) -> None:
    """The reach of the rows of windows is checked as the tokens are."""
    session = Session(network)
    session.prefill([int(t) for t in RANDOM.integers(0, 40, LONG)])
    session.rewind(LONG - MOST)
    session.save(tmp_path / "text")
    saved = (tmp_path / "text").read_bytes()
    assert saved.count(LONG.to_bytes(8, "little")) == 1
    for reached in (LONG - MOST - 1, 201, -1, -(2**63), 2**63 - 1):
        lie = saved.replace(LONG.to_bytes(8, "little"), reached.to_bytes(8, "little", signed=True))
        (tmp_path / "lie").write_bytes(lie)
        with pytest.raises(UsageError, match="not saved by this model"):
            session.restore(tmp_path / "lie")
        assert session.past == LONG - MOST


def test_extending_beyond_the_ring(network: Network) -> None:
    """Where the rows behind a common beginning are lost, all of the text is computed again."""
    tokens = [int(t) for t in RANDOM.integers(0, 40, LONG)]
    for common in (LONG - 1, LONG - MOST, LONG - MOST - 1, 5, 0):
        session, text = Session(network), [*tokens[:common], (tokens[common] + 1) % 40, 7]
        session.prefill(tokens)
        assert error(session.extend(text), Session(network).prefill(text)) <= 1e-4
        assert session.tokens == text


def test_the_ring_in_c(folder: Path, network: Network, tmp_path: Path) -> None:
    """Strictly compiled, under the sanitizers: a status where rows are lost, and nothing changed by it."""
    (tmp_path / "main.c").write_text(MAIN)
    sources = [*folder.glob("lm*.c"), *folder.glob("ec_*.c"), folder / "lm_weights.S", tmp_path / "main.c"]
    flags = [*STRICT, "-march=native", "-fsanitize=address,undefined", "-fno-sanitize=null,object-size"]
    command = ["gcc", *flags, f"-I{folder}", *map(str, sources), "-o", str(tmp_path / "main"), "-lm", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:3000]
    ran = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
    status, lost, still, *logits = ran.stdout.split()
    assert (status, lost, still) == ("0", "18", str(LONG - MOST - 1))
    want = Session(network).prefill([(7 * i + 3) % 40 for i in range(LONG)])
    assert error(np.array([*map(float, logits)]), want) <= 5e-5


def test_check_says_what_the_cache_adds(tmp_path: Path) -> None:
    """Bytes beside fp32, and an error that is small and not nothing."""
    (tmp_path / "lm.gguf").write_bytes(llama("Q4_1"))
    found = edgec.check(tmp_path / "lm.gguf", samples=1, context=48, cache="int8")
    assert found.ok and found.cache is not None
    assert (found.cache.kind, found.cache.tokens) == ("int8", 48)
    assert found.cache.bytes < found.cache.fp32_bytes / 3
    assert 0 < found.cache.max_rel < 0.1 and 0 < found.cache.divergence < 0.1 and found.cache.agrees > 0.9


def test_refused(tmp_path: Path) -> None:
    (tmp_path / "lm.gguf").write_bytes(llama())
    with pytest.raises(UsageError, match="there is no cache 'fp8'"):
        edgec.build(tmp_path / "lm.gguf", tmp_path / "out", cache="fp8")
    assert not (tmp_path / "out").exists()
