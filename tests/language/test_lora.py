"""Low-rank adapters: logits against weights that are merged in numpy, for every architecture, format and device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lora_files as files
import numpy as np
import plain
import pytest
from chance import RANDOM
from gguf_files import gguf_file, llama
from talking_model import compiled_with_less_optimization
from test_decoder import close, reference

import edgec
from edgec.artifact import adapter as adapters
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import EdgecError, UsageError
from edgec.execute.executor import run_graph
from edgec.frontend.gguf import parse
from edgec.frontend.gguf.architectures import config_of
from edgec.frontend.gguf.blocks import Blocks
from edgec.frontend.language.lora import HEAD, Layout, layout_in, option_of
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES

CONTEXT, RANK, BUILT = 24, 3, 5
WEIGHTS = {name: plain.draw(name) for name in plain.CONFIGS}


def layout_of(graph: Graph) -> Layout:
    found = layout_in(graph)
    assert found is not None
    return found


def numbers(path: Path, graph: Graph) -> np.ndarray:
    return np.frombuffer(adapters.read(path, layout_of(graph)), np.float32, offset=HEAD.size)


def run_tokens(graph: Graph, tokens: list[int], given: np.ndarray | None) -> np.ndarray:
    """Logits after all tokens, the last of which comes alone."""
    states = {str(n.attributes["name"]): np.zeros(n.type.shape, DTYPES[n.type.dtype]) for n in graph.inputs[4:]}  # type: ignore[arg-type]
    count = layout_of(graph).count
    more = {"adapted": np.array(given is not None), "adapter": np.zeros(count, "f") if given is None else given}
    for part, past in ((tokens[:-1], 0), (tokens[-1:], len(tokens) - 1)):
        outputs = run_graph(graph, {"tokens": np.array(part, np.int32), "past": np.array(past), **more, **states})
        states = {name: outputs[f"{name}_new"] for name in states}
    return outputs["logits"]


@pytest.mark.parametrize("is_gguf", [False, True], ids=["folder", "gguf"])
@pytest.mark.parametrize("name", plain.CONFIGS)
def test_every_architecture(name: str, is_gguf: bool, tmp_path: Path) -> None:
    """An adapter of PEFT's, of lower rank than the model has room for; and llama.cpp's form of it."""
    weights, tokens = WEIGHTS[name], RANDOM.integers(0, plain.VOCABULARY, 9).tolist()
    found = files.matrices(weights, RANK)
    graph = edgec.load(files.model_file(tmp_path, name, weights, is_gguf), context=CONTEXT, lora=BUILT).graph
    want = plain.evaluate(name, files.merged(weights, found, files.ALPHA / RANK), tokens)[-1]
    base = plain.evaluate(name, weights, tokens)[-1]
    assert np.abs(want - base).max() > 0.01 * np.abs(want).max(), "the adapter changes nothing"
    folder = files.peft_folder(tmp_path / "adapter", found)
    close(run_tokens(graph, tokens, numbers(folder, graph)), want)
    close(run_tokens(graph, tokens, None), base)
    (tmp_path / "adapter.gguf").write_bytes(files.gguf_adapter(name, found))
    assert np.array_equal(numbers(tmp_path / "adapter.gguf", graph), numbers(folder, graph))


@pytest.mark.parametrize(
    ("config", "factor"),
    [
        ({}, {"q": 2.0, "k": 2.0, "v": 2.0}),
        ({"use_rslora": True}, dict.fromkeys("qkv", files.ALPHA / RANK**0.5)),
        ({"alpha_pattern": {"q_proj": 12, "layers.1.self_attn.k_proj": 3}}, {"q": 4.0, "k": 1.0, "v": 2.0}),
        ({"alpha_pattern": {"^model.layers.1.self_attn.v_proj$": 1.5}}, {"q": 2.0, "k": 2.0, "v": 0.5}),
        ({"r": 8, "rank_pattern": {"self_attn.q_proj": RANK, "k_proj": RANK, "v_proj": RANK}}, dict.fromkeys("qkv", 2)),
    ],
    ids=["plain", "root", "alphas", "anchored", "ranks"],
)
def test_factors(config: dict[str, object], factor: dict[str, float], tmp_path: Path) -> None:
    """The factor of every product, by the definition of PEFT."""
    weights = WEIGHTS["qwen3"]
    found = files.matrices(weights, RANK, ["q_proj", "k_proj", "v_proj"])
    found = {name: value for name, value in found.items() if ".layers.1." in name}
    model = files.model_file(tmp_path, "qwen3", weights, False)
    graph = edgec.load(model, context=CONTEXT, lora=f"{RANK}:q,k,v").graph
    got = numbers(files.peft_folder(tmp_path / "adapter", found, **config), graph)
    for part in layout_of(graph).parts:
        up = got[part.up : part.up + RANK * part.outputs].reshape(RANK, part.outputs).T
        if part.weight.startswith("blk.0."):
            assert not up.any()
            continue
        want = found[f"base_model.model.model.{part.module}.lora_B.weight"] * factor[part.weight[11]]
        close(up, want, 1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with windows, whose features of queries are stored by pairs, with two adapters beside it."""
    where = tmp_path_factory.mktemp("lora")
    model = files.model_file(where, "llama", WEIGHTS["llama"], True)
    edgec.build(model, where / "out", context=CONTEXT, threads=2, name="lm", lora=BUILT)
    for k in (0, 1):
        files.peft_folder(where / f"adapter{k}", files.matrices(WEIGHTS["llama"], RANK + k))
    return where


@pytest.fixture
def network(folder: Path) -> Iterator[Network]:
    with Network(folder / "out", threads=2) as opened:
        yield opened


def test_switched(folder: Path, network: Network) -> None:
    """Adapters and none in turns; a text begins anew with each; without one, the bits are as before."""
    tokens = RANDOM.integers(0, plain.VOCABULARY, 9).tolist()
    session = Session(network)
    before = session.prefill(tokens)
    logits = []
    for k in (0, 1, 0):
        session.use_adapter(folder / f"adapter{k}")
        assert session.past == 0
        logits.append(session.prefill(tokens))
        found = read_matrices(folder / f"adapter{k}")
        weights = files.merged(WEIGHTS["llama"], found, files.ALPHA / (RANK + k))
        close(logits[-1], plain.evaluate("llama", weights, tokens)[-1])
    assert np.array_equal(logits[0], logits[2]) and not np.array_equal(logits[0], logits[1])
    session.use_adapter(None)
    assert session.past == 0 and np.array_equal(session.prefill(tokens), before)


def read_matrices(path: Path) -> plain.Arrays:
    from edgec.frontend.hugging import safetensors

    return {name: t.array() for name, t in safetensors.read(path / "adapter_model.safetensors").items()}


def test_one_adapter_in_two_sessions(folder: Path, network: Network) -> None:
    """Forks keep the adapter; a text that was saved with one goes on with that one alone."""
    first = Session(network)
    adapter = first.read_adapter(folder / "adapter0")
    first.use_adapter(adapter)
    first.prefill([1, 2, 3])
    second = first.fork()
    assert second.adapter is adapter
    other = Session(network)
    other.prefill([1, 2, 3])
    wanted = first.next(4)
    assert np.array_equal(second.next(4), wanted) and not np.array_equal(other.next(4), wanted)
    second.rewind(3)
    second.save(folder / "text")
    other.rewind(0)
    with pytest.raises(UsageError, match="another adapter"):
        other.restore(folder / "text")
    other.use_adapter(folder / "adapter1")
    with pytest.raises(UsageError, match="another adapter"):
        other.restore(folder / "text")
    other.use_adapter(folder / "adapter0")
    other.restore(folder / "text")
    assert np.array_equal(other.next(4), wanted)


def test_the_file_of_c_programs(folder: Path, network: Network) -> None:
    """Any byte that is changed, left out or added is refused, and the session stays as it is."""
    layout = adapters.layout_for(json.loads((folder / "out" / "edgec.lock").read_text())["language_model"], "")
    content = adapters.read(folder / "adapter0", layout)
    session = Session(network)
    session.use_adapter(folder / "adapter0")
    wanted = session.prefill([1, 2, 3])
    (folder / "arranged").write_bytes(content)
    session.use_adapter(folder / "arranged")
    assert np.array_equal(session.prefill([1, 2, 3]), wanted)
    kept = session.adapter
    places = [0, 7, 8, 39, 40, 47, 48, 56, 63, 64, len(content) // 2, len(content) - 1]
    damaged = [content[:-4], content + b"\0\0\0\0", content[:64], b""]
    damaged += [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in places]
    for case in damaged:
        status = session._call("adapter", *pointed(case))
        assert status == 25 and session.past == 3, len(case)
        (folder / "damaged").write_bytes(case)
        with pytest.raises(EdgecError):
            session.use_adapter(folder / "damaged")
        assert session.adapter is kept and session.past == 3
    assert np.array_equal(session.extend([1, 2, 3]), wanted)


def pointed(content: bytes) -> tuple[object, object]:
    import ctypes

    kept = adapters.Adapter(content) if content else adapters.Adapter(bytes(64))
    pointed.kept = kept  # type: ignore[attr-defined] # until the next call
    return ctypes.c_void_p(kept.content.ctypes.data), ctypes.c_size_t(len(content))


@pytest.mark.parametrize(("cache", "tolerance"), [("fp32", 1e-4), ("fp16", 5e-3), ("int8", 0.05)])
def test_caches_and_codes(cache: str, tolerance: float, tmp_path: Path) -> None:
    """Room beside weights in four bits: without an adapter, the bits are those of a build that has no room."""
    (tmp_path / "lm.gguf").write_bytes(llama("Q4_1", 1))
    tokens, logits, changes, tensors = RANDOM.integers(0, 40, 9).tolist(), [], {}, {}
    model = parse((tmp_path / "lm.gguf").read_bytes())
    read = {name: model.tensor(name) for name in model.tensors}
    weights = {name: t.dequantized() if isinstance(t, Blocks) else t for name, t in read.items()}
    for name in ("blk.0.attn_q.weight", "blk.0.attn_output.weight", "blk.0.ffn_gate.weight"):
        down = (RANDOM.standard_normal((RANK, 256)) / 16).astype("<f4")
        up = (RANDOM.standard_normal((len(weights[name]), RANK)) / 8).astype("<f4")
        changes[name] = (weights[name] + files.ALPHA / RANK * (up @ down)).astype("f")
        tensors |= {f"{name}.lora_{k}": ("F32", m.shape, m.tobytes()) for k, m in (("a", down), ("b", up))}
    metadata = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": files.ALPHA}
    (tmp_path / "a.gguf").write_bytes(gguf_file({**metadata, "general.architecture": "llama"}, tensors))
    for name, lora in (("plain", None), ("room", BUILT)):
        with compiled_with_less_optimization():
            edgec.build(
                tmp_path / "lm.gguf", tmp_path / name, context=CONTEXT, threads=1, name="lm", lora=lora, cache=cache
            )
        with Network(tmp_path / name) as network:
            session = Session(network)
            logits.append(np.stack([session.prefill(tokens[:6]), *(session.next(t) for t in tokens[6:])]))
            if lora is None:
                with pytest.raises(UsageError, match="no room for adapters"):
                    session.use_adapter(tmp_path / "a.gguf")
                continue
            session.use_adapter(tmp_path / "a.gguf")
            want = reference(config_of(model), {**weights, **changes}, tokens)
            close(session.prefill(tokens[:6]), want[5], tolerance)
            for k in (6, 7, 8):
                close(session.next(tokens[k]), want[k], tolerance)
    assert np.array_equal(logits[0], logits[1])


@pytest.mark.parametrize(
    ("given", "message"),
    [("0", "rank '0'"), ("x", "rank 'x'"), (-1, "rank '-1'"), (10**9, "are allowed"), ("4:q,q", "named twice"),
     ("4:head", "'head' is none"), ("4:,", "'' is none"), ("²", "are allowed")],
)  # fmt: skip
def test_options_that_make_no_sense(given: str | int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        option_of(given)


def test_what_has_no_adapters(tmp_path: Path) -> None:
    """Products that a model does not have, other networks, and GPUs."""
    from small_models import model, node, tensor_input

    file = files.model_file(tmp_path, "phi3", WEIGHTS["phi3"], False)
    with pytest.raises(UsageError, match="no product 'q'") as refused:
        edgec.load(file, lora="4:q")
    assert "'qkv', 'o', 'up', 'down'" in str(refused.value.hint)
    with pytest.raises(UsageError, match="language model"):
        edgec.load(model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4])], ["y"]), lora=4)
    for device in ("cuda_sm90", "mali_g78"):
        with pytest.raises(UsageError, match="take no adapters"):
            edgec.load(file, lora=4, device=device)
