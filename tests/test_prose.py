"""Docstrings are noun phrases or plain sentences: few begin with a relative without a noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Docstrings of the whole project that may still begin so.
MOST = 40


def test_few_docstrings_begin_without_a_noun() -> None:
    found = []
    for folder in ("edgec", "rewrite_rules", "benchmarks", "tests", "apps"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "_data" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    text = ast.get_docstring(node) or ""
                    if re.match(r"(What|Which|Where|Whether|How|Who)\b", text):
                        found.append(f"{path.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert len(found) < MOST, "\n".join(found)
