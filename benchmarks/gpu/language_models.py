"""Decoding on a GPU: milliseconds a token of language models with random weights, in fp16 and in 4 bits.

    python -m benchmarks.gpu.language_sources FOLDER      # where edgec is installed
    python -m benchmarks.gpu.language_models FOLDER       # where there is a GPU: needs nvcc and numpy alone
    compute-sanitizer python -m benchmarks.gpu.language_models FOLDER --sessions --only tiny-cache-int8

Every model, with each kind of cache, is compiled and opened, then reads random tokens up to a position. There, logits
are compared with an evaluation of the same weights in numpy, in fp32, and one token is decoded many times: by the GPU's
clock, and as a program sees it, with the token and the logits copied. ``weights`` are the milliseconds that reading the
weights of a token takes at the speed of a large copy on the same GPU.

With ``--sessions`` nothing is timed: a text is read, forked, saved, restored, taken back and extended, and the logits
of all ways are compared.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import numpy as np

from benchmarks.gpu.language_weights import MODELS, THREADS, Model, Weights, reference

POSITIONS = (128, 512, 2047)
#: Runs of a token for each figure, by the GPU's clock.
RUNS = 200
FLAGS = ("-std=c++17", "-O3", "--fmad=true", "-arch=sm_90", "-Xcompiler", "-fPIC", "-Xptxas", "-v")


def compiled(folder: Path, pool: ThreadPoolExecutor) -> tuple[Path, str]:
    """The shared library of a project, and what ptxas says of spills; one that is there is taken."""
    if (folder / "liblm.so").is_file():
        return folder / "liblm.so", "compiled before"
    sources = sorted(folder.glob("*.cu"))

    def compile_one(source: Path) -> str:
        command = ["nvcc", *FLAGS, "-c", str(source), "-o", f"{source}.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{source}: {done.stderr[-3000:]}")
        return done.stderr

    said = "".join(pool.map(compile_one, sources))
    library = folder / "liblm.so"
    subprocess.run(["nvcc", "-shared", "-arch=sm_90", *(f"{s}.o" for s in sources), "-o", str(library)], check=True)
    spilled = sum("bytes spill stores" in line and " 0 bytes spill stores" not in line for line in said.splitlines())
    return library, f"{said.count('Compiling entry function')} kernels, {spilled} of them spill"


class Network:
    """A project, opened."""

    def __init__(self, library: Path, blob: np.ndarray) -> None:
        self.calls = ctypes.CDLL(str(library))
        self.calls.lm_time.restype = ctypes.c_float
        self.session = ctypes.c_void_p()
        self.done(self.calls.lm_open(ctypes.byref(self.session), ctypes.c_void_p(blob.ctypes.data)))

    def done(self, status: int) -> None:
        if status:
            self.calls.lm_last_error.restype = ctypes.c_char_p
            raise SystemExit(f"status {status}: {self.calls.lm_last_error().decode()}")

    def prefill(self, tokens: np.ndarray, logits: np.ndarray) -> None:
        given, out = (ctypes.c_void_p(a.ctypes.data) for a in (tokens, logits))
        self.done(self.calls.lm_prefill(self.session, given, ctypes.c_int64(len(tokens)), out))

    def rewind(self, past: int) -> None:
        self.done(self.calls.lm_rewind(self.session, ctypes.c_int64(past)))

    def milliseconds(self, runs: int) -> float:
        """Of the GPU, for a run like the last one."""
        return float(self.calls.lm_time(self.session, runs))

    def of_launches(self, count: int) -> np.ndarray:
        """Milliseconds of every launch by itself."""
        found = np.zeros(4096, np.float32)
        self.done(self.calls.lm_profile(self.session, ctypes.c_void_p(found.ctypes.data)))
        return found[:count]

    def beside(self) -> Network:
        """Another text that shares the weights."""
        other = Network.__new__(Network)
        other.calls, other.session = self.calls, ctypes.c_void_p()
        self.done(self.calls.lm_open_beside(ctypes.byref(other.session), self.session))
        return other

    def fork(self) -> Network:
        """A copy of the text."""
        other = self.beside()
        self.done(self.calls.lm_fork(other.session, self.session))
        return other

    def saved(self, past: int) -> np.ndarray:
        """The text as bytes."""
        self.calls.lm_saved_bytes.restype = ctypes.c_size_t
        found = np.empty(self.calls.lm_saved_bytes(ctypes.c_int64(past)), np.uint8)
        self.done(
            self.calls.lm_save(self.session, None, ctypes.c_void_p(found.ctypes.data), ctypes.c_size_t(found.size))
        )
        return found

    def restore(self, saved: np.ndarray) -> None:
        """Go on from such bytes."""
        given = ctypes.c_void_p(saved.ctypes.data)
        self.done(self.calls.lm_restore(self.session, None, given, ctypes.c_size_t(saved.size)))

    def close(self) -> None:
        self.calls.lm_close(self.session)


def copy_speed(folder: Path) -> float:
    """Bytes a second that a large copy reads and writes."""
    library = folder / "libcopy.so"
    source = Path(__file__).with_name("cuda_copy.cu")
    subprocess.run(["nvcc", *FLAGS[:5], "-shared", str(source), "-o", str(library)], check=True)
    speed = ctypes.CDLL(str(library)).copy_speed
    speed.restype = ctypes.c_double
    return float(speed())


@dataclass(frozen=True)
class Wanted:
    """Weights and a text, which models share that differ in their caches, and logits at the positions."""

    weights: Weights
    tokens: np.ndarray
    logits: list[np.ndarray]

    @staticmethod
    def of(model: Model) -> Wanted:
        """Drawn anew, and evaluated in numpy."""
        weights = Weights(model, int(time.time()))
        tokens = np.random.default_rng().integers(0, model.vocabulary, max(POSITIONS) + 1).astype(np.int32)
        return Wanted(weights, tokens, reference(model, weights, tokens, [p + 1 for p in POSITIONS]))


def measured(model: Model, wanted: Wanted, folder: Path, library: Path, speed: float) -> list[str]:
    """Rows of the table."""
    tokens, name = wanted.tokens, model.name.replace("-cache-", " | ")
    network, past, rows = Network(library, wanted.weights.blob(folder)), 0, []
    logits = np.empty(model.vocabulary, np.float32)
    bound = 1e3 * model.token_bytes / speed
    for position, expected in zip(POSITIONS, wanted.logits):
        network.prefill(tokens[past:position], logits)
        chunk = network.milliseconds(max(1, RUNS // 40))
        network.prefill(tokens[position : position + 1], logits)
        error = float(np.abs(logits - expected).max() / np.abs(expected).max())
        same = "same token" if logits.argmax() == expected.argmax() else "other token"
        once = network.milliseconds(RUNS)
        began = time.perf_counter()
        for _ in range(RUNS):
            network.rewind(position)
            network.prefill(tokens[position : position + 1], logits)
        seen = (time.perf_counter() - began) * 1e3 / RUNS
        past = position + 1
        times = f"{once:.3f} | {seen:.3f} | {bound:.3f} | {bound / once:.0%} | {chunk:.2f}"
        rows.append(f"| {name} | {position} | {times} | {error:.1e}, {same} |")
    print(f"{model.name}: us of a layer's launches alone: {_layer(model, network, folder)}", flush=True)
    network.close()
    return rows


def _layer(model: Model, network: Network, folder: Path) -> str:
    """Launches of a layer in the middle, and the head, each timed by itself."""
    kinds = json.loads((folder / "weights.json").read_text())["launches"]
    each = network.of_launches(len(kinds))
    attentions = [k for k, kind in enumerate(kinds) if kind == "few_queries"]
    length = attentions[1] - attentions[0]
    first = attentions[model.layers // 2] - (length - 4)
    parts = ", ".join(f"{kinds[k]} {each[k] * 1e3:.2f}" for k in range(first, first + length))
    return f"{parts}; head {each[-1] * 1e3:.2f}; all {each[kinds.index('together') - 1 :].sum():.4f} ms"


def sessions(model: Model, folder: Path, library: Path) -> bool:
    """Does the next token of a text get the same bits of logits after a fork, a file, and a way back and again?"""
    network = Network(library, Weights(model, int(time.time())).blob(folder))
    tokens, other = np.random.default_rng().integers(0, model.vocabulary, (2, 81)).astype(np.int32)
    logits = [np.empty(model.vocabulary, np.float32) for _ in range(6)]
    network.prefill(tokens[:79], logits[0])
    network.prefill(tokens[79:80], logits[0])
    saved = network.saved(80)
    texts = [network, network.fork(), network.beside()]
    texts[2].prefill(other, logits[0])  # of which nothing is left after the file is read
    texts[2].restore(saved)
    for text, found in zip(texts, logits):
        text.prefill(tokens[80:], found)
    texts[1].rewind(80)
    texts[1].prefill(other[80:], logits[3])
    texts[1].rewind(80)
    texts[1].prefill(tokens[80:], logits[3])
    network.rewind(40)
    network.prefill(tokens[40:], logits[4])
    network.rewind(0)
    network.prefill(tokens, logits[5])
    same = all(np.array_equal(logits[0], found) for found in logits[1:4])
    apart = max(float(np.abs(found - logits[0]).max() / np.abs(logits[0]).max()) for found in logits[4:])
    told = "equal bits" if same else "OTHER BITS"
    print(f"{model.name}: {told} after a fork, a file and a way back; {apart:.1e} from a text read again", flush=True)
    for text in reversed(texts):
        text.close()
    return same and apart <= (0.05 if model.cache == "int8" else 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sessions", action="store_true", help="compare the logits of forks and files; time nothing")
    parser.add_argument("--only", action="append", default=[], choices=MODELS, help="these models alone")
    o = parser.parse_args()
    began = time.perf_counter()
    given = o.only or [name for name in MODELS if o.sessions or not name.startswith("tiny")]
    found = [MODELS[name] for name in given if (o.folder / name / "weights.json").is_file()]
    if not found:
        sys.exit(f"no model in {o.folder}: python -m benchmarks.gpu.language_sources {o.folder}")
    with ThreadPoolExecutor(THREADS) as inner, ThreadPoolExecutor(len(found)) as outer:
        libraries = list(outer.map(lambda m: compiled(o.folder / m.name, inner), found))
    for model, (_, said) in zip(found, libraries):
        print(f"{model.name}: {said}")
    paths = {model: (o.folder / model.name, library) for model, (library, _) in zip(found, libraries)}
    if o.sessions:
        sys.exit(not all(list(starmap(sessions, ((m, *places) for m, places in paths.items())))))
    speed = copy_speed(o.folder)
    print(f"a copy moves {speed / 1e12:.2f} TB/s; compiled after {time.perf_counter() - began:.0f} s", flush=True)
    lines, shape, wanted = [], "", None
    for model, places in paths.items():
        if wanted is None or model.name.partition("-cache-")[0] != shape:
            shape, wanted = model.name.partition("-cache-")[0], Wanted.of(model)
        lines += measured(model, wanted, *places, speed)
    print("| model | cache | position | ms a token | with copies | weights | of it | ms a chunk of 64 | logits |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
