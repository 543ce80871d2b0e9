"""Formulas as text: what they compute, on a processor and on emulated CUDA, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chance import RANDOM

import edgec
from edgec.cli.kernel import sizes_of
from edgec.errors import EdgecError
from edgec.frontend.formula import graph_of
from edgec.ir.graph import Graph

Arrays = dict[str, np.ndarray]


def _swish(h: np.ndarray) -> np.ndarray:
    swished: np.ndarray = h / (1 + np.exp(-h))
    return swished


def _complex(v: Arrays) -> Arrays:
    found = (v["ar"] + 1j * v["ai"]) @ (v["br"] + 1j * v["bi"])
    return {"re": found.real, "im": found.imag}


#: Formulas, sizes, and the results in numpy, in double precision.
CASES: dict[str, tuple[str, str, Callable[[Arrays], Arrays]]] = {
    "a product": ("f32 y[m,n] = sum(k) a[m,k] * b[k,n]", "m=33,n=65,k=70", lambda v: {"y": v["a"] @ v["b"]}),
    "an epilogue": (
        "f32 y[m,n] = max(0, alpha * (sum(k) a[m,k]*b[k,n]) + bias[n]) - 2.5e-1",
        "m=7,n=64,k=130",
        lambda v: {"y": np.maximum(v["alpha"] * (v["a"] @ v["b"]) + v["bias"], 0) - 0.25},
    ),
    "max-plus": (
        "f32 y[m,n] = max(k) (a[m,k] + b[k,n])", "m=20,n=31,k=17",
        lambda v: {"y": (v["a"][:, :, None] + v["b"][None]).max(1)},
    ),
    "complex": (
        "f32 re[m,n] = sum(k) (ar[m,k]*br[k,n] - ai[m,k]*bi[k,n]); "
        "f32 im[m,n] = sum(k) (ar[m,k]*bi[k,n] + ai[m,k]*br[k,n])",
        "m=12,n=30,k=17", _complex,
    ),
    "bytes": ("i32 y[m,n] = sum(k) a:i8[m,k] * b:i8[n,k]", "m=19,n=30,k=64", lambda v: {"y": v["a"] @ v["b"].T}),
    "a convolution": (
        "f32 y[i,c] = sum(r,d) x[2*i+r,d] * w[r,d,c]", "i=11,c=9,r=3,d=5",
        lambda v: {"y": sum(v["x"][r : r + 21 : 2] @ v["w"][r] for r in range(3))},
    ),
    "formulas one after the other": (
        "f32 h[m,n] = sum(k) a[m,k]*b[k,n]; f32 y[m,n] = h[m,n] / (1 + exp(-h[m,n]))", "m=20,n=32,k=64",
        lambda v: {"y": _swish(v["a"] @ v["b"])},
    ),
    "indices as numbers": (
        "f32 y[m,n] = select(n <= m, a[m,n], m - n)", "m=9,n=9",
        lambda v: {"y": np.where(np.tri(9, dtype=bool), v["a"], np.arange(9)[:, None] - np.arange(9))},
    ),
    "one number": ("f32 y = sum(i) x[i] * x[i] / 2", "i=1000", lambda v: {"y": (v["x"] * v["x"]).sum() / 2}),
    "an index of extent 1": ("f32 y[m,n] = a[m,0] * b[n]", "m=1,n=5", lambda v: {"y": v["a"] * v["b"]}),
}  # fmt: skip


def drawn(graph: Graph) -> Arrays:
    found = {}
    for n in graph.inputs:
        values = RANDOM.standard_normal(n.type.shape) * (30 if n.type.dtype == "i8" else 1)
        found[str(n.attributes["name"])] = values.astype(np.int8 if n.type.dtype == "i8" else np.float32)
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{}, {"device": "cuda_sm90", "compiler": "emulated"}])
def test_what_a_formula_computes(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    text, sizes, reference = CASES[name]
    graph = graph_of(text, sizes_of([sizes]))
    arrays = drawn(graph)
    want = reference({k: v.astype(np.float64) for k, v in arrays.items()})
    got = edgec.build(graph, tmp_path / "out", start="simplify", **options).run(arrays)
    assert got.keys() == want.keys()
    for key, values in want.items():
        assert got[key].shape == np.shape(values)
        np.testing.assert_allclose(got[key], values, rtol=0, atol=1e-5 * max(np.abs(values).max(), 1e-30))


def test_one_formula_is_one_kernel() -> None:
    text, sizes, _ = CASES["an epilogue"]
    built = edgec.build(graph_of(text, sizes_of([sizes])), start="simplify", compile=False)
    assert built.kernels == 1 and [n.attributes["name"] for n in built.graph.inputs] == ["alpha", "a", "b", "bias"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no formula"),
        ("f32 y[m] = ", "expected an operand"),
        ("g32 y[m] = a[m]", "no type"),
        ("f32 y[m] = a[q]", "'q' has no size"),
        ("f32 y[m] = sum(q) a[m,q]", "'q' has no size"),
        ("f32 y[m] = max(q) a[m,q]", "'q' has no size"),
        ("f32 y[m] = a[k]", "nothing runs over the index 'k'"),
        ("f32 y[m] = sum(m) a[m]", "'m' has a meaning here already"),
        ("f32 y[m,m] = a[m]", "comes twice"),
        ("f32 y[m] = a[m-1]", "is -1 at its least"),
        ("f32 y[m] = a[m // k]", "nothing runs over"),
        ("f32 y[m] = a[m] + a[m,0]", "is read as"),
        ("f32 y[m] = sin2(a[m])", "no function 'sin2'"),
        ("f32 y[m] = exp(a[m], a[m])", "takes 1 arguments"),
        ("f32 y[m] = a[m] < 1", "its elements are bool"),
        ("f32 y[m] = (a[m] < 1) + 1", "'add' of bool"),
        ("f32 y[m] = a[m] b[m]", "expected the end"),
        ("f32 y[m] = a[m] $ 2", "cannot read '$ 2'"),
        ("f32 y[m] = y[m]", "read before it is defined"),
        ("f32 y[m] = a[m]; f32 y[m] = b[m]", "defined twice"),
        ("f32 y[m] = " + "(" * 80 + "a[m]" + ")" * 80, "brackets"),
        ("f32 y[m] = " + "a[m] + " * 1000 + "1", "characters"),
    ],
)
def test_what_is_no_formula(text: str, said: str) -> None:
    with pytest.raises(EdgecError) as problem:
        graph_of(text, {"m": 4, "k": 3})
    assert said in str(problem.value)


@pytest.mark.parametrize("given", ["m", "m=x", "m=1.5", "=3", "m=3,m=4", "m=-1", "m=1234567890123"])
def test_what_is_no_size(given: str) -> None:
    with pytest.raises(EdgecError):
        sizes_of([given])


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(EdgecError, match="the size of 'm' is 0"):
        graph_of("f32 y[m] = a[m]", {"m": 0})
