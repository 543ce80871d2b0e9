"""Tensor parallelism over loopback on 1, 2 and 3 workers: within 1e-5 of one device, and memory that is divided.

A network that fits no worker alone runs on two. Sizes are odd, so that slices are uneven.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from divided_cases import tower
from small_models import model, node, tensor_input, weights

import edgec
from edgec.distribute.build import BuiltParts, build_over
from edgec.distribute.check import check_over
from edgec.errors import UsageError


def drawn(*shape: int) -> np.ndarray:
    random = np.random.default_rng(sum(shape))
    return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def mlp(wide: int = 101) -> onnx.ModelProto:
    """x [5, 48] -> y [5, 48]: two products with a bias each, and what is carried past them."""
    nodes = [
        node("MatMul", ["x", "w0"], ["a"], "first"),
        node("Add", ["a", "b0"], ["b"], "bias"),
        node("Relu", ["b"], ["c"], "relu"),
        node("MatMul", ["c", "w1"], ["d"], "second"),
        node("Add", ["d", "b1"], ["e"], "bias2"),
        node("Add", ["x", "e"], ["y"], "carried"),
    ]
    made = [weights(n, a) for n, a in (("w0", drawn(48, wide)), ("b0", drawn(wide)), ("w1", drawn(wide, 48)))]
    return model(nodes, [tensor_input("x", [5, 48])], ["y"], [*made, weights("b1", drawn(48))])


def convs(channels: int = 13) -> onnx.ModelProto:
    """x [1, 6, 9, 9] -> y [1, 6, 9, 9]: one by one, by channel, one by one again, with what is carried past them."""
    nodes = [
        node("Conv", ["x", "w0"], ["a"], "wide"),
        node("Relu", ["a"], ["b"], "relu"),
        node("Conv", ["b", "w1"], ["c"], "by_channel", pads=[1, 1, 1, 1], group=channels),
        node("Relu", ["c"], ["d"], "relu2"),
        node("Conv", ["d", "w2"], ["e"], "narrow"),
        node("Add", ["x", "e"], ["f"], "carried"),
        node("Relu", ["f"], ["y"], "last"),
    ]
    made = [
        weights("w0", drawn(channels, 6, 1, 1)), weights("w1", drawn(channels, 1, 3, 3)),
        weights("w2", drawn(6, channels, 1, 1)),
    ]  # fmt: skip
    return model(nodes, [tensor_input("x", [1, 6, 9, 9])], ["y"], made)


def attention(heads: int = 5, of_head: int = 8) -> onnx.ModelProto:
    """x [1, 7, width] -> y [1, 7, width]: a layer of self-attention."""
    wide = heads * of_head
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"], f"{name}_product"),
            node("Reshape", [f"{name}0", "split"], [f"{name}1"], f"{name}_split"),
            node("Transpose", [f"{name}1"], [name], f"{name}_turned", perm=perm),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["s"], "scores"),
        node("Softmax", ["s"], ["p"], "shares", axis=-1),
        node("MatMul", ["p", "v"], ["o"], "mixed"),
        node("Transpose", ["o"], ["o1"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "merged"], ["o2"], "joined"),
        node("MatMul", ["o2", "wo"], ["o3"], "out"),
        node("Add", ["x", "o3"], ["y"], "carried"),
    ]
    made = [weights(f"w{n}", drawn(wide, wide) * (1 + k / 8)) for k, n in enumerate("qkvo")]
    made += [weights("split", np.array([1, 7, heads, of_head])), weights("merged", np.array([1, 7, wide]))]
    return model(nodes, [tensor_input("x", [1, 7, wide])], ["y"], made)


def carried_twice() -> onnx.ModelProto:
    """x [5, 48] -> y [5, 48]: two layers whose sums are carried on as they are."""
    nodes, made = [], []
    for k, (x, y) in enumerate((("x", "m"), ("m", "y"))):
        nodes += [
            node("MatMul", [x, f"u{k}"], [f"a{k}"], f"up{k}"),
            node("Relu", [f"a{k}"], [f"b{k}"], f"relu{k}"),
            node("MatMul", [f"b{k}", f"d{k}"], [f"c{k}"], f"down{k}"),
            node("Add", [x, f"c{k}"], [y], f"carried{k}"),
        ]
        made += [weights(f"u{k}", drawn(48, 31 + k)), weights(f"d{k}", drawn(31 + k, 48))]
    return model(nodes, [tensor_input("x", [5, 48])], ["y"], made)


NETWORKS = {"mlp": mlp, "carried": carried_twice, "convs": convs, "attention": attention, "residual": tower}
#: Dimensions of these whose division leaves partial sums.
SUMS = {"mlp": ["first=1"], "carried": ["up0=1", "up1=1"], "convs": ["wide=1"], "attention": ["q_product=2"]}


def shared(folder: Path, made: onnx.ModelProto, workers: int, **wanted: Any) -> BuiltParts:
    folder.mkdir(exist_ok=True)
    path = folder / "net.onnx"
    onnx.save(made, str(path))
    usual = {"force": True, "link_speed": "10G/0.02", "split": "tensor"}
    return build_over(path, folder / "over", over=["host@local"] * workers, **{**usual, **wanted})


CASES = [*((name, workers, ()) for name in NETWORKS for workers in (1, 2, 3)),
         *((name, workers, tuple(SUMS[name])) for name in SUMS for workers in (2, 3))]  # fmt: skip


@pytest.mark.parametrize(("name", "workers", "shard"), CASES)
def test_gives_what_one_device_gives(name: str, workers: int, shard: tuple[str, ...], tmp_path: Path) -> None:
    made = NETWORKS[name]()
    whole = edgec.build(made.SerializeToString())
    built = shared(tmp_path, made, workers, shard=shard)
    assert not shard or {len(t.terms) for t in built.manifest.tensors.values() if t.terms} == {workers}
    assert built.manifest.split == ("tensor" if workers > 1 else "one")
    assert {p.worker for p in built.manifest.parts} == set(range(workers))
    with edgec.Several(built.folder) as network:
        shape = [int(n) for n in network.inputs[0].shape]
        for seed in range(2):
            given = {network.inputs[0].onnx_name: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
            got, want = network.run(given), whole.run(given)
            for key in want:
                assert np.abs(got[key] - want[key]).max() <= 1e-5 * np.abs(want[key]).max()
        assert check_over(network).ok


def kept(built: BuiltParts) -> list[int]:
    parts = built.manifest.parts
    return [sum(p.weights_bytes for p in parts if p.worker == w) for w in range(len(built.manifest.workers))]


def test_each_worker_keeps_its_slice_and_a_network_runs_that_fits_none(tmp_path: Path) -> None:
    made = mlp(4001)
    total = 2 * 48 * 4001 * 4
    built = shared(tmp_path, made, 2, force=False, split="auto", memory="1M", link_speed="1M/5")
    assert built.manifest.split == "tensor" and "not enough memory" in built.manifest.verdict
    assert total > 1 << 20 and max(kept(built)) < 0.52 * total
    with edgec.Several(built.folder) as network:
        assert check_over(network).ok
    with pytest.raises(UsageError, match="no division fits") as refused:
        shared(tmp_path / "over", made, 2, split="tensor", memory="64K")
    assert "--memory" in str(refused.value.hint)


def test_a_division_that_needs_more_memory_is_not_taken(tmp_path: Path) -> None:
    built = shared(tmp_path, mlp(4001), 2, split="pipeline", memory="900K", force=False, link_speed="1M/5")
    assert built.manifest.split == "pipeline" and max(kept(built)) < 900 << 10
    with pytest.raises(UsageError, match="no division fits"):
        shared(tmp_path / "b", mlp(4001), 1, memory="1M")
    with pytest.raises(UsageError, match="no size"):
        shared(tmp_path / "b", mlp(), 2, memory="much")


def test_what_is_named_is_divided(tmp_path: Path) -> None:
    built = shared(tmp_path, mlp(), 2, shard=["first=1"], split="auto", force=False, link_speed="100G/0.0001")
    assert [t.division.split for t in built.choice.others] == ["tensor"]
    for text, message in (
        ("frist=1", "no node 'frist'"), ("first=2", "no dimension 2"), ("first", "no NODE=DIM"),
        ("second=0", "cannot be divided"), ("first=x", "no NODE=DIM"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            shared(tmp_path, mlp(), 2, shard=[text])
    with pytest.raises(UsageError, match="fewer than the 3 workers"):
        shared(tmp_path, mlp(2), 3, shard=["first=1"])
    with pytest.raises(UsageError, match="not for --split rows"):
        shared(tmp_path, mlp(), 2, shard=["first=1"], split="rows")


def test_what_cannot_be_divided_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model([node("Relu", ["x"], ["y"], "alone")], [tensor_input("x", [1, 1])], ["y"], [])
    with pytest.raises(UsageError, match="nothing can be divided") as refused:
        shared(tmp_path, made, 2)
    assert "alone" in str(refused.value.hint) and "scipy" not in str(refused.value.hint)
    monkeypatch.setattr("edgec.distribute.ilp.is_there", lambda: False)
    with pytest.raises(UsageError, match="nothing can be divided") as refused:
        shared(tmp_path, made, 2)
    assert "alone" in str(refused.value.hint) and "pip install 'edgec[ilp]'" in str(refused.value.hint)
