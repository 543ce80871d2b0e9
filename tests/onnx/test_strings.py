"""Strings as rows of bytes: operators on them against Python's own, at run time, and what is refused."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

import edgec
from edgec.check.reference import Reference
from edgec.errors import EdgecError, ModelError, UsageError
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.regular import table
from edgec.frontend.onnx.strings import rows_of, strings_of
from edgec.ir import evaluate
from edgec.ir.graph import Graph

WORDS = ["a-b--c", "", " the  quick fox ", "-", "no", "éa-", "x" * 12]
TEXT = TensorProto.STRING


def network(nodes: list[Any], inputs: dict[str, list[int]], kind: int = TEXT, outputs: tuple[str, ...] = ("y",)) -> Any:
    made = helper.make_model(
        helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info(n, TEXT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.INT64 if k else kind, None) for k, n in enumerate(outputs)],
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)],
    )  # fmt: skip
    made.ir_version = 9
    return made


def run(model: Any, **words: Any) -> dict[str, np.ndarray]:
    rows = {name: rows_of(np.array(given, object), 20) for name, given in words.items()}
    graph: Graph = import_model(model, {name: r.shape for name, r in rows.items()})
    assert {n.attributes["name"] for n in graph.inputs} == set(words)  # nothing is folded
    return dict(evaluate.run(graph, rows))


@pytest.mark.parametrize("limit", [None, 0, 1, 2])
@pytest.mark.parametrize("delimiter", ["", "-", "--", "ab", "aba", "a-" * 9, "ab" * 11, "a-b" * 40])
def test_split(delimiter: str, limit: int | None) -> None:
    given = {} if limit is None else {"maxsplit": limit}
    node = helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter=delimiter, **given)
    words = [*WORDS, "cabab", "--ab--", "ababaxaba", "-----"]
    found = run(network([node], {"x": [len(words)]}, outputs=("y", "n")), x=words)
    want = [w.split(delimiter or None, -1 if limit is None else limit) for w in words]
    assert found["n"].tolist() == [len(w) for w in want]
    most = max(map(len, want))
    assert strings_of(found["y"]).tolist() == [w + [""] * (most - len(w)) for w in want]


def test_concatenation_and_moves() -> None:
    nodes = [
        helper.make_node("StringConcat", ["x", "x"], ["twice"]),
        helper.make_node("Concat", ["x", "twice"], ["both"], axis=0),
        helper.make_node("Constant", [], ["places"], value_ints=[8, 1, 6]),
        helper.make_node("Gather", ["both", "places"], ["y"], axis=0),
    ]
    found = run(network(nodes, {"x": [len(WORDS)]}), x=WORDS)
    assert strings_of(found["y"]).tolist() == [WORDS[1] * 2, WORDS[1], WORDS[6]]


def test_equality_with_constants() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_strings=["-", "a longer one than the rows are"]),
        helper.make_node("Unsqueeze", ["x", "axis"], ["column"]),
        helper.make_node("Equal", ["column", "c"], ["y"]),
    ]
    model = network(nodes, {"x": [len(WORDS)]}, TensorProto.BOOL)
    model.graph.initializer.append(helper.make_tensor("axis", TensorProto.INT64, [1], [1]))
    assert run(model, x=WORDS)["y"].tolist() == [[w == "-", False] for w in WORDS]


@pytest.mark.parametrize("action", ["UPPER", "LOWER", "NONE"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_normalizer(action: str, sensitive: int) -> None:
    words = ["The", "fox", "the", "End", ""]
    node = helper.make_node(
        "StringNormalizer",
        ["x"],
        ["y"],
        case_change_action=action,
        is_case_sensitive=sensitive,
        stopwords=["the", "end"],
    )
    kept = [w for w in words if (w if sensitive else w.lower()) not in ("the", "end")]
    change = {"UPPER": str.upper, "LOWER": str.lower, "NONE": str}[action]
    assert strings_of(run(network([node], {"x": [5]}), x=words)["y"]).tolist() == [change(w) for w in kept]
    assert strings_of(run(network([node], {"x": [2]}), x=["the", "end"])["y"]).tolist() == [""]
    if action != "NONE":
        with pytest.raises(EdgecError, match="case of its own length"):
            run(network([node], {"x": [1]}), x=["Ⓐ"])


def test_encoders() -> None:
    words = ["b", "é", "", "bb"]
    to_words = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["b", "é"], values_strings=["one", "two"],
        default_string="none",
    )  # fmt: skip
    assert strings_of(run(network([to_words], {"x": [4]}), x=words)["y"]).tolist() == ["one", "two", "none", "none"]
    hot = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["b", ""])
    found = run(network([hot], {"x": [4]}, TensorProto.FLOAT), x=words)["y"]
    assert found.tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]
    counts = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
        ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], pool_strings=["b", "é", "b", "é"],
    )  # fmt: skip
    assert run(network([counts], {"x": [5]}, TensorProto.FLOAT), x=[*words, "b"])["y"].tolist() == [2, 1, 1]


PATTERNS = [
    r"(\W|^)[\w.\-]{0,5}@(ab|c)\.c(\W|$)", r"a*?b+c?", r"(?:ab|a)(bc|c)", r"\bab\b.?\Bc", "[^a-c]+|é{2}",
    r"[[:alpha:]\d-]*",
    r"(a{2,3}){2}|x{0}b", ".*a.", r"(?P<n>a|b|)*c", r"\x41\.\\",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_what_pythons_do(pattern: str) -> None:
    random = np.random.default_rng(7)
    following, matches = table(pattern)
    wanted = re.compile(pattern.replace("[:alpha:]", "a-zA-Z"), re.ASCII)
    verdicts = set()
    for _ in range(400):
        word = "".join(random.choice([*"aabbcc@.-\n é\\A"], int(random.integers(0, 9))))
        state = 0
        for byte in word.encode():
            state = following[state][byte]
        want = wanted.fullmatch(word) is not None
        assert bool(matches[state]) == want, word
        verdicts.add(want)
    for word in ("aaaa", "ab", "@c.c", "éé", "A.\\", "ab c", "ca!"):
        state = 0
        for byte in word.encode():
            state = following[state][byte]
        assert bool(matches[state]) == (wanted.fullmatch(word) is not None), word


@pytest.mark.parametrize(
    "pattern, told",
    [("(a", "its"), ("a)", "its"), ("a**", "repetition"), ("*a", "nothing"), (r"(a)\1", "unknown"), ("[b-a]", "range"),
     ("a{1001}", "repetition"), ("(?i)a", "flags"), ("[é]", "beyond ASCII"), ("[[:foo:]]", "class"), ("a\\", "early"),
     ("a{" + "9" * 5000 + "}", "nine digits"), ("(?i)a", "not supported here"), (r"(?:\w?){999}", "too large"),
     ("(((a{50}){50}){50})", "too large"), ("(a|b)*a(a|b){14}", "too many states"), ("(" * 60, "brackets")],
)  # fmt: skip
def test_patterns_that_are_refused(pattern: str, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        table(pattern)


def test_long_strings_are_matched_in_kernels_of_their_own() -> None:
    """A lookup in a lookup, 80 times, is no one formula."""
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(ab)*")
    built = edgec.build(network([node], {"x": [3]}, TensorProto.BOOL), shapes={"x": (3, 80)})
    words = rows_of(np.array(["ab" * 40, "", "aba"], object), 80)
    assert built.run({"x": words})["y"].tolist() == [True, True, False]


def test_constants_of_any_width_are_matched_and_split() -> None:
    """At build time a step is no node."""
    wide = helper.make_tensor("k", TEXT, [2], [b"a" * 9000, b"a" * 8999 + b"b"])
    model = network([helper.make_node("RegexFullMatch", ["k"], ["y"], pattern="a*")], {}, TensorProto.BOOL)
    model.graph.initializer.append(wide)
    begun = time.process_time()
    assert evaluate.run(import_model(model), {})["y"].tolist() == [True, False]
    assert time.process_time() - begun < 5
    split = network([helper.make_node("StringSplit", ["k"], ["y", "n"], delimiter="aa", maxsplit=3)], {}, TEXT, "yn")
    split.graph.initializer.append(helper.make_tensor("k", TEXT, [2], [b"a" * 999, b"ba"]))
    found = evaluate.run(import_model(split), {})
    assert found["n"].tolist() == [4, 1]
    assert strings_of(found["y"]).tolist() == [["", "", "", "a" * 993], ["ba", "", "", ""]]


@pytest.mark.parametrize("node", [helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="a*"),
                                  helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter="aa")])  # fmt: skip
def test_too_wide_inputs_are_refused(node: Any) -> None:
    with pytest.raises(ModelError, match="strings of 9000 bytes are too wide"):
        import_model(network([node], {"x": [1]}, TensorProto.BOOL), {"x": (1, 9000)})


def test_refusals_name_the_operand_and_the_width() -> None:
    node = helper.make_node("Hardmax", ["x"], ["y"])
    with pytest.raises(ModelError):
        run(network([node], {"x": [3]}), x=["a", "b", "c"])
    copy = network([helper.make_node("Identity", ["x"], ["y"])], {"x": [3]})
    with pytest.raises(UsageError, match="open") as error:
        import_model(copy)
    assert "--shape x=3,32" in str(error.value.hint)
    with pytest.raises(ModelError, match="4 bytes for a width of 3"):
        rows_of(np.array(["abcd"]), 3)
    with pytest.raises(ModelError, match="zero byte"):
        rows_of(np.array(["a\0b"], object))
    wrong = helper.make_tensor("c", TEXT, [1], [b"a"])
    wrong.dims[0] = 2
    damaged = network([helper.make_node("Identity", ["c"], ["y"])], {})
    damaged.graph.initializer.append(wrong)
    with pytest.raises(ModelError, match="has 1 strings"):
        import_model(damaged)


def test_rows_are_numpys_own() -> None:
    words = np.array(["ab", "", "éx"])
    numpys = np.char.encode(words, "utf-8").astype("S6").view(np.uint8).reshape(3, 6)
    assert np.array_equal(rows_of(words, 6), numpys)
    assert strings_of(numpys).tolist() == words.tolist()


def labels(rows: int | str) -> Any:
    """A classifier's last steps as skl2onnx writes them: the label of the best score, and a number for each word."""
    return parse_model(
        f"""<ir_version: 8, opset_import: ["": 13, "ai.onnx.ml": 2]>
        net (float[{rows}, 3] x, string[{rows}, 1] w) => (string[{rows}] label, float[{rows}, 1] known)
        <string[3] names = {{"ant", "bee", "a longer one"}}, int64[1] flat = {{-1}}> {{
            best = ArgMax <axis = 1> (x)
            found = ai.onnx.ml.ArrayFeatureExtractor (names, best)
            label = Reshape (found, flat)
            known = ai.onnx.ml.LabelEncoder
                <keys_strings = ["red", "green"], values_floats = [1.5, 2.5], default_float = 0.0> (w)
        }}"""
    )


def test_open_batches_of_strings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leaves the shape of 'w' open") as refused:
        edgec.build(labels("rows"), tmp_path / "net", dims={"rows": (1, 4)})
    assert "--dim w.2=32" in str(refused.value)
    with pytest.raises(UsageError, match="'rows' is given a range, and the size 4 by the shape of 'w'"):
        edgec.build(labels("rows"), tmp_path / "net", dims={"rows": (1, 4)}, shapes={"w": (4, 1, 8)})
    net = edgec.build(labels("rows"), tmp_path / "net", dims={"rows": (1, 4), "w.2": 8})
    x = np.array([[0, 2, 1], [0, 0, 7], [3, 0, 0]], np.float32)
    for rows in (3, 1):
        words = rows_of([["red"], ["blue"], ["green"]][:rows], 8)
        found = net.network.run({"x": x[:rows], "w": words})
        assert strings_of(found["label"]).tolist() == ["bee", "a longer one", "ant"][:rows]
        assert found["known"].tolist() == [[1.5], [0], [2.5]][:rows]


def test_checked_beside_onnxruntime(tmp_path: Path) -> None:
    made = labels(2)
    found = edgec.check(made, shapes={"w": (2, 1, 8)})
    assert found.verdict == "ok" and found.reference.startswith("onnxruntime")
    assert not any(found.unproven.values())  # of words drawn, some are keys of the encoder
    onnx.save(made, tmp_path / "net.onnx")
    assert edgec.bench(tmp_path / "net.onnx", vs="onnxruntime", seconds=0.01, shapes={"w": (2, 1, 8)}).ratio


def test_a_wrong_string_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(self: Reference, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> Any:
        found = usual(self, inputs, outputs)
        return {**found, "label": found["label"] ^ np.array([1] + [0] * (found["label"].shape[1] - 1), np.uint8)}

    usual = Reference.run
    monkeypatch.setattr(Reference, "run", other)
    assert not edgec.check(labels(2), shapes={"w": (2, 1, 8)}).ok
