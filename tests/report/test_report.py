"""The document of a build and its page: what is in them agrees with the build, and the page is one file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.errors import UsageError
from edgec.options.budgets import read_budgets
from edgec.report import measure, traffic
from edgec.report import page as pages
from edgec.report.answers.document import Document
from edgec.report.budget import held
from edgec.report.document import read_document, write_document
from edgec.report.fit import fit
from edgec.report.page import page
from edgec.report.record import finite

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> edgec.Built:
    return edgec.build(DIGITS, tmp_path_factory.mktemp("report") / "net")


@pytest.fixture(scope="module")
def facts(built: edgec.Built) -> measure.Facts:
    return measure.measure(built)


@pytest.fixture(scope="module")
def document(built: edgec.Built, facts: measure.Facts) -> dict[str, Any]:
    return measure.describe(built, facts)


def test_stages_are_graphs_in_order(document: dict[str, Any]) -> None:
    assert [s["name"] for s in document["stages"]] == ["import", "simplify", "compress", "fuse", "schedule"]
    for stage in [*document["stages"], document["operators"]]:
        assert [n["id"] for n in stage["nodes"]] == list(range(len(stage["nodes"])))
        assert all(0 <= a < b < len(stage["nodes"]) for a, b in stage["edges"]), stage["name"]
        reached = {n for e in stage["edges"] for n in e}
        assert reached == set(range(len(stage["nodes"]))), "nothing floats"


def test_every_operator_is_in_a_block(document: dict[str, Any]) -> None:
    fuse = next(s for s in document["stages"] if s["name"] == "fuse")
    inside = {k for n in fuse["nodes"] for k in n.get("inside", ())}
    left = [n["op"] for n in document["operators"]["nodes"] if n["id"] not in inside]
    assert set(left) <= {"input", "output", "pad"}


def test_kernels_have_what_was_measured(built: edgec.Built, document: dict[str, Any]) -> None:
    kernels = document["kernels"]
    assert len(kernels) == built.kernels
    assert all(k["predicted_us"] > 0 for k in kernels)
    # The smallest kernels here take less than what calling them does, which is taken off.
    assert all(k["measured_us"] >= 0 for k in kernels) and any(k["measured_us"] > 0 for k in kernels)
    assert all(k["function"] in document["functions"] for k in kernels)
    assert all(k["max_rel"] < 1e-4 for k in kernels)
    weights = {k["sparsity"] for k in kernels if k["sparsity"] is not None}
    assert weights and all(0 <= s < 1 for s in weights)


def test_memory_map_is_the_arena(built: edgec.Built, document: dict[str, Any]) -> None:
    memory = document["memory"]
    assert max(memory["live"]) == memory["arena_bytes"] == built.arena_bytes  # this network is placed perfectly
    for b in memory["buffers"]:
        assert b["offset"] >= 0 and b["offset"] + b["bytes"] <= built.arena_bytes and b["first"] <= b["last"]
    for a in memory["buffers"]:
        for b in memory["buffers"]:
            together = a["first"] <= b["last"] and b["first"] <= a["last"] and a is not b
            apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
            assert not together or apart or b["name"] == a["over"] or a["name"] == b["over"]


def test_the_document_is_as_its_schema_says(document: dict[str, Any]) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    from answer_schemas import faults

    plain = finite(document)
    assert faults(plain, Document) is None
    assert "'kernel' is a required property" in str(faults({**plain, "kernels": [{}]}, Document))
    assert "'more' was unexpected" in str(faults({**plain, "more": 1}, Document))


def test_the_page_is_one_file_with_everything(document: dict[str, Any]) -> None:
    text = page(document)
    packed = re.search(r'id="data">([^<]*)<', text)
    assert packed is not None
    inside = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert inside["kernels"] == json.loads(json.dumps(document["kernels"]))
    assert not re.search(r'<(script|link|img|iframe)[^>]*\s(src|href)="(?!data:)', text)
    assert "connect-src 'none'" in text
    assert page(document) == text, "the same document, the same page"


def test_names_of_a_model_do_nothing_in_the_page(document: dict[str, Any]) -> None:
    bad = "</script><script>alert(1)</script>"
    text = page({**document, "model": bad})
    assert bad not in text and "&lt;/script&gt;" in text


def test_a_document_reads_back(document: dict[str, Any], tmp_path: Path) -> None:
    write_document(document, tmp_path)
    assert read_document(tmp_path)["kernels"] == read_document(tmp_path / "report.json")["kernels"]
    with pytest.raises(UsageError, match="there is no report here"):
        read_document(tmp_path / "nowhere")
    (tmp_path / "report.json").write_text(json.dumps({**document, "report_schema": 99}))
    with pytest.raises(UsageError, match="version 99"):
        read_document(tmp_path)


def test_a_build_takes_the_report_of_the_one_before_away(built: edgec.Built, facts: measure.Facts) -> None:
    folder = built.folder
    measure.write(measure.describe(built, facts), folder)
    (folder / "mine.txt").write_text("mine")
    edgec.build(DIGITS, folder, compile=False)
    assert not (folder / "report.json").exists() and not (folder / "report.html").exists()
    assert (folder / "mine.txt").exists()


def test_libraries_are_as_they_were_published() -> None:
    vendor = Path(pages.__file__).parent / "html" / "vendor"
    table = (vendor / "README.md").read_text()
    for path in vendor.glob("*.js"):
        assert sha256(path.read_bytes()).hexdigest() in table, path.name
        assert (vendor / f"{path.name.split('.')[0]}.LICENSE.txt").is_file()


def test_budgets_name_who_costs_most(built: edgec.Built, facts: measure.Facts) -> None:
    asked = read_budgets(["latency_ms=1e-6", "ram_kb=1", "flash_kb=1", "traffic_kb=1", "max_error=0"])
    found = held(built, asked, **facts)
    assert [b["ok"] for b in found] == [False] * 5
    memory, plan = fit(built.program, built.options.device), built.stages.plan
    assert plan is not None
    kilobytes = (memory["ram"]["bytes"], memory["flash"]["bytes"], traffic.of_plan(plan).together)
    assert [b["found"] for b in found[1:4]] == [n / 1024 for n in kilobytes]
    for b in found:
        assert 1 <= len(b["largest"]) <= 3, b["name"]
        assert [c["amount"] for c in b["largest"]] == sorted((c["amount"] for c in b["largest"]), reverse=True)
    assert "Relu_2" in found[2]["largest"][0]["what"], "4096 bytes of weights, the most"
    generous = held(built, read_budgets(["latency_ms=1e6", "ram_kb=1e6", "max_error=1"]), **facts)
    assert all(b["ok"] and not b["largest"] for b in generous)
    assert held(built, read_budgets(["max_error=0.25"]), **facts)[0]["limit_text"] == "0.25"
    unmeasured = held(built, read_budgets(["latency_ms=1e6"]))
    assert not unmeasured[0]["ok"], "what was not measured is not met"


@pytest.mark.parametrize("text", ["speed=3", "ram_kb", "ram_kb=much", "ram_kb=-1", "ram_kb=nan"])
def test_budgets_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        read_budgets([text])
