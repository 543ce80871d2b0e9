"""CUDA projects of language models with random weights, for `benchmarks.gpu.language_models` on a machine with a GPU.

    python -m benchmarks.gpu.language_sources FOLDER [MODEL ...]

Weights are made where they are needed: a file says which rows of which tensor every buffer holds, so that the folder is
small. Layers are built with the weights of the first, and given places of their own. The shapes are those of
SmolLM2-135M and of Llama 3.2 1B, in fp16 and in 4 bits with fp16 activations.
"""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.language_weights import MODELS, Model, packed
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.frontend.language.config import DecoderConfig, Layer, Rotary
from edgec.frontend.language.decoder import decoder
from edgec.frontend.values import Value, constant
from edgec.frontend.values import dequantized as coded
from edgec.fuse import plan
from edgec.fuse.single import single_plan
from edgec.ir.graph import constant as constant_node
from edgec.ir.sizes import outputs_alone, outputs_apart
from edgec.ir.types import DTYPES
from edgec.rewrite import load_rules, simplify
from edgec.rewrite.measure import OpCosts
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program
from edgec.schedule.single import with_single

#: Bytes by which a row is known.
KEY = 16


@dataclass(frozen=True)
class Rows:
    """A part of the weights: every ``step``-th row of a tensor from ``start`` on, in the form ``kind``."""

    offset: int
    kind: str
    tensor: str
    start: int
    step: int
    count: int
    bytes: int


class Tensors:
    """Weights of which no two rows begin alike; the rest of a row does not matter here."""

    def __init__(self, model: Model) -> None:
        self.model, self.random = model, np.random.default_rng(0)
        self.values: dict[str, Value | None] = {}
        self.known: dict[tuple[str, bytes], tuple[str, int]] = {}
        self.lengths: dict[tuple[str, str], int] = {}

    def __call__(self, name: str) -> Value | None:
        name = re.sub(r"^blk\.\d+", "blk.0", name)
        if name not in self.values:
            shape = self.model.shapes().get(name)
            is_norm = name.endswith("norm.weight") and shape is not None
            self.values[name] = constant(np.ones(shape, np.float32)) if is_norm else self._made(name, shape)
        return self.values[name]

    def _made(self, name: str, shape: tuple[int, ...] | None) -> Value | None:
        if shape is None:
            return None
        rows, columns = shape
        if self.model.bits == 16:
            values = np.full(shape, 0.5, np.float32)
            values[:, :8] = self.random.standard_normal((rows, 8)).astype(np.float16)
            self._learn(name, {"f16": values.astype(np.float16), "f32": values})
            return constant(values)
        codes = np.full(shape, 5, np.uint8)
        codes[:, :32] = self.random.integers(0, 16, (rows, 32))
        scale = self.random.uniform(0.5, 1, (rows, columns // 32)).astype(np.float16)
        base = (np.float16(-8) * scale).astype(np.float16)
        floats = codes[:, :32] * np.repeat(scale.astype(np.float32), 32, 1)[:, :32] + base[:, :1].astype(np.float32)
        self._learn(name, {"words": packed(codes), "pairs": np.stack([scale, base], 2), "codes": codes,
                           "scale": scale, "base": base})  # fmt: skip
        self._learn(name, {"f16": floats.astype(np.float16)}, columns * 2)
        node = Value(constant_node(codes.astype(DTYPES["u4"])))
        return coded(node, Value(constant_node(scale)), Value(constant_node(base)), axis=1, block=32)

    def _learn(self, name: str, forms: dict[str, np.ndarray], length: int = 0) -> None:
        for kind, form in forms.items():
            raw = np.ascontiguousarray(form).reshape(len(form), -1).view(np.uint8)
            self.lengths[name, kind] = length or raw.shape[1]
            for row, key in enumerate(raw[:, :KEY]):
                self.known.setdefault((kind, key.tobytes()), (name, row))

    def rows_of(self, data: np.ndarray, offset: int) -> Rows | None:
        """The rows that a buffer of weights holds; None where it is no rows of a tensor."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        for kind in ("words", "pairs", "codes", "scale", "base", "f16", "f32"):
            found = self.known.get((kind, raw[:KEY].tobytes()))
            if found is None or raw.size % self.lengths[found[0], kind]:
                continue
            rows = raw.reshape(-1, self.lengths[found[0], kind])
            where = [self.known.get((kind, row[:KEY].tobytes()), ("", -1)) for row in rows]
            step = where[1][1] - where[0][1] if len(where) > 1 else 1
            if where == [(found[0], found[1] + k * step) for k in range(len(where))]:
                return Rows(offset, kind, found[0], found[1], step, len(where), rows.shape[1])
        return None


def program_of(model: Model, tensors: Tensors) -> Program:
    """The programs for several tokens and for one."""
    layers = (Layer(Rotary(model.head, model.base, True)),) * model.layers
    config = DecoderConfig(
        model.vocabulary, model.width, model.heads, model.kv_heads, model.head, model.hidden, model.epsilon, layers
    )
    graph = decoder(config, tensors, model.context, cache=model.cache)
    device = replace(load_device("cuda_sm90"), precision="fp16")
    simpler, _ = simplify(outputs_alone(graph), load_rules([]), numeric="reassociates", prices=OpCosts.on(device))
    graph, head = outputs_apart(simpler, graph), largest_head(device)
    options = ScheduleOptions(fp32_blocks=0)
    program = schedule(plan(graph, gpu=True, head=head, few_bits=True), device, options)
    single = single_plan(graph, head)
    assert single is not None
    built = replace(model, layers=1).token_bytes / model.token_bytes
    cache = replace(device.gpu, l2_bytes=int(device.gpu.l2_bytes * built))  # the part that the built weights would have
    return with_single(program, schedule(single, device, options), replace(device, gpu=cache))


def contents(program: Program, tensors: Tensors) -> Iterator[Rows | tuple[int, np.ndarray]]:
    """Contents of every buffer of the weights: rows of tensors, or an array of its own."""
    assert program.single is not None
    places = {offset: b for b, offset in {**program.offsets, **program.single.offsets}.items() if b.data is not None}
    for offset, buffer in places.items():
        if buffer.data is not None:
            yield tensors.rows_of(buffer.data, offset) or (offset, buffer.data)


class Layers:
    """Places of the weights of all layers, which the built programs read where those of the first lie."""

    def __init__(self, rows: Sequence[Rows], begin: int, layers: int) -> None:
        self.rows, self.end = [r for r in rows if not r.tensor.startswith("blk.")], begin
        self.layers = layers
        self.places: dict[tuple[int, int], int] = {}  # by the place in the first layer, and the layer
        for layer in range(layers):
            for r in rows:
                if r.tensor.startswith("blk."):
                    place = r.offset if not layer else self.end
                    self.places[r.offset, layer] = place
                    self.rows.append(replace(r, offset=place, tensor=r.tensor.replace("blk.0", f"blk.{layer}")))
                    if layer:
                        self.end += -(-r.count * r.bytes // ALIGNMENT) * ALIGNMENT

    def apart(self, text: str) -> str:
        """The host code, whose programs have one attention a layer: queries, keys and values are products before it."""
        seen = {True: 0, False: 0}  # attentions so far, of the program for one token and of the other
        parts = {r.offset: r.tensor.split(".")[-2] for r in self.rows if r.tensor.startswith("blk.0.")}

        def launch(line: str) -> str:
            is_single = ", lm_one_" in line

            def place(found: re.Match[str]) -> str:
                first = int(found[1])
                is_before = parts.get(first) in ("attn_q", "attn_k", "attn_v") or "few_queries" in line
                layer = min(max(seen[is_single] - (not is_before), 0), self.layers - 1)
                return f"call->weights + {self.places.get((first, layer), first)})"

            changed = re.sub(r"call->weights \+ (\d+)\)", place, line)
            seen[is_single] += "attention" in line or "few_queries" in line
            return changed

        return "\n".join(launch(line) if "EC_LAUNCH(" in line else line for line in text.split("\n"))


def write(model: Model, folder: Path) -> None:
    """The sources of a model, and ``weights.json`` and ``constants.bin`` beside them."""
    tensors = Tensors(model)
    program = program_of(model, tensors)
    assert program.single is not None
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Rows] = []
    constants, raw = [], b""
    for found in contents(program, tensors):
        if isinstance(found, Rows):
            rows.append(found)
        else:
            offset, data = found
            content = np.ascontiguousarray(data).tobytes()
            constants.append([offset, len(raw), len(content)])
            raw += content
    for buffer in [*program.offsets, *program.single.offsets]:
        if buffer.data is not None:
            object.__setattr__(buffer, "data", buffer.data[:0])  # the file of weights is not wanted
    device = replace(load_device("cuda_sm90"), precision="fp16")
    layers = Layers(rows, program.weights_bytes, model.layers)
    for path, content in files(program, device, "lm").items():
        if path.endswith((".cu", ".h")):
            text = content.decode().replace(f"WEIGHTS_BYTES ((size_t){program.weights_bytes})",
                                            f"WEIGHTS_BYTES ((size_t){layers.end})")  # fmt: skip
            (folder / path).write_text(layers.apart(text) if path == "lm.cu" else text)
    named = [[r.offset, r.kind, r.tensor, r.start, r.step, r.count] for r in layers.rows]
    facts: dict[str, Any] = {"rows": named, "constants": constants, "bytes": layers.end}
    facts["launches"] = [k.template for k in program.single.kernels]
    (folder / "weights.json").write_text(json.dumps(facts))
    (folder / "constants.bin").write_bytes(zlib.compress(raw))
    print(f"{model.name}: {len(program.single.kernels)} launches a token, {layers.end / 1e6:.0f} MB of weights, "
          f"{len(raw) / 1e3:.0f} kB of them as they are", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], default=[])
    o = parser.parse_args()
    for name in o.models or MODELS:
        write(MODELS[name], o.folder / name)


if __name__ == "__main__":
    main()
