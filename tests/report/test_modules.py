"""The page's ES modules: each imports all that it uses, and one script is made of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgec.report import page as pages
from edgec.report.bundle import bundle, modules
from edgec.report.terminal import number, size

FOLDER = Path(pages.__file__).parent / "html" / "modules"
#: Links a module with all that it imports, without running any: a name that is not exported is an error.
LINK = """
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";
const made = new Map();
function load(file) {
  if (!made.has(file)) made.set(file, new vm.SourceTextModule(fs.readFileSync(file, "utf8"), { identifier: file }));
  return made.get(file);
}
const entry = load(process.argv[1]);
await entry.link((target, from) => load(path.resolve(path.dirname(from.identifier), target)));
console.log(made.size);
"""


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    return subprocess.run([program, "--no-warnings", *arguments], capture_output=True, text=True)


def link(entry: Path) -> subprocess.CompletedProcess[str]:
    return node("--experimental-vm-modules", "--input-type=module", "--eval", LINK, str(entry))


def test_every_import_is_exported_and_every_module_is_imported(tmp_path: Path) -> None:
    done = link(FOLDER / "main.mjs")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(list(FOLDER.rglob("*.mjs"))) == len(modules(FOLDER / "main.mjs"))
    shutil.copytree(FOLDER, tmp_path / "modules")
    figures = tmp_path / "modules" / "figures.mjs"
    figures.write_text(figures.read_text().replace("export function size", "function size"))
    assert "does not provide an export named 'size'" in link(tmp_path / "modules" / "main.mjs").stderr


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.mjs")), ids=lambda p: p.stem)
def test_every_import_is_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// "), "no comment that says what is in it"
    body = re.sub(r"^import .*$", "", text, flags=re.MULTILINE)
    names = " ".join(re.findall(r"^import \{([^}]*)\}", text, re.MULTILINE)).replace(",", " ").split()
    assert [n for n in names if not re.search(rf"\b{n}\b", body)] == []


def test_figures_are_those_of_the_terminal() -> None:
    amounts = [0, 1, 1023, 1024, 5000, 3 << 20, 7 << 30]
    script = f"const f = await import({(FOLDER / 'figures.mjs').as_uri()!r});"
    script += f"for (const n of {amounts}) console.log(f.size(n) + ';' + f.count(n));"
    done = node("--input-type=module", "--eval", script)
    assert done.stdout.splitlines() == [f"{size(n)};{number(n)}" for n in amounts], done.stderr


def test_fields_of_csv_are_quoted_and_run_nothing() -> None:
    text = (FOLDER / "download.mjs").read_text(encoding="utf-8")
    module = re.sub(r"^import .*$", "", text, flags=re.MULTILINE)
    values = '["a,b", "x\\"y", "=1+1", -2.5, ["p", "q"], null, "plain"]'
    done = node("--input-type=module", "--eval", f"{module}\nfor (const v of {values}) console.log(field(v));")
    assert done.stdout.splitlines() == ['"a,b"', '"x""y"', "'=1+1", "-2.5", "p; q", "", "plain"], done.stderr


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.mjs").write_text(text)
    return folder / "main.mjs"


def test_a_module_comes_after_what_it_imports_and_once(tmp_path: Path) -> None:
    entry = write(
        tmp_path,
        main='import { b } from "./b.mjs";\nimport { a } from "./a.mjs";\nexport const c = a + b;\n',
        b='import {\n  a,\n} from "./a.mjs";\nexport const b = a;\n',
        a="export const a = 1;\n",
    )
    assert [p.stem for p in modules(entry)] == ["a", "b", "main"]
    assert bundle(entry).split("\n\n") == ["const a = 1;", "const b = a;", "const c = a + b;\n"]


def test_a_circle_is_refused(tmp_path: Path) -> None:
    entry = write(tmp_path, main='import "./a.mjs";\n', a='import "./b.mjs";\n', b='import "./a.mjs";\n')
    with pytest.raises(ValueError, match=r"in a circle: a\.mjs -> b\.mjs -> a\.mjs"):
        modules(entry)


@pytest.mark.parametrize(
    "line", ['import * as a from "./a.mjs";', 'import { a as b } from "./a.mjs";', "export default 1;", "export { c };"]
)
def test_what_renames_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"main.mjs: cannot be bundled: {line}")):
        bundle(write(tmp_path, main=f"const c = 1;\n{line}\n", a="export const a = 1;\n"))
