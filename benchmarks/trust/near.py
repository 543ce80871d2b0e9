"""The test files that are nearest to a module, by imports, names and words: where no run recorded which reach it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from math import log, sqrt
from pathlib import Path

#: Test files of whole folders, which look at all that a stage decides; for modules below the folder.
BROAD: Mapping[str, tuple[str, ...]] = {
    "rewrite_rules/*": ("tests/rules/test_general.py", "tests/rules/test_proofs.py", "tests/golden/test_simplified.py",
                        "tests/golden/test_where_rules_apply.py"),
    "edgec/rewrite/*": ("tests/golden/test_simplified.py", "tests/random/test_kept_graphs.py",
                        "tests/rules/test_engine.py", "tests/rules/test_general.py", "tests/passes/test_simplify.py"),
    "edgec/fuse/*": ("tests/random/test_kept_graphs.py", "tests/golden/test_built_graphs.py",
                     "tests/golden/test_decided_networks.py", "tests/golden/test_decisions.py",
                     "tests/passes/test_fuse.py"),
    "edgec/schedule/*": ("tests/random/test_kept_graphs.py", "tests/golden/test_built_graphs.py",
                         "tests/golden/test_decisions.py",
                         "tests/golden/test_emitted.py", "tests/golden/test_decided_networks.py",
                         "tests/kernels/test_kernels.py"),
    "edgec/emit/gpu/*": ("tests/golden/test_emitted.py", "tests/gpu/test_opencl_kernels.py",
                         "tests/gpu/test_cuda_kernels.py"),
    "edgec/emit/*": ("tests/golden/test_extras.py", "tests/golden/test_built_graphs.py", "tests/golden/test_golden.py",
                     "tests/golden/test_emitted.py", "tests/kernels/test_kernels.py"),
    "edgec/frontend/onnx/operators/*": ("tests/random/test_operators_alone.py", "tests/random/test_lowered.py"),
    "edgec/frontend/onnx/operators/microsoft/*": ("tests/onnx/test_contrib.py", "tests/onnx/test_contrib_older.py"),
    "edgec/frontend/onnx/*": ("tests/onnx/test_meaning.py", "tests/onnx/test_against_onnxruntime.py",
                              "tests/onnx/test_import.py"),
    "edgec/frontend/tflite/*": ("tests/tflite/test_lowered_tflite.py", "tests/tflite"),
    "edgec/frontend/language/*": ("tests/language",),
    "edgec/compress/*": ("tests/golden/test_compressed_networks.py", "tests/golden/test_compressed.py",
                         "tests/compress/test_quantize.py", "tests/compress/test_prune.py"),
    "edgec/ops/*": ("tests/ir/test_refused_operands.py", "tests/random/test_kept_gradients.py",
                    "tests/golden/test_built_graphs.py", "tests/random/test_operators_alone.py",
                    "tests/golden/test_decisions.py", "tests/onnx/test_meaning.py", "tests/differentiate"),
    "edgec/ir/records/*": ("tests/pipeline/test_saved_records.py", "tests/pipeline/test_restart.py"),
    "edgec/ir/*": ("tests/golden/test_built_graphs.py", "tests/ir", "tests/golden/test_decisions.py"),
    "edgec/report/*": ("tests/golden/test_reports.py", "tests/report/test_drawn_answers.py", "tests/report"),
    "edgec/advise/*": ("tests/golden/test_reports.py", "tests/cli/test_advise.py"),
    "edgec/differentiate/*": ("tests/random/test_kept_gradients.py", "tests/differentiate"),
    "edgec/artifact/*": ("tests/emit", "tests/language", "tests/bindings", "tests/cli"),
    "edgec/options/*": ("tests/cli/test_kept_options.py", "tests/cli"),
    "edgec/bench/*": ("tests/link", "tests/cli"),
    "edgec/serve/*": ("tests/report", "tests/cli"),
    "edgec/pipeline/*": ("tests/golden/test_decided_networks.py",),
    "edgec/check/*": ("tests/check",),
    "edgec/certify/*": ("tests/certify/test_kept_bounds.py", "tests/certify"),
    "edgec/distribute/*": ("tests/distribute/test_kept_choices.py", "tests/distribute"),
    "edgec/cli/*": ("tests/cli",),
    "edgec/tune/*": ("tests/golden/test_built_graphs.py",),
    "edgec/device/*": ("tests/golden/test_built_graphs.py", "tests/golden/test_kept_tables.py",),
}  # fmt: skip
#: Files that name a module, at most: beyond them it is imported for other reasons.
MOST = 6
#: Words that tell something, and how much more one of the mutant's own function counts.
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_OWN = 4
_NAME = re.compile(r"[A-Za-z][\w-]*")


def near(copy: Path, module: str) -> list[str]:
    """Test files, relative to ``copy``, the nearest first; empty if there are none."""
    broad = [b for pattern, tests in BROAD.items() if fnmatch(module, pattern) for b in tests]
    if not broad or module.startswith("edgec/device/"):  # the folder of the same name
        broad += [f"tests/{part}" for part in Path(module).parts[1:2]]
    files = (str(f.relative_to(copy)) for b in broad for f in _files(copy / b))
    return list(dict.fromkeys([*named_for(copy, module), *files]))


def _files(path: Path) -> list[Path]:
    """Test files of a folder, or the file: pytest takes no file before others of a folder that it is given too."""
    return sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.exists() else []


def named_for(copy: Path, module: str) -> list[str]:
    """Test files of the module's name, and those that import it."""
    stem = Path(module).stem
    names = _named(module)
    texts, imports = _texts(copy), _imports(copy)
    same = [f for f in texts if Path(f).stem == f"test_{stem}"]
    by_import = sorted((f for f in texts if names.search(imports[f])), key=lambda f: (len(texts[f]), f))
    return list(dict.fromkeys([*same, *by_import[:MOST]]))


def alike(copy: Path, module: str, line: int) -> list[str]:
    """Test files by the rare words that they share with the module, and more so with the function of a line."""
    text = (copy / module).read_text(encoding="utf-8")
    inside = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    inside = [f for f in inside if f.lineno <= line <= (f.end_lineno or f.lineno)]
    own = text.splitlines()[inside[-1].lineno - 1 : inside[-1].end_lineno] if inside else []
    weights = dict.fromkeys(_WORD.findall(text), 1) | dict.fromkeys(_WORD.findall("\n".join(own)), _OWN)
    words = _words(copy)
    files = Counter(w for of_file in words.values() for w in of_file)
    rare = {w: weight * log(len(words) / files[w]) ** 2 for w, weight in weights.items() if w in files}
    shared = {f: sum(rare[w] for w in of_file & rare.keys()) / sqrt(20 + len(of_file)) for f, of_file in words.items()}
    return sorted((f for f in shared if shared[f]), key=lambda f: (-shared[f], f))


def spoken(copy: Path, module: str, line: int) -> list[str]:
    """Words by which tests of a function name it: its own name and texts, those of its decorators, and the file's."""
    tree = ast.parse((copy / module).read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    around = [f for f in functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
    decorators = [d for f in functions for d in f.decorator_list]
    texts = [n.value for part in (*around, *decorators) for n in ast.walk(part) if isinstance(n, ast.Constant)]
    plain = [t for t in texts if isinstance(t, str) and _NAME.fullmatch(t)]
    return sorted({w for text in (Path(module).stem, *(f.name for f in around), *plain) for w in words_of(text)})


def words_of(text: str) -> set[str]:
    """The words of a name, in small letters."""
    return {w.lower() for w in re.findall(r"[A-Za-z]{3,}", text)}


@cache
def _words(copy: Path) -> dict[str, frozenset[str]]:
    return {f: frozenset(_WORD.findall(text)) for f, text in _texts(copy).items()}


def _named(module: str) -> re.Pattern[str]:
    """Imports of the module, from it or from its package by its name."""
    dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = dotted.rpartition(".")
    way, word = re.escape(dotted), rf"[^\n]*\b{re.escape(name)}\b"
    return re.compile(rf"(?:from|import) {way}\b(?!\.)|from {re.escape(package)} import {word}")


@cache
def _texts(copy: Path) -> dict[str, str]:
    return {str(p.relative_to(copy)): p.read_text(encoding="utf-8") for p in (copy / "tests").rglob("test_*.py")}


@cache
def _imports(copy: Path) -> dict[str, str]:
    """The lines of test files that import something."""
    return {
        f: "\n".join(line for line in text.splitlines() if line.lstrip().startswith(("import ", "from ")))
        for f, text in _texts(copy).items()
    }
