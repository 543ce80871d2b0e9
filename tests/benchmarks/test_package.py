"""The benchmarks are a package: every module imports, answers --help, and shadows nobody else's."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ROOT

MODULES = sorted(
    ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for p in (ROOT / "benchmarks").rglob("*.py")
)
#: Packages that only some benchmarks need, each installed by hand or in an environment of its own.
OPTIONAL = {
    "ai_edge_litert", "ai_edge_quantizer", "coverage", "cv2", "egglog", "egg_smol", "litert_torch", "nnsmith",
    "onnxsim", "onnxslim", "PIL", "openvino", "playwright", "selenium", "sklearn", "sympy", "timm", "torch",
    "torchvision", "transformers", "z3",
}  # fmt: skip


def text_of(module: str) -> str:
    path = ROOT.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        assert name in OPTIONAL, missing
        pytest.skip(f"{name} is not installed")


def test_what_tests_import_needs_no_optional_package() -> None:
    """A test file that imports a benchmark is collected where only the test extra is installed."""
    extra = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\ntest = [")[2].partition("\n]")[0]
    names = {"ai_edge_litert": "ai-edge-litert", "sklearn": "scikit-learn", "z3": "z3-solver"}
    missing = sorted(p for p in OPTIONAL if f'"{names.get(p, p)}>' not in extra)
    assert "coverage" in missing and "playwright" not in missing
    wanted = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if "importorskip" in ast.unparse(node):
                break  # the rest of the file has what it asks for
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "benchmarks":
                wanted |= {str(node.module)} | {f"{node.module}.{a.name}" for a in node.names} & set(MODULES)
    assert len(wanted) > 20
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({missing!r}))  # each import of one fails
for module in {sorted(wanted)!r}:
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(module, error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_absolute(module: str) -> None:
    """A bare import of a neighbor would work in its own folder alone, and shadow other people's modules there."""
    own = {m.rpartition(".")[2] for m in MODULES} - {"benchmarks"}
    taken = own & set(sys.stdlib_module_names)
    for node in ast.walk(ast.parse(text_of(module))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, ast.unparse(node)
            names = {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Import):
            names = {a.name.partition(".")[0] for a in node.names}
        else:
            continue
        assert not names & (own - taken - OPTIONAL), ast.unparse(node)


def test_names_of_benchmarks_shadow_nobody(tmp_path: Path) -> None:
    """With `python -m`, the root alone is on the path: a package `kernels` is still the installed one."""
    (tmp_path / "kernels.py").write_text("MINE = 1\n")
    code = "import benchmarks.cpu.kernels, kernels, sys; print(kernels.MINE, *sys.path, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    first, *paths = done.stdout.splitlines()
    assert first == "1" and not [p for p in paths if "benchmarks" in Path(p).parts]


@pytest.mark.parametrize("module", ["benchmarks.peers", "benchmarks.cpu.latency", "benchmarks.rules.simplify"])
def test_help(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "usage" in done.stdout.lower(), done.stderr


def test_the_readme_lists_every_entry_point() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    entries = [m for m in MODULES if '__name__ == "__main__"' in text_of(m)]
    assert len(entries) > 40
    assert not [m for m in entries if f"`{m}`" not in readme and f"-m {m}" not in readme]
