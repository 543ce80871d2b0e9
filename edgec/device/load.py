"""Device files: reading, inheritance and validation.

A file's name is the device's name. `base = "other"` inherits every fact of `other`, looked for in the file's
own folder, then in the user's folders, then among the shipped ones; a file that names itself extends the one
it shadows. `probe = true` takes the facts of the machine edgec runs on. A fact given in a file replaces the
inherited one; tables (`[gpu]`, `[board]`, `[toolchain]`, `[measured]`, those of `[costs]`) are merged key by key. Files
that begin with an underscore are no devices.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from edgec.device.costs import Costs, costs_of, merged, root_table
from edgec.device.costs import checked as checked_costs
from edgec.device.device import Board, Device, Gpu, Measured, Names, Toolchain
from edgec.device.probe import probe_host
from edgec.errors import DeviceError
from edgec.resources import data_folder
from edgec.text import did_you_mean
from edgec.untrusted import reason, regular

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_device(name_or_path: str | Path, folders: Iterable[str | Path] = ()) -> Device:
    """The device of this name, or of this TOML file; `folders` are searched before the shipped one."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.parent != Path():
        if not _is_file(path):
            raise DeviceError("no such device file", where=str(path))
        return _inherit(path, _shelves(folders))
    shelves = _shelves(folders)
    name = str(name_or_path)
    for candidate in _files_called(name, shelves):
        return _inherit(candidate, shelves)
    raise DeviceError(f"no device is called '{name}'", hint=_did_you_mean(name, _names(shelves)))


def list_devices(folders: Iterable[str | Path] = ()) -> list[Device]:
    """Every device that `load_device` finds by name, in alphabetical order."""
    shelves = _shelves(folders)
    return [load_device(name, shelves[:-1]) for name in _names(shelves)]


def _inherit(path: Path, shelves: Sequence[Path]) -> Device:
    facts: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {name: {} for name in _TABLES}
    costs = root_table()
    files = _base_files(path, shelves)
    for _, own in reversed(files):
        if own.pop("probe", False):
            facts |= _probed_facts()
            tables |= {name: asdict(facts.pop(name)) for name in _TABLES}
        own.pop("base", None)
        costs = merged(costs, own.pop("costs", {}))
        tables |= {name: {**tables[name], **own.pop(name, {})} for name in _TABLES}
        if "measured" in own:
            own["measured"] = tuple(sorted((dict(facts.get("measured", ())) | dict(own["measured"])).items()))
        facts |= own
    for required in ("description", "arch"):
        if required not in facts:
            hint = "add it, or a `base` that has it"
            raise DeviceError(f"'{required}' is not given", hint=hint, where=str(path))
    if not _NAME.fullmatch(path.stem):
        hint = "name the file with letters, digits, _, -, ., + and spaces"
        raise DeviceError(
            f"{path.stem!r} is no name of a device: it is written into sources", hint=hint, where=str(path)
        )
    facts |= {name: record(**tables[name]) for name, record in _TABLES.items()}
    device = Device(name=path.stem, bases=tuple(file.stem for file, _ in files[1:]), costs=costs_of(costs), **facts)
    _refuse_contradictions(device, path)
    return device


def _base_files(path: Path, shelves: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """The file and the files it inherits from, nearest first, each with the facts it gives itself."""
    chain = [(path, _read(path))]
    while (base := chain[-1][1].get("base")) is not None:
        chain.append(_next_base(base, [file for file, _ in chain], shelves))
    return chain


def _next_base(base: str, visited: Sequence[Path], shelves: Sequence[Path]) -> tuple[Path, dict[str, Any]]:
    candidates = _files_called(base, [visited[-1].parent, *shelves])
    seen = {file.resolve() for file in visited}
    for candidate in candidates:
        if candidate.resolve() not in seen:
            return candidate, _read(candidate)
    where = str(visited[-1])
    if candidates:
        circle = " -> ".join([*(file.stem for file in visited), base])
        raise DeviceError(f"the bases go in a circle: {circle}", where=where)
    raise DeviceError(f"the base '{base}' is unknown", hint=_did_you_mean(base, _names(shelves)), where=where)


def _probed_facts() -> dict[str, Any]:

    host = probe_host()
    return {key: getattr(host, key) for key in _FACTS}


def _shelves(folders: Iterable[str | Path]) -> list[Path]:
    return [*map(Path, folders), data_folder("devices")]


def _files_called(name: str, shelves: Iterable[Path]) -> list[Path]:
    return [file for shelf in shelves if _is_file(file := shelf / f"{name}.toml")]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _names(shelves: Iterable[Path]) -> list[str]:
    return sorted({file.stem for shelf in shelves for file in shelf.glob("*.toml") if file.name[0] != "_"})


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    close = sorted((name for name in known if _abbreviates(word, name)), key=lambda name: (name.count("_"), name))[:3]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return did_you_mean(word, known, f"known are {', '.join(known)}")


def _abbreviates(word: str, name: str) -> bool:
    """True for beginnings of words of a name, in their order: rpi5 and pi5 of raspberry_pi_5."""
    beginnings = ("|".join(re.escape(part[:k]) for k in range(len(part), 0, -1)) for part in name.split("_"))
    letters = re.sub(r"[^a-z0-9]", "", word.lower())
    return len(letters) > 1 and re.fullmatch("".join(f"(?:{b})?" for b in beginnings), letters) is not None


_FACTS = {key: kind for key, kind in get_type_hints(Device).items() if key not in ("name", "bases", "costs")}


#: Facts that belong together, a table each.
_TABLES: Mapping[str, Any] = {"gpu": Gpu, "board": Board, "toolchain": Toolchain}
_TABLE_KINDS: Mapping[str, Mapping[str, Any]] = {name: get_type_hints(record) for name, record in _TABLES.items()}


_KINDS: dict[str, Any] = {**_FACTS, "base": str, "probe": bool, "costs": Costs}

#: Keys of earlier versions, and their present names.
_RENAMED = {
    "visible": "gpu.coherent_groups", "loads_beside": "dual_issue_load", "gpu_clock_mhz": "gpu.clock_mhz",
    "gpu_multiply_adds": "gpu.multiply_adds", "gpu_l2_bytes": "gpu.l2_bytes",
}  # fmt: skip


#: The largest numbers that a fact may be. 256 bytes is the longest vector there is (SVE), 65534 what gcc unrolls.
_NAME, _WORD = re.compile(r"[\w.+() -]{1,100}", re.ASCII), re.compile(r"[\w.+=,:/@%~-]{,1000}", re.ASCII)
_LARGEST = 2**62


#: Options of compilers that select a processor, and names of compilers without a path: anybody may write device files.
_TARGET = re.compile(r"([A-Za-z0-9_][\w.+-]*)?", re.ASCII), "a name, without a path"
_SAFE: Mapping[str, tuple[re.Pattern[str], str]] = {
    "toolchain.cflags": (
        re.compile(r"-m(?!llvm)[\w.+-]+(=[\w.+,-]+)?|-O[0-3sz]|-f[a-z0-9-]+|-D[A-Za-z_]\w*(=\w+)?", re.ASCII),
        "options that select a processor begin with -m; others are -O, -D and -f without a value",
    ),
    "toolchain.compiler": (re.compile("gcc|clang|zig|"), "gcc, clang or zig; give a command by --compiler"),
    "toolchain.gcc_target": _TARGET,
    "toolchain.zig_target": _TARGET,
    "toolchain.zig_mcpu": _TARGET,
    "board.qemu_machine": _TARGET,
    "board.platformio": (
        re.compile(r"(\w[\w-]*:\w[\w-]*)?", re.ASCII),
        "platform and board by their names: raspberrypi:pico",
    ),
}


_MOST = {
    "vector_bytes": 256, "vector_registers": 256, "unroll": 65_534, "cores": 65_536, "gpu.multiprocessors": 65_536,
    "gpu.compute_capability": 999, "gpu.group_items": 65_536, "gpu.multiply_adds": 2**20,
    "gpu.tensor_multiply_adds": 2**20,
}  # fmt: skip


_WANTED = {
    str: "text",
    bool: "true or false",
    int: "a whole number, 0 or more",
    Names: "a list of texts",
    Measured: "a table of numbers above 0",
}


def _read(path: Path) -> dict[str, Any]:
    """The facts one file gives, each of the type `Device` declares."""
    try:
        table = tomllib.loads(regular(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise DeviceError(f"not valid TOML: {reason(error)}", where=str(path)) from error
    for key in table:
        _refuse_unknown(key, _KINDS, path)
    return {key: _checked(key, value, path) for key, value in table.items()}


def _refuse_unknown(key: str, known: Mapping[str, Any], path: Path, table: str = "") -> None:
    """Raises DeviceError for a key that there is not; the hint names the table of one that stands in another."""
    if key in known:
        return
    homes = [f"{name}.{key}" for name, kinds in _TABLE_KINDS.items() if key in kinds]
    new = next(iter(homes), _RENAMED.get(key))
    hint = f"it is called '{new}' now" if new else _did_you_mean(key, sorted(known))
    raise DeviceError(f"unknown key '{key}'{f' in [{table}]' if table else ''}", hint=hint, where=str(path))


def _checked(key: str, value: object, path: Path) -> object:
    if key == "costs":
        return checked_costs(value, str(path))
    if key not in _TABLES:
        return _checked_fact(key, _KINDS[key], value, path)
    if not isinstance(value, dict):
        hint = f"the device file of a GPU next to a CPU is gpu_device = {value!r}" if key == "gpu" else None
        raise DeviceError(f"'{key}' must be a table of facts, not {value!r}", hint=hint, where=str(path))
    for inner in value:
        _refuse_unknown(inner, _TABLE_KINDS[key], path, key)
    kinds = _TABLE_KINDS[key]
    return {inner: _checked_fact(f"{key}.{inner}", kinds[inner], fact, path) for inner, fact in value.items()}


def _checked_fact(key: str, kind: Any, value: object, path: Path) -> object:
    fact = _as_kind(kind, value)
    if fact is not None:
        if kind in (str, Names) and key != "description":
            for text in (str(fact),) if kind is str else tuple(map(str, value)):  # type: ignore[call-overload]
                _refuse_strange(key, text, path)
            _refuse_programs(key, fact, path)
        if type(fact) is int and fact > _MOST.get(key, _LARGEST):
            raise DeviceError(f"'{key}' is more than {_MOST.get(key, _LARGEST)}", where=str(path))
        return fact
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    wanted = f"one of {', '.join(choices)}" if choices else _WANTED[kind]
    hint = _did_you_mean(str(value), choices) if choices else None
    raise DeviceError(f"'{key}' must be {wanted}, not {value!r}", hint=hint, where=str(path))


def _refuse_strange(key: str, text: str, path: Path) -> None:
    """Raises DeviceError for what would be more than a word in build files, sources and command lines."""
    if _WORD.fullmatch(text) is None:
        hint = "one option a text, of at most 1000 letters, digits and _.+=,:/@%~-"
        message = f"{key!r} has the text {text[:60]!r}, which cannot stand in build files"
        raise DeviceError(message, hint=hint, where=str(path))


def _refuse_programs(key: str, fact: object, path: Path) -> None:
    """Raises DeviceError for texts that could make a compiler, or anything else, run a program of the file's choice."""
    for text in fact if isinstance(fact, tuple) else (fact,):
        if not is_inert(key, str(text)):
            raise DeviceError(f"'{key}' must not be {text!r}", hint=_SAFE[key][1], where=str(path))


def is_inert(key: str, text: str) -> bool:
    """May a stranger's file say this text of a device? Of what compilers and tools take, that is what runs nothing."""
    pattern = _NAME if key == "name" else _SAFE[key][0] if key in _SAFE else _WORD
    return pattern.fullmatch(text) is not None


def _as_kind(kind: Any, value: object) -> object | None:
    """The value as a fact of this kind, None where it is something else. Exact types: `true` is no number."""
    if isinstance(value, dict):
        is_figures = kind == Measured and all(type(n) in (int, float) and 0 < n < _LARGEST for n in value.values())
        return tuple((name, float(figure)) for name, figure in value.items()) if is_figures else None
    if isinstance(value, list):
        return tuple(value) if kind == Names and all(isinstance(word, str) for word in value) else None
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        return None
    return value


def _refuse_contradictions(device: Device, path: Path) -> None:
    width, gpu = device.vector_bytes, device.gpu
    rules = {
        "'vector_bytes' must be a power of two, 4 or more": width >= 4 and width & (width - 1) == 0,
        "'vector_registers' must be 1 or more": device.vector_registers >= 1,
        "'cores' must be 1 or more": device.cores >= 1,
        "\"sve\" needs 'vector_bytes' of 32 or 64": not device.has("sve") or width in (32, 64),
        "a GPU needs 'gpu.multiprocessors' and 'gpu.shared_bytes'": (
            not device.is_gpu or (gpu.multiprocessors >= 1 and gpu.shared_bytes >= 1)
        ),
        "a GPU needs 'vector_registers' of 8 or more": not device.is_gpu or device.vector_registers >= 8,
        "'gpu.group_items' must be 1 or more": gpu.group_items >= 1,
        "'gpu.multiply_adds' needs 'gpu.multiprocessors', 'gpu.clock_mhz' and 'gpu.memory_gbps'": (
            not gpu.multiply_adds or (gpu.multiprocessors >= 1 and gpu.clock_mhz >= 1 and gpu.memory_gbps >= 1)
        ),
        "'language' = \"cuda\" needs a 'gpu.compute_capability' of 50 or more": (
            device.language != "cuda" or gpu.compute_capability >= 50
        ),
        "a device without an operating system needs 'toolchain.gcc_target' or 'toolchain.zig_target'": (
            device.hosted or bool(device.toolchain.gcc_target or device.toolchain.zig_target)
        ),
    }
    for rule, holds in rules.items():
        if not holds:
            raise DeviceError(rule, where=str(path))
