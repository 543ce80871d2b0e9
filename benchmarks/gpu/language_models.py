"""Decoding on a GPU: milliseconds a token of language models in fp16 and in 4 bits, with random weights.

    python -m benchmarks.gpu.language_sources FOLDER      # where edgec is installed
    python -m benchmarks.gpu.language_models FOLDER       # where there is a GPU: needs nvcc and numpy alone

Every model is compiled and opened, then reads random tokens up to a position. There, logits are compared with an
evaluation of the same weights in numpy, in fp32, and one token is decoded many times: by the GPU's clock, and as a
program sees it, with the token and the logits copied. ``weights`` are the milliseconds that reading the weights of a
token takes at the speed of a large copy on the same GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

POSITIONS = (128, 512)
#: Runs of a token for each figure, by the GPU's clock; and threads of the host.
RUNS, THREADS = 200, 16
FLAGS = ("-std=c++17", "-O3", "--fmad=true", "-arch=sm_90", "-Xcompiler", "-fPIC", "-Xptxas", "-v")


@dataclass(frozen=True)
class Model:
    """The shape of a decoder of the Llama family with tied embeddings; ``bits`` of a weight."""

    name: str
    vocabulary: int
    width: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    layers: int
    bits: int
    context: int = 1024
    base: float = 1e4
    epsilon: float = 1e-5

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight, [outputs, inputs] for a matrix."""
        found: dict[str, tuple[int, ...]] = {"token_embd.weight": (self.vocabulary, self.width)}
        keys = self.kv_heads * self.head
        for k in range(self.layers):
            own: dict[str, tuple[int, ...]] = {
                "attn_norm": (self.width,), "attn_q": (self.heads * self.head, self.width),
                "attn_k": (keys, self.width), "attn_v": (keys, self.width),
                "attn_output": (self.width, self.heads * self.head), "ffn_norm": (self.width,),
                "ffn_gate": (self.hidden, self.width), "ffn_up": (self.hidden, self.width),
                "ffn_down": (self.width, self.hidden),
            }  # fmt: skip
            found |= {f"blk.{k}.{name}.weight": shape for name, shape in own.items()}
        return found | {"output_norm.weight": (self.width,)}

    @property
    def token_bytes(self) -> float:
        """Bytes of weights that a token reads; of 4 bits, a scale and an offset for every 32."""
        return sum(float(np.prod(s)) for s in self.shapes().values() if len(s) > 1) * {16: 2, 4: 0.625}[self.bits]


_SMOLLM2 = (49152, 576, 9, 3, 64, 1536, 30)
_ONE_BILLION = (128256, 2048, 32, 8, 64, 8192, 16)
MODELS = {
    m.name: m
    for m in (
        Model("smollm2-fp16", *_SMOLLM2, 16), Model("smollm2-int4", *_SMOLLM2, 4),
        Model("1b-fp16", *_ONE_BILLION, 16), Model("1b-int4", *_ONE_BILLION, 4),
    )
}  # fmt: skip


def packed(codes: np.ndarray) -> np.ndarray:
    """Codes [rows, columns] of 4 bits, eight to a word, the first one lowest: [rows, bytes]."""
    pairs: np.ndarray = codes[:, 0::2] | codes[:, 1::2] << np.uint8(4)
    return pairs


class Weights:
    """Random weights, and the forms in which a project stores them."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model = model
        self.forms: dict[str, dict[str, np.ndarray]] = {}
        matrices = {name: shape for name, shape in model.shapes().items() if len(shape) > 1}
        with ThreadPoolExecutor(THREADS) as pool:
            drawn = pool.map(self._drawn, range(seed, seed + len(matrices)), matrices, matrices.values())
            self.forms = dict(zip(matrices, drawn))

    def _drawn(self, seed: int, name: str, shape: tuple[int, int]) -> dict[str, np.ndarray]:
        random, (rows, columns) = np.random.default_rng(seed), shape
        spread = np.float32(1.0 if "embd" in name else columns**-0.5)
        if self.model.bits == 16:
            return {"f16": (random.standard_normal(shape, np.float32) * spread).astype(np.float16)}
        codes = np.frombuffer(random.bytes(rows * columns), np.uint8).reshape(shape) & np.uint8(15)
        scale = (random.uniform(0.5, 1.5, (rows, columns // 32)) * (spread / 4.6)).astype(np.float16)
        return {"codes": codes, "scale": scale, "base": (scale * np.float16(-8)).astype(np.float16)}

    def floats(self, name: str) -> np.ndarray:
        """The weights of a matrix in fp32."""
        form = self.forms[name]
        if "f16" in form:
            return form["f16"].astype(np.float32)
        each = form["codes"].reshape(*form["scale"].shape, 32).astype(np.float32)
        each *= form["scale"].astype(np.float32)[..., None]
        each += form["base"].astype(np.float32)[..., None]
        return each.reshape(form["codes"].shape)

    def form(self, name: str, kind: str) -> np.ndarray:
        """[rows, bytes] of a matrix in one of the forms of a project."""
        found = self.forms[name].get(kind)
        if kind == "words":
            found = packed(self.forms[name]["codes"])
        elif kind == "pairs":
            found = np.stack([self.forms[name]["scale"], self.forms[name]["base"]], 2)
        elif found is None:
            found = self.floats(name).astype(np.float16 if kind == "f16" else np.float32)
        return np.ascontiguousarray(found).reshape(len(found), -1).view(np.uint8)

    def blob(self, folder: Path) -> np.ndarray:
        """The file of weights of a project."""
        facts = json.loads((folder / "weights.json").read_text())
        blob = np.zeros(facts["bytes"] + 64, np.uint8)

        def put(entry: tuple[int, str, str, int, int, int]) -> None:
            offset, kind, tensor, start, step, count = entry
            rows = self.form(tensor, kind)[start :: step or 1][:count]
            blob[offset : offset + rows.size].reshape(rows.shape)[...] = rows

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(put, facts["rows"]))
        raw = np.frombuffer(zlib.decompress((folder / "constants.bin").read_bytes()), np.uint8)
        for offset, begin, size in facts["constants"]:
            blob[offset : offset + size] = raw[begin : begin + size]
        return blob


def reference(model: Model, weights: Weights, tokens: np.ndarray, positions: Sequence[int]) -> list[np.ndarray]:
    """Logits after so many tokens, in fp32, all positions at once."""
    count, groups = len(tokens), model.heads // model.kv_heads
    frequency = model.base ** (-2 * np.arange(model.head // 2) / model.head)
    angles = np.arange(count)[:, None] * frequency
    cos, sin = (f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    hidden = np.triu(np.full((count, count), -np.inf, np.float32), 1)

    def norm(x: np.ndarray) -> np.ndarray:
        unit: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(model.epsilon))
        return unit

    def turned(x: np.ndarray) -> np.ndarray:
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)

    x = weights.floats("token_embd.weight")[tokens]
    for k in range(model.layers):

        def times(x: np.ndarray, part: str, layer: int = k) -> np.ndarray:
            return x @ weights.floats(f"blk.{layer}.{part}.weight").T

        h = norm(x)
        q, key, value = (times(h, f"attn_{part}").reshape(count, -1, model.head) for part in "qkv")
        q, key = turned(q), turned(key)
        mixed = np.empty_like(q)
        for head in range(model.heads):
            scores = q[:, head] @ key[:, head // groups].T / np.float32(model.head**0.5) + hidden
            e = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, head] = e / e.sum(-1, keepdims=True) @ value[:, head // groups]
        x = x + times(mixed.reshape(count, -1), "attn_output")
        h = norm(x)
        gate = times(h, "ffn_gate")
        x = x + times(gate / (1 + np.exp(-gate)) * times(h, "ffn_up"), "ffn_down")
    ends = norm(x)[[p - 1 for p in positions]] @ weights.floats("token_embd.weight").T
    return list(ends)


def compiled(folder: Path, pool: ThreadPoolExecutor) -> tuple[Path, str]:
    """The shared library of a project, and what ptxas says of spills."""
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


def measured(model: Model, folder: Path, library: Path, speed: float) -> list[str]:
    """Rows of the table."""
    weights = Weights(model, int(time.time()))
    tokens = np.random.default_rng().integers(0, model.vocabulary, max(POSITIONS) + 1).astype(np.int32)
    ends = [p + 1 for p in POSITIONS]
    want = reference(model, weights, tokens, ends)
    blob = weights.blob(folder)
    network, logits, past, rows = Network(library, blob), np.empty(model.vocabulary, np.float32), 0, []
    bound = 1e3 * model.token_bytes / speed
    for position, expected in zip(POSITIONS, want):
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
        rows.append(f"| {model.name} | {position} | {once:.4f} | {seen:.4f} | {bound:.4f} | {bound / once:.0%} | "
                    f"{chunk:.3f} | {error:.1e}, {same} |")  # fmt: skip
    kinds = json.loads((folder / "weights.json").read_text())["launches"]
    each = network.of_launches(len(kinds))
    middle = [k for k, kind in enumerate(kinds) if kind == "together"][model.layers // 2]
    parts = ", ".join(f"{kinds[middle + k]} {each[middle + k] * 1e3:.2f}" for k in range(5))
    whole = each[2 * model.layers :].sum()
    print(f"{model.name}: us of a layer's launches alone: {parts}; head {each[-1] * 1e3:.2f}; all {whole:.4f} ms")
    network.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    o = parser.parse_args()
    began = time.perf_counter()
    found = [model for name, model in MODELS.items() if (o.folder / name / "weights.json").is_file()]
    if not found:
        sys.exit(f"no model in {o.folder}: python -m benchmarks.gpu.language_sources {o.folder}")
    with ThreadPoolExecutor(16) as inner, ThreadPoolExecutor(len(found)) as outer:
        libraries = list(outer.map(lambda m: compiled(o.folder / m.name, inner), found))
    for model, (_, said) in zip(found, libraries):
        print(f"{model.name}: {said}")
    speed = copy_speed(o.folder)
    print(f"a copy moves {speed / 1e12:.2f} TB/s; compiled after {time.perf_counter() - began:.0f} s", flush=True)
    lines = []
    for model, (library, _) in zip(found, libraries):
        lines += measured(model, o.folder / model.name, library, speed)
    print("| model | position | ms a token | with copies | weights | of it | ms a chunk of 64 | logits |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
