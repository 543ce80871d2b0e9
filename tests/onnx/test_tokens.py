"""Texts taken apart as scikit-learn's exporter writes it: Tokenizer beside onnxruntime, and letters in another case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

import edgec
from edgec.errors import EdgecError, ModelError
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.strings import rows_of, strings_of
from edgec.ir import evaluate

TEXTS = ["The quick_brown fox 42!", "", "a bb  ccc, dd.e", " Ünïted 中文 x-ray ", "...", "naïve cafés", "#a\tb\nc#"]


def network(shape: list[int | str], **attributes: Any) -> Any:
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="#", **attributes)
    ends = [helper.make_tensor_value_info(n, TensorProto.STRING, s) for n, s in (("x", shape), ("y", None))]
    made = helper.make_model(
        helper.make_graph([node], "net", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
    )
    made.ir_version = 8
    return made


@pytest.mark.parametrize("fewest", [1, 2, 4])
@pytest.mark.parametrize(
    "how",
    [
        "[a-zA-Z0-9_]+", ".", r"\w+", "[^ ]+", "[^ ]", "[a-z]{2,}", r"\w\w+", r"(?u)\b\w\w+\b", "[[:alpha:]]+",
        r"[\w-]+", [" "], [" ", ",", r"[.]", r"\?", "!"], [""],
    ],
)  # fmt: skip
def test_tokens_are_those_of_onnxruntime(how: str | list[str], fewest: int) -> None:
    fewest = 1 if how in (".", [""]) else fewest  # onnxruntime takes no other number for letters
    given = {"tokenexp": how} if isinstance(how, str) else {"separators": how}
    made = network([len(TEXTS)], mark=0, mincharnum=fewest, **given)
    x = np.array(TEXTS, object)
    if how != r"(?u)\b\w\w+\b":  # RE2 has no flag u, which scikit-learn's own pattern has
        (want,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    else:
        want = np.array([["The", "quick_brown", "fox", "42"]], object)
        x = x[:1]
    rows = rows_of(x, 40)
    graph = import_model(made if len(x) > 1 else network([1], mark=0, mincharnum=fewest, **given), {"x": rows.shape})
    got = strings_of(evaluate.run(graph, {"x": rows})["y"])
    if len(x) == 1:
        want = np.array([[w for w in want[0] if len(w) >= fewest]], object)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("how", ["[é]+", "[^é]+", "a|b", "(ab)+", r"\bx\b", "[a-z]*"])
def test_other_patterns_are_refused(how: str) -> None:
    with pytest.raises(ModelError, match=r"not supported|beyond ASCII"):
        import_model(network([2], tokenexp=how), {"x": (2, 8)})


def test_counts_of_words_in_an_open_batch(tmp_path: Path) -> None:
    """Words and pairs of words of each text, none of which may be in it: what CountVectorizer becomes."""
    made = parse_model(
        """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        net (string[texts, 1] x) => (float[texts, 4] y) {
            words = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = "#", tokenexp = "[a-z]+"> (x)
            flat = Flatten (words)
            y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 0,
                ngram_counts = [0, 3], ngram_indexes = [0, 1, 2, 3], pool_strings = ["a", "bb", "#", "a", "bb"]> (flat)
        }"""
    )
    built = edgec.build(made, tmp_path / "net", dims={"texts": (1, 4), "x.1": 1, "x.2": 16})
    for texts in (["a bb a bb", "cc", "bb bb a"], ["."]):
        rows = rows_of(np.array(texts)[:, None], 16)
        pairs = [list(zip(t.split(), t.split()[1:])) for t in texts]
        want = [[t.split().count("a"), t.split().count("bb"), 0, p.count(("a", "bb"))] for t, p in zip(texts, pairs)]
        assert built.network.run({"x": rows})["y"][:, [0, 1, 3]].tolist() == np.array(want)[:, [0, 1, 3]].tolist()
    assert edgec.check(made, shapes={"x": (3, 1, 16)}).verdict == "ok"


@pytest.mark.parametrize("action", ["LOWER", "UPPER"])
def test_letters_of_two_bytes_change_their_case(action: str) -> None:
    change = str.lower if action == "LOWER" else str.upper
    letters = [chr(c) for c in (*range(32, 127), *range(0xA0, 0x588))]
    words = [t for t in letters if len(change(t)) == 1 and len(change(t).encode()) == len(t.encode()) and t != "\u0130"]
    words += ["中文 ÄÖÜ äöü", "“Я” 😀 Ж", "แก ะ", "한글 ß", "Ωa"]
    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action=action, is_case_sensitive=1)
    ends = [helper.make_tensor_value_info(n, TensorProto.STRING, s) for n, s in (("x", ["n"]), ("y", None))]
    made = helper.make_model(helper.make_graph([node], "net", ends[:1], ends[1:]))

    def run(texts: list[str]) -> list[str]:
        rows = rows_of(np.array(texts, object), 32)
        graph = import_model(made, {"x": rows.shape})
        return list(strings_of(evaluate.run(graph, {"x": rows})["y"]).tolist())

    assert run(words) == [change(w).replace("SS", "ß") for w in words]
    for wrong in ("İ", "ﬁ", "Ⓐ") if action == "LOWER" else ("ſ", "ı", "ⓐ", "ẞ"):
        with pytest.raises(EdgecError, match="case of its own length"):
            run([wrong])
