"""Evidence on a built folder in C: bounds of its loops, in files for other tools, and rules of MISRA C it breaks."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from edgec import files
from edgec.artifact.folder import EVIDENCE, read_lock
from edgec.check.loops import Loop, loops, work_of
from edgec.check.misra import broken, counted
from edgec.errors import ToolchainError, UsageError

#: The files of evidence: loops as lines, loops as flow facts in XML, broken rules.
LOOPS, FLOW_FACTS, RULES = "loops.tsv", "loops.ffx", "misra.tsv"


@dataclass(frozen=True)
class Evidence:
    """Loops, (operations, bytes) by kernel, counts of broken rules by file, or why there are none."""

    loops: tuple[Loop, ...]
    work: Mapping[str, tuple[float, float]]
    rules: Mapping[str, Counter[str]] | None
    checker: str  # the version of cppcheck, or the reason why rules are not counted

    @property
    def unbounded(self) -> tuple[Loop, ...]:
        return tuple(loop for loop in self.loops if loop.bound is None)


def evidence(folder: Path, misra: bool = True) -> Evidence:
    """Evidence on the network in a built folder; raises UsageError for one that is not in C."""
    lock = read_lock(folder)
    name = str(lock.get("name"))
    if lock.get("language") != "c":
        hint = "build it for a processor, such as --device mps2_an386 --app embedded"
        raise UsageError("evidence is for networks in C", hint=hint, where=str(folder))
    own = [s for s in lock["sources"] if s.startswith(name) and s.endswith(".c")]
    missing = next((s for s in own if not (folder / s).is_file()), None)
    if missing is not None:
        raise UsageError(f"{missing} is gone", hint="build it again", where=str(folder))
    found = loops(folder, own, int(lock.get("weights_bytes", 0)))
    work = {k: v for s in own for k, v in work_of((folder / s).read_text(encoding="utf-8")).items()}
    if not misra:
        return Evidence(tuple(found), work, None, "was not asked for")
    program = folder / "embedded" / "main.c"
    sources = [*(folder / s for s in own), *([program] if program.is_file() else [])]
    try:
        rules = counted(broken(folder, sources))
    except ToolchainError as error:
        return Evidence(tuple(found), work, None, f"{error.message}: {error.hint}")
    said = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return Evidence(tuple(found), work, rules, said)


def write(found: Evidence, folder: Path) -> list[Path]:
    """Write the files of evidence into a new or an old folder; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {LOOPS: "".join(_lines(found)), FLOW_FACTS: "".join(_flow_facts(found.loops))}
    if found.rules is not None:
        rows = sorted((file, rule, count) for file, own in found.rules.items() for rule, count in own.items())
        texts[RULES] = "file\trule\tplaces\n" + "".join(f"{file}\t{rule}\t{count}\n" for file, rule, count in rows)
    for path, text in texts.items():
        files.replace(folder / path, text)
    return [folder / path for path in texts]


def folder_of(built: Path) -> Path:
    """The folder of evidence in a built one, which goes with the next build."""
    return built / EVIDENCE


def by_function(found: Sequence[Loop]) -> dict[tuple[str, str], list[Loop]]:
    """Loops by file and function, in order."""
    groups: dict[tuple[str, str], list[Loop]] = {}
    for loop in found:
        groups.setdefault((loop.file, loop.function), []).append(loop)
    return groups


def _lines(found: Evidence) -> Iterator[str]:
    yield "file\tline\tbound\tform\tfunction\n"
    for loop in found.loops:
        yield f"{loop}\n"
    for name, (operations, size) in found.work.items():
        yield f"# {name}: {operations:.0f} operations, {size:.0f} bytes\n"


def _flow_facts(found: Sequence[Loop]) -> Iterator[str]:
    """FFX: an element a function, with the most iterations of each loop; a loop without a bound has no maxcount."""
    yield '<?xml version="1.0"?>\n<flowfacts>\n'
    for (file, function), own in by_function(found).items():
        yield f"  <function name={quoteattr(function)} source={quoteattr(file)}>\n"
        for loop in own:
            most = f' maxcount="{loop.bound}"' if loop.bound is not None else ""
            exact = ' exact="true"' if loop.form == "constant" else ""
            yield f'    <loop source={quoteattr(file)} line="{loop.line}"{most}{exact}/>\n'
        yield "  </function>\n"
    yield "</flowfacts>\n"
