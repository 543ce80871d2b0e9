"""Every tutorial runs from a clean start in an empty folder; its file has outputs of the kinds that the run gives."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from needed import need

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
#: Programs that a tutorial needs, and the packages of the distribution that have them.
PROGRAMS = {
    "pytorch-to-phone": {"qemu-aarch64": ["qemu-user"], "javac": ["default-jdk-headless"]},
    "int8-with-pictures": {},
    "board": {
        "arm-none-eabi-gcc": ["gcc-arm-none-eabi", "libnewlib-arm-none-eabi"],
        "qemu-system-arm": ["qemu-system-arm"],
        "make": ["make"],
    },
    "page": {"node": ["nodejs"]},
    "report": {},
}  # fmt: skip
#: Modules that a tutorial needs, and how to install them.
MODULES = {
    "pytorch-to-phone": {"torch": "torch onnxscript", "onnxscript": "torch onnxscript", "ziglang": "ziglang"},
    "int8-with-pictures": {"PIL": "pillow"},
    "page": {"ziglang": "ziglang"},
}
#: Folders of one machine, which no page may show.
LOCAL = re.compile(r"(?<![\w.])/(tmp|home|root|work|Users|private|var)/|0x[0-9a-f]{8}")


def names() -> list[str]:
    return sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))


def kinds(cell: Any) -> set[tuple[str, ...]]:
    """Kinds of the outputs of a cell: streams by name, results by the types of their data; without bars of progress."""
    outputs = [o for o in cell.get("outputs", ()) if o.output_type != "display_data"]
    return {(o.output_type, o.get("name", ""), *sorted(o.get("data", ()))) for o in outputs}


def compare(stored: Any, run: Any) -> list[str]:
    """The cells of which the stored outputs are not of the kinds that a run gave."""
    pairs = [(a, b) for a, b in zip(stored.cells, run.cells) if a.cell_type == "code"]
    return [f"{a.source}\n{kinds(a)}, {kinds(b)} in this run" for a, b in pairs if kinds(a) != kinds(b)]


def notebook(name: str) -> Any:
    nbformat = pytest.importorskip("nbformat", reason="pip install 'edgec[test]'")
    found = nbformat.read(TUTORIALS / f"{name}.ipynb", as_version=4)
    nbformat.validate(found)
    return found


def test_every_tutorial_is_known() -> None:
    assert names() == sorted(PROGRAMS)


@pytest.mark.parametrize("name", names())
def test_stored_outputs_are_those_of_one_run(name: str) -> None:
    """All code cells in their order, once each, without errors, and without paths of the machine."""
    found = json.loads((TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    shown = {(output["output_type"], output.get("name", "")) for output in outputs}
    assert outputs and shown <= {("execute_result", ""), ("stream", "stdout")}
    assert [str(output) for output in outputs if LOCAL.search(str(output))] == []


@pytest.mark.parametrize("name", names())
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    nbclient = pytest.importorskip("nbclient", reason="pip install 'edgec[test]'")
    pytest.importorskip("ipykernel", reason="pip install 'edgec[test]'")
    for module, packages in MODULES.get(name, {}).items():
        if find_spec(module) is None:
            pytest.skip(f"pip install {packages}")
    for program, packages in PROGRAMS[name].items():
        need(program, *packages)
    run = notebook(name)
    for cell in run.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "edgec"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgec "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    for name_of, place in (("IPYTHONDIR", "ipython"), ("JUPYTER_RUNTIME_DIR", "runtime")):
        monkeypatch.setenv(name_of, str(tmp_path / place))
    folder = tmp_path / "empty"
    folder.mkdir()
    here = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(
        run, timeout=300, kernel_name="python3", resources=here, coalesce_streams=True, record_timing=False
    ).execute()
    if update_golden:
        import nbformat

        run.metadata["language_info"] = {"name": "python"}
        for output in (output for cell in run.cells for output in cell.get("outputs", ())):
            if "text" in output:
                output["text"] = re.sub(r"\x1b\[[\d;]*m", "", output["text"])  # colors
        nbformat.write(run, TUTORIALS / f"{name}.ipynb")
    assert compare(notebook(name), run) == []


def test_another_kind_of_output_is_found() -> None:
    v4 = pytest.importorskip("nbformat.v4", reason="pip install 'edgec[test]'")
    told = v4.new_output("stream", name="stdout", text="1 ms")
    later = v4.new_output("stream", name="stdout", text="2 ms")
    value = v4.new_output("execute_result", data={"text/plain": "1"})
    books = [v4.new_notebook(cells=[v4.new_code_cell("f()", outputs=[o])]) for o in (told, later, value)]
    assert compare(books[0], books[1]) == []
    assert len(compare(books[0], books[2])) == 1
