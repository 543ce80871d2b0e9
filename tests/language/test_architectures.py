"""Every architecture from both formats, against an evaluation of its definition in numpy."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import plain
import pytest
from chance import RANDOM
from compiled import program_of
from test_decoder import close, decoded

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import EdgecError, ModelError, UsageError
from edgec.execute.executor import run_graph
from edgec.frontend.language.stored import stored
from edgec.frontend.values import Value
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import DTYPES, Type
from edgec.rewrite import load_rules, simplify

CONTEXT = 24
WEIGHTS = {name: plain.draw(name) for name in plain.CONFIGS}


def agrees(graph: Graph, name: str, weights: plain.Arrays) -> None:
    tokens = RANDOM.integers(0, plain.VOCABULARY, 14).tolist()
    want = plain.evaluate(name, weights, tokens)
    parts = [7, 1, 1, 5]
    got = decoded(graph, lambda fed: run_graph(graph, fed), tokens, parts)
    for logits, end in zip(got, np.cumsum(parts)):
        close(logits, want[end - 1])


@pytest.mark.parametrize("name", plain.CONFIGS)
def test_gguf(name: str) -> None:
    agrees(edgec.load(plain.gguf(name, WEIGHTS[name]), context=CONTEXT).graph, name, WEIGHTS[name])


@pytest.mark.parametrize("name", plain.CONFIGS)
def test_folder(name: str, tmp_path: Path) -> None:
    folder = plain.write_folder(tmp_path / "lm", name, WEIGHTS[name])
    agrees(edgec.load(folder, context=CONTEXT).graph, name, WEIGHTS[name])


def test_newer_configurations(tmp_path: Path) -> None:
    """Positions by kind of layer, and kinds by name, as transformers writes them from version 5 on."""
    folder = plain.write_folder(tmp_path / "lm", "gemma3", WEIGHTS["gemma3"])
    config = json.loads((folder / "config.json").read_text())
    older = edgec.load(folder, context=CONTEXT).graph
    bases = {"sliding_attention": config.pop("rope_local_base_freq"), "full_attention": config.pop("rope_theta")}
    config["rope_parameters"] = {k: {"rope_theta": base, "rope_type": "default"} for k, base in bases.items()}
    config["layer_types"] = ["sliding_attention"] * 5 + ["full_attention"]
    (folder / "config.json").write_text(json.dumps(config))
    assert edgec.load(folder, context=CONTEXT).graph.outputs == older.outputs


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["F16", "BF16"])
def test_types_and_several_files(dtype: type, tmp_path: Path) -> None:
    """Weights of 16 bits are evaluated as they are."""
    narrow = {key: value.astype(dtype) for key, value in WEIGHTS["llama"].items()}
    folder = plain.write_folder(tmp_path / "lm", "llama", narrow, files=3)
    agrees(edgec.load(folder, context=CONTEXT).graph, "llama", narrow)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_stored_as_they_are(dtype: str) -> None:
    """A product reads weights of 16 bits in 16 bits, whatever the norm before it does, and a table too."""
    array = RANDOM.standard_normal((96, 64)).astype(DTYPES[dtype])
    x, at = placeholder("x", Type("f32", (3, 64))), placeholder("at", Type("i32", (5,)))
    scale = Value(placeholder("scale", Type("f32", (64,))))
    y = (Value(x) * scale) @ stored(array).swap(0, 1)
    graph = Graph((x, at, scale.node), (("y", y.node), ("rows", stored(array[::-1]).gather(Value(at), 0).node)))
    simplified, _ = simplify(graph, load_rules(()))
    program = program_of(simplified)
    assert program.weights_bytes <= 2 * array.nbytes + 64


def test_session_and_quantization(tmp_path: Path) -> None:
    folder = plain.write_folder(tmp_path / "lm", "qwen3", WEIGHTS["qwen3"])
    tokens = RANDOM.integers(0, plain.VOCABULARY, 12).tolist()
    want = plain.evaluate("qwen3", WEIGHTS["qwen3"], tokens)
    edgec.build(folder, tmp_path / "out", context=CONTEXT, threads=1, name="lm")
    with Network(tmp_path / "out") as network:
        session = Session(network)
        close(session.prefill(tokens[:5]), want[4])
        for end in range(6, 13):
            close(session.next(tokens[end - 1]), want[end - 1])
    plain_bytes = edgec.build(folder, context=CONTEXT, compile=False).weights_bytes
    small = edgec.build(folder, context=CONTEXT, compile=False, quantize="int4-weight").weights_bytes
    assert small < plain_bytes / 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "'mamba', which is not supported"),
        ({"num_key_value_heads": 3}, "cannot share 3"),
        ({"num_hidden_layers": 3}, "no weight 'blk.2.attn_norm.weight'"),
        ({"num_hidden_layers": 10**9}, "layers"),
        ({"num_hidden_layers": True}, "no such value"),
        ({"hidden_size": 31}, "expected"),
        ({"hidden_size": "32"}, "no such value"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "yarn"),
        ({"rope_theta": 0.0}, "of base 0"),
        ({"hidden_act": "relu"}, "'relu'"),
        ({"quantization_config": {"bits": 4}}, "quantized by another tool"),
        ({"rms_norm_eps": None, "max_position_embeddings": 8}, "trained for 8"),
    ],
)
def test_refused_by_name(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    folder = plain.write_folder(tmp_path / "lm", "llama", WEIGHTS["llama"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises((ModelError, UsageError), match=message):
        edgec.load(folder, context=CONTEXT)


def test_missing_files(tmp_path: Path) -> None:
    folder = plain.write_folder(tmp_path / "lm", "llama", WEIGHTS["llama"], files=2)
    index = folder / "model.safetensors.index.json"
    for text, message in (
        ('{"weight_map": {"a": "../x.safetensors"}}', "no file of the folder"),
        ('{"weight_map": {"a": "x.safetensors"}}', "is missing"),
        ('{"weight_map": {}}', "0 files"),
        ('{"weight_map": {"a": 1, "a": 2}}', "given twice"),
    ):
        index.write_text(text)
        with pytest.raises(EdgecError, match=message):
            edgec.load(folder)
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    with pytest.raises(UsageError, match="no weights in safetensors"):
        edgec.load(folder)
