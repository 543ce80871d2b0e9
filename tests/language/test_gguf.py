"""GGUF files: their tensors as stored, and files that are damaged or hostile."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from gguf_files import NUMBERS, drawn, gguf_file, llama

import edgec
from edgec.errors import EdgecError, ModelError, UsageError
from edgec.frontend.gguf import parse
from edgec.frontend.gguf.blocks import Blocks
from edgec.frontend.gguf.importer import import_gguf, weight_of
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph


@pytest.mark.parametrize("name", NUMBERS)
def test_tensors_are_what_the_reference_reads(name: str) -> None:
    """Every bit pattern of a block, held against the `gguf` package; finite numbers alone."""
    quants = pytest.importorskip("gguf.quants", reason="the gguf package is not installed")
    import gguf

    _, shape, content = drawn(name, (3, 512))
    model = parse(gguf_file({"general.architecture": "llama"}, {"w": (name, shape, content)}))
    found = model.tensor("w")
    got = found.dequantized() if isinstance(found, Blocks) else found
    raw = np.frombuffer(content, np.uint8).reshape(3, -1)
    want = quants.dequantize(raw, gguf.GGMLQuantizationType[name])
    assert np.array_equal(got, want.reshape(3, 512).astype(np.float32))
    formula = run(Graph((), (("w", weight_of(model, "w").node),)), {})["w"]
    assert np.abs(formula - got).max() <= 1e-6 * np.abs(got).max()


def test_metadata() -> None:
    values = {"a": 3, "b": 0.5, "c": "text", "d": True, "e": ["x", "yé"], "f": [1.0, 2.0]}
    model = parse(gguf_file(values, {}))
    assert model.metadata["a"] == 3 and model.metadata["c"] == "text" and model.metadata["d"] is True
    assert model.metadata["e"] == (b"x", "yé".encode())
    assert np.array_equal(np.asarray(model.metadata["f"]), [1, 2])
    with pytest.raises(ModelError, match="no 'z'"):
        model.integer("z")
    with pytest.raises(ModelError, match="no such value"):
        model.integer("c")


def test_cut_off_anywhere() -> None:
    whole = llama(layers=1)
    head = len(whole) - sum(t.bytes for t in parse(whole).tensors.values())
    for end in [*range(0, head, 13), head, *range(head, len(whole), 9001), len(whole) - 1]:
        with pytest.raises(EdgecError):
            import_gguf(parse(whole[:end]))


def test_damaged_anywhere() -> None:
    """One byte or eight changed in the description: an error of edgec's, or a model that is as well described."""
    whole = llama(layers=1)
    head = 2000
    for _ in range(400):
        damaged = bytearray(whole)
        at = int(RANDOM.integers(4, head))
        count = 1 if RANDOM.integers(0, 2) else 8
        damaged[at : at + count] = RANDOM.integers(0, 256, count, dtype=np.uint8).tobytes()
        try:
            parse(bytes(damaged))
        except EdgecError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "longer"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**40), "array"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 4, 2**40), "ends"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1), "array"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 1, 2**62, 0, 0), "ends at byte"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 1, 33, 2, 0), "cannot be"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 1, 4, 0, 2**62), "ends at byte"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 1, 256, 16, 0), "IQ2_XXS"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<I", 2**31), "dimensions"),
    ],
)
def test_hostile(content: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse(content)


@pytest.mark.parametrize("alignment", [0, 3, 24, 1 << 21, "32"])
def test_alignments_that_are_none(alignment: object) -> None:
    """Another place of every tensor than the one that its writer meant."""
    with pytest.raises(ModelError, match="alignment of tensors is no power of two"):
        parse(llama(**{"general.alignment": alignment}))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"general.architecture": "mamba"}, "'mamba', which is not supported"),
        ({"llama.attention.head_count_kv": 3}, "cannot share 3"),
        ({"llama.block_count": 3}, r"no weight 'blk.1.attn_norm.weight'"),
        ({"llama.block_count": 10**9}, "layers"),
        ({"llama.embedding_length": 320}, "expected"),
        ({"llama.rope.scaling.type": "yarn"}, "yarn"),
        ({"llama.rope.dimension_count": 7}, "rotated in pairs"),
    ],
)
def test_refused_by_name(more: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_gguf(parse(llama(layers=1, **more)))


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "lm.gguf"
    path.write_bytes(llama(layers=1))
    assert edgec.load(path, context=32).graph.inputs[2].type.shape[2] == 32 + 31
    with pytest.raises(UsageError, match="trained for 96"):
        edgec.load(path, context=97)
    with pytest.raises(UsageError, match="give --context"):
        edgec.load(path, dims={"n": (1, 2, 1)})
