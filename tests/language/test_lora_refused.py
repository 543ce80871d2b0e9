"""Files of adapters that are damaged, hostile, or of a kind that is not supported: refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lora_files as files
import numpy as np
import plain
import pytest
from chance import RANDOM

import edgec
from edgec.artifact.adapter import layout_for, read
from edgec.errors import EdgecError, ModelError, UsageError
from edgec.frontend.language.lora import Layout, layout_in

RANK = 3
WEIGHTS = plain.draw("llama")
FOUND = files.matrices(WEIGHTS, RANK, ["q_proj", "down_proj"])
PREFIX = "base_model.model.model.layers.0.self_attn."


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    model = files.model_file(tmp_path_factory.mktemp("lm"), "llama", WEIGHTS, False)
    found = layout_in(edgec.load(model, context=8, lora="4:q,down").graph)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "LOHA"}, "type LOHA"),
        ({"peft_type": None}, "no 'peft_type'"),
        ({"use_dora": True}, "'use_dora' is set"),
        ({"modules_to_save": ["lm_head"]}, "'modules_to_save' is set"),
        ({"layer_replication": [[0, 1]]}, "'layer_replication' is set"),
        ({"lora_bias": True}, "'lora_bias' is set"),
        *(({"init_lora_weights": start}, "began with") for start in ("pissa", "loftq", "olora", "", 0, 1, [True])),
        ({"r": 8}, "has rank 3, and the description says 8"),
        ({"r": "3"}, "'r' is"),
        ({"lora_alpha": True}, "'lora_alpha' is"),
        ({"lora_alpha": 1e300}, "larger than any number"),
        ({"alpha_pattern": {"(a+)+$": 2}}, "no name of a module"),
        ({"alpha_pattern": {"q_proj": "x"}}, "'q_proj' is"),
        ({"rank_pattern": []}, "'rank_pattern' is"),
    ],
)
def test_descriptions(config: dict[str, Any], message: str, layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read(files.peft_folder(tmp_path / "a", FOUND, **config), layout)
    assert str(tmp_path / "a") in str(caught.value.where)


@pytest.mark.parametrize("start", [True, False, None, "gaussian", "eva", "orthogonal"])
def test_beginnings_that_leave_the_model_as_it_is(start: object, layout: Layout, tmp_path: Path) -> None:
    read(files.peft_folder(tmp_path / "a", FOUND, init_lora_weights=start), layout)


def changed(**changes: np.ndarray | None) -> plain.Arrays:
    """The matrices with some replaced, by the ends of their names."""
    found = {PREFIX + name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in (FOUND | found).items() if value is not None}  # type: ignore[operator]


A, B = "q_proj.lora_A.weight", "q_proj.lora_B.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({A: None}, "one matrix of"),
        ({A: np.ones((RANK, 31), "f")}, r"are \[3, 31\]"),
        ({B: np.ones((65, RANK), "f")}, r"\[65, 3\]"),
        ({B: np.ones((64, RANK + 1), "f")}, r"expected \[rank, 32\] and \[64, rank\]"),
        ({A: np.ones(32, "f"), B: np.ones(64, "f")}, "has rank 32|expected"),
        ({A: np.ones((0, 32), "f"), B: np.ones((64, 0), "f")}, "has rank 0|expected"),
        ({A: np.full((RANK, 32), np.nan, "f")}, "not finite"),
        ({B: np.full((64, RANK), 3e38, "f")}, "not finite"),
        ({"v_proj.lora_A.weight": np.ones((RANK, 32), "f"), "v_proj.lora_B.weight": np.ones((32, RANK), "f")},
         "for which the model has no room"),
        ({"q_proj.bias": np.ones(64, "f")}, "no matrix of a low-rank adapter"),
        ({"q_proj.lora_magnitude_vector": np.ones(64, "f")}, "no matrix of a low-rank adapter"),
        ({"q_proj.lora_embedding_A": np.ones((RANK, 32), "f")}, "no matrix of a low-rank adapter"),
        ({"q_proj.lora_A.default.weight": np.ones((RANK, 32), "f")}, "two matrices A"),
    ],
)  # fmt: skip
def test_matrices(changes: dict[str, Any], message: str, layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read(files.peft_folder(tmp_path / "a", changed(**changes), r=RANK), layout)
    assert str(tmp_path / "a") in str(caught.value.where)


def test_ranks_beyond_the_room(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="ranks up to 4") as refused:
        read(files.peft_folder(tmp_path / "a", files.matrices(WEIGHTS, 6, ["q_proj"])), layout)
    assert refused.value.hint == "build it with --lora 6"


def test_one_product_twice(layout: Layout, tmp_path: Path) -> None:
    found = FOUND | {f"other.{name}": value for name, value in FOUND.items()}
    with pytest.raises(ModelError, match="are the same product"):
        read(files.peft_folder(tmp_path / "a", found), layout)


def test_nothing_in_it(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no matrices"):
        read(files.peft_folder(tmp_path / "a", {}), layout)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.type": "model"}, "is a model and no low-rank adapter"),
        ({"adapter.type": "control_vector"}, "no low-rank adapter"),
        ({"adapter.lora.alpha": "x"}, "'adapter.lora.alpha' is"),
        ({"adapter.lora.alpha": float("nan")}, "not finite"),
    ],
)
def test_gguf_of_another_kind(changes: dict[str, Any], message: str, layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(files.gguf_adapter("llama", FOUND, **changes))
    with pytest.raises(ModelError, match=message) as caught:
        read(tmp_path / "a.gguf", layout)
    assert str(tmp_path / "a") in str(caught.value.where)


def test_another_order_of_features(tmp_path: Path) -> None:
    """A model in GGUF with pairs of features, and an adapter of an architecture without them."""
    model = files.model_file(tmp_path, "llama", WEIGHTS, True)
    paired = layout_in(edgec.load(model, context=8, lora=4).graph)
    assert paired is not None and paired.is_paired
    content = files.gguf_adapter("llama", FOUND, **{"general.architecture": "qwen3"})
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(ModelError, match="another order of features"):
        read(tmp_path / "a.gguf", paired)


def test_files_that_are_not_there(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "none", layout)
    folder = files.peft_folder(tmp_path / "a", FOUND)
    (folder / "adapter_config.json").unlink()
    for path in (folder, folder / "adapter_model.safetensors"):
        with pytest.raises(UsageError, match=r"no adapter_config\.json"):
            read(path, layout)
    with pytest.raises(UsageError, match="no room for adapters"):
        layout_for({"context": 8}, "lm")


def test_mutated_files(layout: Layout, tmp_path: Path) -> None:
    """Bytes changed at random, and files cut short: read, or refused with an error of the package."""
    folder = files.peft_folder(tmp_path / "a", FOUND)
    gguf = tmp_path / "a.gguf"
    gguf.write_bytes(files.gguf_adapter("llama", FOUND))
    refused = 0
    for path in (folder / "adapter_model.safetensors", folder / "adapter_config.json", gguf):
        whole = path.read_bytes()
        described = len(whole) if path.suffix == ".json" else min(len(whole), 900)
        for _ in range(150):
            content = bytearray(whole[: RANDOM.integers(0, len(whole)) if RANDOM.random() < 0.3 else len(whole)])
            for at in RANDOM.integers(0, described, RANDOM.integers(1, 4)):
                content[at % max(len(content), 1) : at % max(len(content), 1) + 1] = bytes([RANDOM.integers(0, 256)])
            path.write_bytes(content)
            try:
                assert len(read(gguf if path is gguf else folder, layout)) == layout.bytes
            except EdgecError:
                refused += 1
        path.write_bytes(whole)
        assert len(read(gguf if path is gguf else folder, layout)) == layout.bytes
    assert refused > 200
    assert json.loads((folder / "adapter_config.json").read_text())["r"] == RANK
