"""The sampler in C against a plain reference in numpy, on drawn logits and options."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT

from edgec.artifact.sampler import Sampler
from edgec.artifact.sampling import Sampling
from edgec.errors import UsageError

LANGUAGE = Path(__file__).resolve().parents[2] / "codegen_templates" / "language"
WORD = (1 << 64) - 1
OFF = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "window": 0}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("sampler") / "sampler.so"
    command = ["gcc", *STRICT, "-ffp-contract=fast", "-march=native", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(out), str(LANGUAGE / "ec_sampler.c")], check=True)
    return ctypes.CDLL(str(out))


def mixed(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def uniform(seed: int, counter: int) -> float:
    return mixed((mixed(seed) + counter * 0x9E3779B97F4A7C15) & WORD) / 2**64


def reference(logits: np.ndarray, s: Sampling, recent: list[int], allowed: np.ndarray, counter: int) -> int:
    """The token, by probabilities in double precision; -1 where there is none."""
    x = logits.astype(np.float64)
    last = sorted(set(recent[-s.window :] if s.window else []))
    penalty = np.float32(s.repetition_penalty)
    x[last] = np.where(logits[last] > 0, logits[last] / penalty, logits[last] * penalty)
    x[~allowed | np.isnan(x)] = -np.inf
    order = [int(t) for t in np.lexsort((np.arange(len(x)), -x)) if x[t] > -np.inf]
    if not order:
        return -1
    if s.temperature == 0:
        return order[0]
    if s.top_k:
        order = order[: s.top_k]
    with np.errstate(invalid="ignore"):
        below = np.where(x == x[order[0]], 0.0, x - x[order[0]])
    p = np.exp(below / np.float64(np.float32(s.temperature)))
    if s.top_p < 1:
        sums = np.cumsum(p[order])
        order = order[: 1 + int((sums < np.float32(s.top_p) * sums[-1]).sum())]
    order = [t for t in order if p[t] >= np.float32(s.min_p)]
    if not s.top_k and s.top_p == 1:
        order.sort(reverse=True)  # without an order, from the last token
    sums = np.cumsum(p[order])
    return order[int((sums <= uniform(s.seed or 0, counter) * sums[-1]).sum())]


def drawn_logits(vocabulary: int) -> np.ndarray:
    """Of all scales; with ties, NaN and infinities in a part of the cases."""
    x = RANDOM.standard_normal(vocabulary) * RANDOM.choice([0.0, 0.3, 3.0, 1e4])
    if RANDOM.random() < 0.4:
        x = np.round(x)
    if RANDOM.random() < 0.4:
        x[RANDOM.random(vocabulary) < RANDOM.choice([0.2, 1.0])] = RANDOM.choice([np.nan, -np.inf, np.inf])
    return x.astype(np.float32)


def drawn_sampling() -> Sampling:
    def either(off: float, low: float, high: float) -> float:
        return off if RANDOM.random() < 0.5 else float(np.float32(RANDOM.uniform(low, high)))

    return Sampling(
        either(0, 0.05, 3), int(either(0, 1, 30)), either(1, 0.01, 1), either(0, 0, 1), either(1, 0.5, 2),
        int(RANDOM.integers(0, 9)), int(RANDOM.integers(0, 1 << 63)),
    )  # fmt: skip


def test_equals_the_reference(library: ctypes.CDLL) -> None:
    found = set()
    for _ in range(1500):
        vocabulary = int(RANDOM.choice([1, 2, 3, 31, 32, 33, 200]))
        s, recent = drawn_sampling(), []
        allowed = RANDOM.random(vocabulary) < RANDOM.choice([0.5, 1.0, 1.0])

        def mask(array: np.ndarray, allowed: np.ndarray = allowed) -> None:
            array[...] &= allowed

        sampler = Sampler(library, vocabulary, s, None if allowed.all() else mask)
        counter = 0
        for _ in range(4):
            logits = drawn_logits(vocabulary)
            counter += s.temperature > 0
            want = reference(logits, s, recent, allowed, counter)
            if want < 0:
                with pytest.raises(UsageError, match="no token"):
                    sampler.sample(logits)
                break
            assert sampler.sample(logits) == want, (s, logits, recent)
            sampler.accept([want])
            recent.append(want)
            found.add(want)
    assert len(found) > 100


@pytest.mark.parametrize("more", [{}, {"top_p": 0.7}, {"top_k": 3}, {"min_p": 0.2}, {"temperature": 0.5}])
def test_frequencies_are_the_probabilities(library: ctypes.CDLL, more: dict[str, float]) -> None:
    logits = np.log(np.array([0.05, 0.4, 0.25, 0.2, 0.1], np.float32))
    sampler = Sampler(library, 5, Sampling(**{**OFF, **more, "seed": 3}))  # type: ignore[arg-type]
    counts = np.bincount([sampler.sample(logits) for _ in range(20000)], minlength=5) / 20000
    p = np.exp(logits / more.get("temperature", 1.0))
    kept = {"top_p": [1, 2, 3], "top_k": [1, 2, 3], "min_p": [1, 2, 3, 4]}
    for name in more.keys() & kept.keys():
        p[[t for t in range(5) if t not in kept[name]]] = 0
    np.testing.assert_allclose(counts, p / p.sum(), atol=0.015)


def test_known_tokens(library: ctypes.CDLL) -> None:
    """The same on every machine and in every version: texts of a seed are not to change."""
    sampler = Sampler(library, 1000, Sampling(1.0, 0, 1.0, 0.0, seed=7))
    logits = (np.arange(1000, dtype=np.float32) * 37 % 101) / 16
    assert [sampler.sample(logits) for _ in range(8)] == [477, 698, 60, 120, 335, 655, 603, 393]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0"),
        ({"seed": -1}, "'seed' cannot be -1"),
    ],
)
def test_refused(library: ctypes.CDLL, more: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sampler(library, 4, Sampling(**more))  # type: ignore[arg-type]


def test_a_mask_that_fails(library: ctypes.CDLL) -> None:
    def mask(allowed: np.ndarray) -> None:
        raise KeyError("grammar")

    sampler = Sampler(library, 4, Sampling(), mask)
    with pytest.raises(KeyError, match="grammar"):
        sampler.sample(np.zeros(4, np.float32))
    with pytest.raises(UsageError, match="expected float32"):
        sampler.sample(np.zeros(5, np.float32))


MAIN = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ec_sampler.h"
static void odd(void *context, uint32_t *allowed, int32_t vocabulary) {
  (void)context;
  for (int32_t k = 0; k < (vocabulary + 31) / 32; ++k) allowed[k] &= 0xaaaaaaaau;
}
int main(void) {
  for (int i = 0; i < 400; ++i) {
    const int32_t vocabulary = 1 + rand() % 70, recent = rand() % 3;
    void *scratch = malloc(EC_SAMPLE_BYTES(vocabulary));
    float *logits = malloc(4 * (size_t)vocabulary);
    for (int32_t k = 0; k < vocabulary; ++k) logits[k] = rand() % 9 ? (float)(rand() % 9) : rand() % 2 ? NAN : INFINITY;
    ec_sampler s = {.vocabulary = vocabulary, .temperature = (float)(rand() % 3), .top_k = rand() % 2 * rand() % 90,
      .top_p = (float)(rand() % 2) * 0.5f, .window = recent, .recent = malloc(4 * (size_t)recent + 1),
      .repetition_penalty = 1.5f, .mask = i % 2 ? odd : 0};
    for (int k = 0; k < 5; ++k) {
      const int32_t token = ec_sample(&s, logits, scratch);
      if (token < -1 || token >= vocabulary || (i % 2 && token >= 0 && token % 2 == 0)) return 1;
      ec_accept(&s, token);
    }
    free(scratch), free(logits), free(s.recent);
  }
  return 0;
}
"""


def test_stays_inside_its_buffers(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    flags = [*STRICT, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{LANGUAGE}"]
    subprocess.run(["gcc", *flags, "main.c", str(LANGUAGE / "ec_sampler.c"), "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "main")], cwd=tmp_path, check=True)
