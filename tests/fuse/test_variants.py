"""Variants of a product: proposed by the model, measured, kept in the database, chosen, frozen by a lock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec.api import Context, resolve
from edgec.artifact.folder import read_lock
from edgec.pipeline import run
from edgec.schedule.chain import Chain
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.flat import Weights, flatten
from edgec.schedule.gpu import variants as gpu
from edgec.schedule.gpu.choose import choose
from edgec.schedule.variants import entry
from edgec.tune.database import Measured, Profiles
from edgec.tune.known import target


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiles:
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    return Profiles()


def product(zeros: float) -> onnx.ModelProto:
    """A matrix product that does not read a share of what it is given."""
    kernel = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    kernel[: round(64 * zeros)] = 0
    x = [tensor_input("x", [196, 64])]
    return model([node("MatMul", ["x", "w"], ["y"], "product")], x, ("y",), [weights("w", kernel)], opset=17)


def convolutions() -> onnx.ModelProto:
    """Two products: 1 x 1 and 3 x 3."""
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "one"], ["a"], "one"),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "three"], ["y"], "three", pads=[1, 1, 1, 1]),
    ]
    kernels = [
        weights("one", rng.standard_normal((32, 8, 1, 1)).astype(np.float32)),
        weights("three", rng.standard_normal((24, 32, 3, 3)).astype(np.float32)),
    ]
    return model(nodes, [tensor_input("x", [1, 8, 14, 14])], ("y",), kernels, opset=17)


def taken(net: onnx.ModelProto | None = None, **settings: str) -> list[str | None]:
    net = net if net is not None else convolutions()
    program = run(net.SerializeToString(), Context(resolve({"device": "host", **settings})))["schedule"]
    steps = [s for k in program.kernels for s in (k.schedule.steps if isinstance(k.schedule, Chain) else (k,))]
    return [s.schedule.variant for s in steps if isinstance(s.schedule, Contract | Winograd)]


def test_tuning_measures_variants_and_builds_take_the_quickest(database: Profiles, tmp_path: Path) -> None:
    usual = taken()
    done = edgec.tune(convolutions(), 120.0, trials=4)
    where = target(resolve({}))
    known = {name: s for name, s in database.known(where).items() if name.startswith("product ")}
    assert done.skipped == 0 and done.measured >= len(known) >= 6
    assert edgec.tune(convolutions(), 120.0, trials=4).measured == 0
    keys = {name.partition("/")[0] for name in known}
    assert len(keys) == 2
    # Whatever was measured: from here on another variant of each product is the quickest by far.
    variants = {key: sorted(n.partition("/")[2] for n in known if n.startswith(key)) for key in keys}
    other = {key: next(w for w in variants[key] if w not in usual) for key in keys}
    database.put([Measured(entry(key, variant), where, 1e-9, "made up") for key, variant in other.items()])
    assert set(taken()) == set(other.values())
    built = edgec.build(convolutions(), tmp_path / "tuned")
    assert read_lock(tmp_path / "tuned")["choices"].items() >= other.items()
    assert edgec.check(convolutions(), samples=1).ok
    database.clear()
    assert taken() == usual
    again = edgec.build(convolutions(), tmp_path / "again", compile=False, lock=tmp_path / "tuned")
    assert dict(built.stages["emit"].files) == dict(again.stages["emit"].files)


def test_exact_sums_take_no_form_of_winograd(database: Profiles) -> None:
    edgec.tune(convolutions(), 120.0)
    where = target(resolve({}))
    forms = [n for n in database.known(where) if "/winograd" in n]
    assert forms
    database.put([Measured(name, where, 1e-9, "made up") for name in forms])
    assert not any(variant and variant.startswith("winograd") for variant in taken(numeric="exact"))


def test_to_leave_zeros_out_is_one_more_variant(database: Profiles) -> None:
    (usual,) = taken(product(0.8))
    assert usual is not None and usual.startswith("sparse ")
    assert edgec.tune(product(0.8), 120.0).skipped == 0
    where = target(resolve({}))
    names = [n for n in database.known(where) if n.startswith("product ")]
    dense = [n for n in names if "/sparse" not in n]
    assert len(names) - len(dense) >= 2 and dense
    database.put([Measured(n, where, 1e-3 if n in dense else 1e-9, "made up") for n in names])
    assert str(taken(product(0.8))[0]).startswith("sparse ")
    database.put([Measured(n, where, 1e-9 if n == dense[-1] else 1e-3, "made up") for n in names])
    assert taken(product(0.8)) == [dense[-1].partition("/")[2]]
    kernel = run(product(0.8).SerializeToString(), Context(resolve({"device": "host"})))["schedule"].kernels[-1]
    assert kernel.sparsity is not None and not kernel.sparsity.taken
    # Other zeros in weights of the same shape are another product.
    assert str(taken(product(0.9))[0]).startswith("sparse ")


#: GPUs whose products are tiles of threads, of tensor cores, of halves, and blocks of registers.
GPUS = (("jetson_nano", "fp32"), ("cuda_sm90", "fp32"), ("cuda_sm90", "fp16"), ("mali_g78", "fp32"))


@pytest.mark.parametrize(("device", "precision"), GPUS)
def test_a_gpu_has_variants_too(device: str, precision: str, database: Profiles) -> None:
    """Every one that is proposed can be gone, and the one that was measured as the quickest is."""
    settings = {"device": device, "precision": precision, **({} if device == "mali_g78" else {"compiler": "emulated"})}
    first = edgec.build(convolutions(), compile=False, variants={}, **settings).stages
    assert first.context.variants is not None
    products = first.context.variants.seen
    proposed = {key: product.variants("reassociates") for key, product in products.items()}
    assert len(products) == 2 and all(len(variants) > 3 for variants in proposed.values())
    for product in products.values():  # the cheapest by the same prices is what a build takes
        flat = flatten(product.block, product.views, Weights())
        record = choose(product.block, flat, product.device, Weights())
        assert gpu.proposed(record, product.device)[0] == product.usual
    for number in range(3):
        variants = {key: names[number] for key, names in proposed.items()}
        program = edgec.build(convolutions(), compile=False, variants=variants, **settings).program
        gone = [name for k in program.kernels if (name := k.schedule.variant) is not None]
        assert gone == list(variants.values())
    where = target(resolve(settings))
    names = [(entry(key, variant), k) for key, variants in proposed.items() for k, variant in enumerate(variants)]
    database.put([Measured(name, where, 1e-9 if k == 2 else 1e-3, "made up") for name, k in names])
    program = edgec.build(convolutions(), compile=False, **settings).program
    gone = [name for k in program.kernels if (name := k.schedule.variant) is not None]
    assert gone == [variants[2] for variants in proposed.values()]
