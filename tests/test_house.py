"""The house: folders are the pipeline, read aloud."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import edgec
from edgec import pipeline
from edgec.resources import data_folder

PACKAGE = Path(edgec.__file__).parent
ROOT = PACKAGE.parent
#: Folders that are no stage: what the stages work on, what they are written for, and what looks at them.
BESIDE = {
    "artifact", "bench", "check", "cli", "device", "execute", "ir", "link", "ops", "options", "partition", "pipeline",
    "report", "serve", "tune", "differentiate", "pytorch", "certify", "advise", "media", "distribute",
}  # fmt: skip
#: The order in which folders may use each other: the stages, and derivatives, which are taken of a simplified graph.
ORDER = [s.folder for s in pipeline.STAGES]
ORDER.insert(ORDER.index("rewrite") + 1, "differentiate")
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)


def test_folders_are_the_stages() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()}
    assert folders == {s.folder for s in pipeline.STAGES} | BESIDE


def test_stages_are_the_blueprint() -> None:
    assert pipeline.NAMES == ("import", "simplify", "compress", "fuse", "schedule", "emit")


def test_every_stage_is_a_plain_function_of_value_and_context() -> None:
    for stage in pipeline.STAGES:
        assert list(stage.run.__annotations__)[1:] == ["context", "return"], stage.name


@pytest.mark.parametrize("name", ["devices", "codegen_templates", "rewrite_rules", "apps"])
def test_data_folders_are_found(name: str) -> None:
    assert any(data_folder(name).rglob("*"))  # type: ignore[arg-type]


EVERYWHERE = sorted(
    p
    for folder in ("edgec", "rewrite_rules", "tests", "benchmarks", "apps")
    for p in (ROOT / folder).rglob("*.py")
    if "_data" not in p.parts
)


@pytest.mark.parametrize("path", EVERYWHERE, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_say_what_they_are_and_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "no docstring"
    assert text.count("\n") <= 400, "split it: one idea a module"


def test_few_modules_stand_loose() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 13


def _imports() -> dict[str, set[str]]:
    """The modules of the package that each imports, at its top, in a function or for types alone."""
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in MODULES}
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        taken = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "edgec":
                inner = {f"{node.module}.{a.name}" for a in node.names}
                taken |= inner & set(names) | ({str(node.module)} if inner - set(names) else set())
            elif isinstance(node, ast.Import):
                taken |= {a.name for a in node.names} & set(names)
        found[name] = taken - {name}
    return found


def _reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        new = imports.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def test_imports_have_no_circles() -> None:
    """But one: expressions simplify on construction, for which the simplifier and substitution construct others."""
    imports = _imports()
    reached = {name: _reached(name, imports) for name in imports}
    circles = {frozenset(n for n in reached[name] if name in reached[n]) for name in imports if name in reached[name]}
    assert circles == {frozenset({f"edgec.ir.{name}" for name in ("expr", "index", "linear", "substitution")})}


def _imported_at_once() -> dict[str, set[str]]:
    """The modules that importing each one imports before its own classes and functions are there: its parents too."""
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in MODULES}
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        taken = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "edgec":
                taken |= {str(node.module)} | ({f"{node.module}.{a.name}" for a in node.names} & set(names))
            elif isinstance(node, ast.Import):
                taken |= {a.name for a in node.names} & set(names)
        parents = {m.rsplit(".", k)[0] for m in taken for k in range(1, m.count(".") + 1)}
        ours = {name.rsplit(".", k)[0] for k in range(name.count(".") + 1)}  # those are being imported already
        found[name] = (taken | parents) - ours
    return found


def test_every_module_can_be_imported_first() -> None:
    imports = _imported_at_once()
    reached = {name: _reached(name, imports) for name in imports}
    circles = {frozenset(n for n in reached[name] if name in reached[n]) for name in imports if name in reached[name]}
    assert circles == set()


def test_ir_imports_nothing_else() -> None:
    for name, taken in _imports().items():
        if name.split(".")[1:2] == ["ir"]:
            assert all(t.split(".")[1] in ("ir", "errors") for t in taken), (name, taken)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_pipeline_knows_the_order(path: Path) -> None:
    """No stage reaches forward into a later one, except through the pipeline."""
    here = path.relative_to(PACKAGE).parts[0]
    if here not in ORDER:
        return
    later = set(ORDER[ORDER.index(here) + 1 :])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("edgec."):
            assert str(node.module).split(".")[1] not in later, f"imports {node.module}"


def test_no_two_test_files_have_one_name() -> None:
    """They are imported by their names alone."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted(n for n in names if names.count(n) > 1) == []
