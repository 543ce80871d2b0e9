"""States of a divided network: each worker holds those of its layers, or of its heads, from one run to the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec import pipeline
from edgec.build import read
from edgec.distribute.blocks import shardings
from edgec.distribute.build import BuiltParts, build_over
from edgec.distribute.check import check_over
from edgec.distribute.consecutive import Chain, chain_of
from edgec.distribute.manifest import read_manifest
from edgec.distribute.prices import Prices
from edgec.options import resolve
from edgec.pipeline.context import Context

HEADS, LENGTH, OF_HEAD = 3, 64, 8
WIDTH = HEADS * OF_HEAD
STATES = {f"{kind}{k}": f"{kind}{k}_next" for k in range(2) for kind in "kv"}


def decoder() -> onnx.ModelProto:
    """x [1, 24], place [1] -> y [1, 24]: two layers of attention over caches of 64 positions, one a run."""
    random = np.random.default_rng(8)
    places = np.arange(LENGTH, dtype=np.int64)
    made = [weights("split", np.array([HEADS, 1, OF_HEAD])), weights("merged", np.array([1, WIDTH]))]
    made += [weights("places", places.reshape(1, LENGTH, 1)), weights("along", places.reshape(1, 1, LENGTH))]
    made += [weights("seen", np.float32(0)), weights("hidden", np.float32(-1e9))]
    nodes = [node("Equal", ["places", "place"], ["is_new"], "is_new")]
    nodes += [node("LessOrEqual", ["along", "place"], ["is_seen"], "is_seen")]
    nodes += [node("Where", ["is_seen", "seen", "hidden"], ["mask"], "mask")]
    caches = []
    for layer, (x, y) in enumerate((("x", "m"), ("m", "y"))):
        for kind in "qkvo":
            w = (random.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
            made.append(weights(f"w{kind}{layer}", w))
        for kind in "qkv":
            nodes += [
                node("MatMul", [x, f"w{kind}{layer}"], [f"{kind}{layer}_flat"], f"{kind}{layer}_product"),
                node("Reshape", [f"{kind}{layer}_flat", "split"], [f"{kind}{layer}_new"], f"{kind}{layer}_split"),
            ]
        for kind in "kv":
            cache, new = f"{kind}{layer}", f"{kind}{layer}_new"
            nodes.append(node("Where", ["is_new", new, cache], [f"{cache}_next"], f"{cache}_kept"))
            caches.append(tensor_input(cache, [HEADS, LENGTH, OF_HEAD]))
        s = str(layer)
        nodes += [
            node("Transpose", [f"k{s}_next"], [f"turned{s}"], f"turned{s}", perm=[0, 2, 1]),
            node("MatMul", [f"q{s}_new", f"turned{s}"], [f"raw{s}"], f"raw{s}"),
            node("Add", [f"raw{s}", "mask"], [f"scores{s}"], f"scores{s}"),
            node("Softmax", [f"scores{s}"], [f"shares{s}"], f"shares{s}", axis=-1),
            node("MatMul", [f"shares{s}", f"v{s}_next"], [f"mixed{s}"], f"mixed{s}"),
            node("Reshape", [f"mixed{s}", "merged"], [f"joined{s}"], f"joined{s}"),
            node("MatMul", [f"joined{s}", f"wo{s}"], [f"out{s}"], f"out{s}"),
            node("Add", [x, f"out{s}"], [y], f"carried{s}"),
        ]
    place = onnx.helper.make_tensor_value_info("place", onnx.TensorProto.INT64, [1])
    return model(nodes, [tensor_input("x", [1, WIDTH]), place, *caches], ["y", *STATES.values()], made)


def over(folder: Path, workers: int, **wanted: object) -> BuiltParts:
    path = folder / "decoder.onnx"
    onnx.save(decoder(), str(path))
    usual = {"force": True, "link_speed": "10G/0.02", "states": STATES}
    return build_over(path, folder / "over", over=["host@local"] * workers, **{**usual, **wanted})  # type: ignore[arg-type]


def held(built: BuiltParts) -> list[list[tuple[int, ...]]]:
    """Shapes of the states of every worker."""
    found: list[list[tuple[int, ...]]] = [[] for _ in built.manifest.workers]
    for k, p in enumerate(built.manifest.parts):
        lock = edgec.artifact.folder.read_lock(built.folder / f"part{k}")
        shapes = {port["onnx_name"]: tuple(port["shape"]) for port in lock["inputs"]}
        found[p.worker] += [shapes[name] for name in lock.get("renewed", {})]
    return found


@pytest.mark.parametrize(("split", "workers"), [("auto", 1), ("pipeline", 2), ("tensor", 2), ("tensor", 3)])
def test_workers_hold_states(split: str, workers: int, tmp_path: Path) -> None:
    built = over(tmp_path, workers, split=split, shard=("q0_product=1", "q1_product=1") if split == "tensor" else ())
    whole = edgec.build(decoder().SerializeToString(), states=STATES)
    full = (HEADS, LENGTH, OF_HEAD)
    if split == "tensor":
        shares = {2: (2, 1), 3: (1, 1, 1)}[workers]
        assert sorted(tuple(own) for own in held(built)) == sorted(((h, LENGTH, OF_HEAD),) * 4 for h in shares)
    else:
        assert held(built) == [[full] * (4 // workers)] * workers
    random = np.random.default_rng(1)
    with edgec.Several(built.folder) as network:
        assert [p.onnx_name for p in (*network.inputs, *network.outputs)] == ["x", "place", "y"]
        for _ in range(2):
            network.reset()
            caches = {name: np.zeros(full, np.float32) for name in STATES}
            frames = [
                {"x": random.standard_normal((1, WIDTH)).astype(np.float32), "place": np.array([t])} for t in range(6)
            ]
            got = [network.run(frames[0]), *network.stream(frames[1:])]
            for given, found in zip(frames, got):
                want = whole.run({**given, **caches})
                caches = {old: want[new] for old, new in STATES.items()}
                error = np.abs(found["y"] - want["y"]).max() / np.abs(want["y"]).max()
                assert error <= (1e-5 if split == "tensor" else 0)
        assert check_over(network).ok
    assert all("_next" not in name for name in read_manifest(built.folder).tensors)


def test_what_workers_cannot_hold_is_on_one_device(tmp_path: Path) -> None:
    """An output that is an input again has no worker of its own; so has one that another output is too."""
    made = model(
        [node("Identity", ["x"], ["s_next"], "same"), node("Add", ["x", "s"], ["y"], "sum")],
        [tensor_input("x", [1, 4]), tensor_input("s", [1, 4])], ["y", "s_next"], [],
    )  # fmt: skip
    path = tmp_path / "net.onnx"
    onnx.save(made, str(path))
    built = build_over(
        path, tmp_path / "over", over=["host@local"] * 2, link_speed="1G", states={"s": "s_next"}, compile=False
    )
    assert built.manifest.split == "one" and "one device:" in built.manifest.verdict


def chain_for(made: onnx.ModelProto, states: dict[str, str]) -> Chain:
    options = resolve({"device": "x86_64_avx2", "states": states})
    graph = pipeline.run(read(made.SerializeToString()), Context(options), until="compress").result.graph
    prices = Prices((options,) * 2, (1.0,) * 2)
    plan = prices.planned(graph, 0)
    return chain_of(plan, prices.of_blocks(plan))


def test_those_who_read_a_state_are_together() -> None:
    """The state is read behind its next value: no part begins between them, and no shardings fit."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "first"), node("Add", ["a", "s"], ["s_next"], "kept"),
        node("MatMul", ["s_next", "w"], ["b"], "second"), node("Mul", ["b", "s"], ["c"], "again"),
        node("MatMul", ["c", "w"], ["y"], "third"),
    ]  # fmt: skip
    made = [weights("w", np.eye(8, dtype=np.float32))]
    chain = chain_for(model(nodes, [tensor_input(n, [1, 8]) for n in "xs"], ["y", "s_next"], made), {"s": "s_next"})
    first, last = (
        next(k for k, v in enumerate(chain.values) if name in chain.graph.names(v)) for name in ("kept", "again")
    )
    assert last > first and chain.inseparable == {*range(first + 1, last + 1)}
    assert shardings(chain, True)[last] == []


def test_shardings_renew_what_they_hold() -> None:
    chain = chain_for(decoder(), STATES)
    renewed = {new: old for old, new in chain.held.renewed.items()}
    kinds = set()
    for value, ways in zip(chain.values, shardings(chain, True)):
        for way in ways:
            spans = way.spans or (None,) * 2
            own = [{(renewed.get(value), span)} if p is not None else set() for p, span in zip(way.pieces, spans)]
            states = [{*p.states.values()} if p is not None else set() for p in way.pieces]
            assert all(s <= o for s, o in zip(states, own))
            kinds |= {way.kind} if any(states) else set()
    assert kinds == {"one", "all", "slices"}
