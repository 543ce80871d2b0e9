"""Decoders in ONNX: caches that come and go become states, and every token's logits are onnxruntime's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of
from onnx_decoders import LAYERS, SIZE, STYLES, VOCABULARY, decoder, logits_of, stacked
from test_decoder import close, decoded

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import ModelError, UsageError
from edgec.execute.executor import run_graph
from edgec.ir.expr import Expr
from edgec.ir.extent import sizes

CONTEXT = 24
MODELS = {**{style: decoder(style) for style in STYLES}, "window": decoder("grouped", 5)}
MODELS["stacked"] = stacked(MODELS["plain"])
GRAPHS = {name: edgec.load(model.SerializeToString(), context=CONTEXT).graph for name, model in MODELS.items()}


def test_the_form_of_the_graph() -> None:
    """The same as from any other file: tokens and past, one state for each cache, the logits of the last token."""
    for graph in GRAPHS.values():
        names = [n.attributes["name"] for n in graph.inputs]
        layers = [f"{kind}_{layer}" for layer in range(LAYERS) for kind in ("keys", "values")]
        assert names[:2] == ["tokens", "past"] and sorted(names[2:]) == sorted(layers)
        assert [name for name, _ in graph.outputs] == ["logits", *(f"{n}_new" for n in names[2:])]
        capacity = CONTEXT + CONTEXT - 1  # a chunk may begin at the last position
        shapes = {n.attributes["name"]: n.type.shape for n in graph.inputs}
        assert shapes["keys_0"] == (2, SIZE, capacity) and shapes["values_1"] == (2, capacity, SIZE)
        assert graph.outputs[0][1].type.shape == (VOCABULARY,)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_position(name: str) -> None:
    tokens = RANDOM.integers(0, VOCABULARY, CONTEXT).tolist()
    want = logits_of(MODELS[name], tokens)
    for parts in ([CONTEXT], [7, 1, 1, 5, 10], [1] * CONTEXT):
        got = decoded(GRAPHS[name], lambda fed: run_graph(GRAPHS[name], fed), tokens, parts)
        for logits, end in zip(got, np.cumsum(parts)):
            close(logits, want[end - 1])


def test_compiled(tmp_path: Path) -> None:
    made = compile_graphs(GRAPHS, tmp_path)
    for name, network in made.items():
        assert isinstance(network, Compiled), (name, network)
        tokens = RANDOM.integers(0, VOCABULARY, CONTEXT).tolist()
        want = logits_of(MODELS[name], tokens)
        for threads, in_place in ((None, False), (2, True)):
            got = decoded(GRAPHS[name], lambda fed: network(fed, threads, in_place), tokens, [9, *[1] * 15])  # noqa: B023
            for logits, end in zip(got, [9, *range(10, CONTEXT + 1)]):
                close(logits, want[end - 1])


@pytest.mark.parametrize("name", GRAPHS)
def test_no_cache_is_copied(name: str) -> None:
    """Kernels that write a state copy it to itself, which costs nothing in place, or write the new tokens."""
    program = program_of(GRAPHS[name])
    stored = {b for _, b, _ in program.outputs if b.name != "logits"}
    assert len(stored) == len(program.states) == 2 * LAYERS
    assert not any(k.writes.space == "arena" and "update" in k.names for k in program.kernels)
    for kernel in (k for k in program.kernels if k.writes in stored):
        values = [b for b in kernel.reads if b.space == "arena" and not b.name.startswith("scratch")]
        assert all(b.bytes < kernel.writes.bytes for b in values), kernel.names


@pytest.mark.parametrize("name", GRAPHS)
def test_no_cache_is_scaled(name: str) -> None:
    """Nothing of the length and the width of a cache is computed: exporters' scales of keys are those of queries."""
    for node in GRAPHS[name].operations():
        is_long = any(isinstance(n, Expr) and len(sizes(n)) == 2 for n in node.type.shape)
        assert node.op not in ("mul", "div") or not is_long or SIZE not in node.type.shape, node


def test_session(tmp_path: Path) -> None:
    path = tmp_path / "lm.onnx"
    onnx.save(MODELS["plain"], str(path))
    edgec.build(path, tmp_path / "out", context=CONTEXT, threads=1, name="lm")
    tokens = RANDOM.integers(0, VOCABULARY, CONTEXT).tolist()
    want = logits_of(MODELS["plain"], tokens)
    with Network(tmp_path / "out") as network:
        session = Session(network)
        close(session.prefill(tokens[:11]), want[10])
        for end in range(12, CONTEXT + 1):
            close(session.next(tokens[end - 1]), want[end - 1])


def test_one_token_at_a_time(tmp_path: Path) -> None:
    """A decoder that takes one token a run: a prompt is as many runs, through any session."""
    path = tmp_path / "lm.onnx"
    onnx.save(stacked(MODELS["plain"], 1), str(path))
    edgec.build(path, tmp_path / "out", context=CONTEXT, name="lm")
    tokens = RANDOM.integers(0, VOCABULARY, CONTEXT).tolist()
    want = logits_of(MODELS["plain"], tokens)
    with Network(tmp_path / "out") as network:
        session = Session(network)
        close(session.prefill(tokens[:5]), want[4])
        for end in range(6, CONTEXT + 1):
            close(session.next(tokens[end - 1]), want[end - 1])
        with pytest.raises(UsageError, match="do not fit"):
            session.next(0)


def renamed(change: Callable[[onnx.ModelProto], None]) -> bytes:
    model = onnx.ModelProto()
    model.CopyFrom(MODELS["plain"])
    change(model)
    return model.SerializeToString()


def test_other_names() -> None:
    """The graph tells the value that is appended to each cache."""

    def shuffle(model: onnx.ModelProto) -> None:
        rest = list(model.graph.output[1:])
        del model.graph.output[1:]
        model.graph.output.extend(reversed(rest))

    graph = edgec.load(renamed(shuffle), context=CONTEXT).graph
    assert graph.outputs == GRAPHS["plain"].outputs


@pytest.mark.parametrize("kept", [(), ("total", "kv_heads", "kv_cache_dim")], ids=["none", "all"])
def test_dimensions_whose_names_do_not_tell_the_length(kept: tuple[str, ...]) -> None:
    """No name of an output, or the same before and after a run: tokens are the dimension behind heads."""
    model = onnx.ModelProto()
    model.CopyFrom(MODELS["grouped"])
    for info in (*model.graph.input, *model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if info.name.startswith("present") and dim.dim_param not in kept:
                dim.Clear()
            elif kept and dim.dim_param == "past":
                dim.dim_param = "total"
        if info.name.startswith(("past_key_values", "present") if kept else "past_key_values"):
            info.type.tensor_type.shape.dim[1].dim_param = "kv_heads"
    assert edgec.load(model.SerializeToString(), context=CONTEXT).graph.outputs == GRAPHS["grouped"].outputs


def test_refused() -> None:
    def another_input(model: onnx.ModelProto) -> None:
        model.graph.input.append(onnx.helper.make_tensor_value_info("encoder_hidden_states", 1, [1, "n", 24]))

    def another_output(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            for names in (node.input, node.output):
                for k in (k for k, name in enumerate(names) if name == "present.1.value"):
                    names[k] = "whole"
        model.graph.node.append(onnx.helper.make_node("Neg", ["whole"], ["present.1.value"]))

    def no_output(model: onnx.ModelProto) -> None:
        del model.graph.output[-1]

    def two_tokens(model: onnx.ModelProto) -> None:
        model.CopyFrom(stacked(model, 2))

    def other_layers(model: onnx.ModelProto) -> None:
        model.CopyFrom(stacked(model))
        model.graph.input[-1].type.tensor_type.shape.dim[0].dim_param = "layers"

    for change, message in (
        (another_input, "'encoder_hidden_states' of rank 3"),
        (another_output, "'present.1.value' is no cache"),
        (no_output, "'past_key_values.1.value'"),
        (two_tokens, "'input_ids' has 2 tokens"),
        (other_layers, "the cache 'past_value' has dimensions"),
    ):
        with pytest.raises(ModelError, match=message):
            edgec.load(renamed(change), context=CONTEXT)


def test_options() -> None:
    model = MODELS["plain"].SerializeToString()
    assert edgec.load(model).graph.inputs[2].type.shape[2] == 2048 + 63
    with pytest.raises(UsageError, match="only a language model has a context"):
        edgec.load(model, context=CONTEXT, dims={"new": (1, 4, 1)})
    dims = {"new": (1, 4, 1), "past": (1, 8, 1)}
    assert edgec.load(model, dims=dims).graph.inputs[0].attributes["name"] == "input_ids"
