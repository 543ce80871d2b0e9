"""Faults planted in a built network: in the C of its kernels, in their calls, in the weights, and in what comes out.

A fault changes the files of a built folder, which is then compiled again. Faults of outputs are C that runs last; they
are what a wrong kernel, a wrong order or a forgotten one leaves, in the sizes that a check has to see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from edgec.artifact.folder import read_lock

#: A change of the folder; it says what it did, or None where there is nothing to change.
Fault = Callable[[Path, Random], "str | None"]
_C_TYPES = {"f32": "float", "f64": "double", "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t",
            "i32": "int32_t", "i64": "int64_t", "u32": "uint32_t", "u64": "uint64_t", "bool": "uint8_t"}  # fmt: skip
_END = "  return NET_OK;\n}"
#: Bytes of weights that are zeroed or swapped.
_RUN = 64


def in_text(pattern: str, other: Callable[[re.Match[str]], str], files: str = "net_kernels_*.c") -> Fault:
    """One match of ``pattern`` in the sources, replaced; comments and the preprocessor's lines are left alone."""

    def plant(folder: Path, random: Random) -> str | None:
        places = []
        for path in sorted(folder.glob(files)):
            text = path.read_text(encoding="utf-8")
            at = 0
            for line in text.splitlines(keepends=True):
                if not line.lstrip().startswith(("#", "/*", "*", "//", "static", "void", "EC_")):
                    places += [(path, at, m) for m in re.finditer(pattern, line)]
                at += len(line)
        if not places:
            return None
        path, at, match = random.choice(places)
        text, new = path.read_text(encoding="utf-8"), other(match)
        path.write_text(text[: at + match.start()] + new + text[at + match.end() :], encoding="utf-8")
        return f"{path.name}:{text.count(chr(10), 0, at) + 1} {match[0].strip()} -> {new.strip()}"

    return plant


def in_weights(change: Callable[[bytearray, int, Random], str]) -> Fault:
    """Bytes of the weights, changed at a place that is a multiple of their alignment."""

    def plant(folder: Path, random: Random) -> str | None:
        path = folder / "net_weights.bin"
        if not path.is_file() or path.stat().st_size < 4 * _RUN:
            return None
        content = bytearray(path.read_bytes())
        place = random.randrange(len(content) // _RUN - 1) * _RUN
        said = change(content, place, random)
        path.write_bytes(content)
        return f"weights at {place}: {said}"

    return plant


def at_the_end(code: Callable[[Any, Any, Random], str | None]) -> Fault:
    """C that runs behind the kernels, on one of the outputs; ``code`` gets it and another one of the same shape."""

    def plant(folder: Path, random: Random) -> str | None:
        outputs = [
            o for o in read_lock(folder)["outputs"]
            if all(isinstance(n, int) for n in o["shape"]) and o["dtype"] in _C_TYPES
        ]  # fmt: skip
        random.shuffle(outputs)
        for output in outputs:
            kind = (output["shape"], output["dtype"])
            alike = [o for o in outputs if o is not output and (o["shape"], o["dtype"]) == kind]
            text = code(output, alike[0] if alike else None, random)
            path = folder / "net.c"
            whole = path.read_text(encoding="utf-8")
            if text is None or whole.count(_END) < 1:
                continue
            before, _, after = whole.partition(_END)
            path.write_text(f"{before}  {{ {text} }}\n{_END}{after}", encoding="utf-8")
            return f"{output['name']}: {text}"
        return None

    return plant


def _count(output: Any) -> int:
    count = 1
    for n in output["shape"]:
        count *= n
    return count


def _loop(output: Any, body: str) -> str:
    return f"for (int k = 0; k < {_count(output)}; ++k) {output['name']}[k] = {body};"


def _swapped_top(output: Any, _: Any, random: Random) -> str | None:
    """The largest and the next of a row change places: another class is found."""
    count, name, kind = _count(output), output["name"], _C_TYPES[output["dtype"]]
    row = output["shape"][-1] if output["shape"] and output["shape"][-1] > 1 else count
    if count < 2 or output["dtype"] == "bool":
        return None
    begin = random.randrange(count // row) * row
    return (
        f"{kind} *r = {name} + {begin}; int a = 0, b = 1; if (r[1] > r[0]) {{ a = 1; b = 0; }} "
        f"for (int k = 2; k < {row}; ++k) {{ if (r[k] > r[a]) {{ b = a; a = k; }} else if (r[k] > r[b]) b = k; }} "
        f"{kind} t = r[a]; r[a] = r[b]; r[b] = t;"
    )


def _off(output: Any, _: Any, random: Random) -> str | None:
    """One value is off: by 0.03, or by two of an integer."""
    by = "0.03f" if output["dtype"] in ("f32", "f64") else "2"
    return f"{output['name']}[{random.randrange(_count(output))}] += {by};" if output["dtype"] != "bool" else None


def _all_off(output: Any, _: Any, random: Random) -> str | None:
    """Every value of integers is one too large, of floats 1.002 times what it should be: a scale or a bias is wrong."""
    name = output["name"]
    other = {"f32": f"{name}[k] * 1.002f", "f64": f"{name}[k] * 1.002", "bool": f"!{name}[k]"}
    largest = {"i8": 127, "u8": 255, "i16": 32767, "u16": 65535}.get(output["dtype"])
    plus = f"{name}[k] + ({name}[k] < {largest})" if largest else f"{name}[k] + 1"
    return _loop(output, other.get(output["dtype"], plus))


def _rounded(output: Any, _: Any, random: Random) -> str | None:
    """Floats keep 8 bits of their mantissa; integers lose the last bit."""
    name = output["name"]
    if output["dtype"] == "f32":
        cut = f"union {{ float f; uint32_t i; }} u = {{ {name}[k] }}; u.i &= 0xFFFF0000u; {name}[k] = u.f;"
        return f"for (int k = 0; k < {_count(output)}; ++k) {{ {cut} }}"
    return _loop(output, f"{name}[k] & ~1") if output["dtype"] not in ("f64", "bool") else None


def _moved(output: Any, _: Any, random: Random) -> str | None:
    """Everything is one place later."""
    name, count = output["name"], _count(output)
    if count < 2:
        return None
    moved = f"for (int k = {count - 1}; k > 0; --k) {name}[k] = {name}[k - 1];"
    return f"{_C_TYPES[output['dtype']]} t = {name}[{count - 1}]; {moved} {name}[0] = t;"


def _exchanged(output: Any, alike: Any, random: Random) -> str | None:
    """Two outputs are in the place of each other; the halves of the only one."""
    kind = _C_TYPES[output["dtype"]]
    if alike is not None:
        a, b, n = output["name"], alike["name"], _count(output)
    else:
        n = _count(output) // 2
        a, b = output["name"], f"({output['name']} + {n})"
    return f"for (int k = 0; k < {n}; ++k) {{ {kind} t = {a}[k]; {a}[k] = {b}[k]; {b}[k] = t; }}" if n else None


def _kept(output: Any, _: Any, random: Random) -> str | None:
    """All calls give the results of the first."""
    name, count, kind = output["name"], _count(output), _C_TYPES[output["dtype"]]
    return (
        f"static {kind} kept[{count}]; static int known; if (!known) {{ known = 1; "
        f"for (int k = 0; k < {count}; ++k) kept[k] = {name}[k]; }} {_loop(output, 'kept[k]')}"
    )


def _nan(output: Any, _: Any, random: Random) -> str | None:
    return _loop(output, '__builtin_nanf("")') if output["dtype"] in ("f32", "f64") else None


def _one_nan(output: Any, _: Any, random: Random) -> str | None:
    if output["dtype"] not in ("f32", "f64"):
        return None
    return f'{output["name"]}[{random.randrange(_count(output))}] = __builtin_nanf("");'


def _flip(content: bytearray, place: int, random: Random) -> str:
    """The byte that has sign and exponent of a float, or any of integers."""
    k = place + 4 * random.randrange(_RUN // 4) + 3
    content[k] ^= 0x80
    return f"byte {k} with another sign"


def _zero(content: bytearray, place: int, random: Random) -> str:
    content[place : place + _RUN] = bytes(_RUN)
    return f"{_RUN} bytes of zero"


def _swap(content: bytearray, place: int, random: Random) -> str:
    other = random.randrange(len(content) // _RUN) * _RUN
    a, b = bytes(content[place : place + _RUN]), bytes(content[other : other + _RUN])
    content[place : place + len(b)], content[other : other + len(b)] = b, a[: len(b)]
    return f"exchanged with those at {other}"


def _digit(m: re.Match[str]) -> str:
    value = float(m[0].rstrip("f"))
    return f"{value * 1.5 + 0.25!r}f"


_OTHER = {"ec_max": "ec_min", "ec_min": "ec_max", "ec_exp": "ec_tanh", "ec_fma": "ec_fnma", "ec_hmax": "ec_hsum",
          "ec_hsum": "ec_hmax", "ec_lt": "ec_le", "ec_sqrt": "ec_exp"}  # fmt: skip
#: Kinds between the faults of a network: no divisor of their number, so that each network has different ones.
STRIDE = 3
#: The kinds of faults, by what is wrong.
KINDS: dict[str, Fault] = {
    "a constant": in_text(r"\b\d+\.\d+(?:e[+-]?\d+)?f\b", _digit),
    "an index": in_text(r"\[[^\[\];]*\b[A-Za-z]\w*[^\[\];]*\](?! =)", lambda m: f"{m[0][:-1]} + 1]"),
    "a sign": in_text(r" \+ (?=[A-Za-z(])", lambda m: " - "),
    "a bound": in_text(r"(?<=< )\d+(?=; \+\+)", lambda m: str(max(0, int(m[0]) - 1))),
    "a function": in_text(r"\b(ec_max|ec_min|ec_hmax|ec_hsum|ec_lt)(?=\()", lambda m: _OTHER[m[0]]),
    "an operand": in_text(r"(?<=call->weights \+ )\d+", lambda m: str(int(m[0]) // 128 * 64), "net.c"),
    "a buffer": in_text(r"(?<=call->arena \+ )\d+", lambda m: str(int(m[0]) + 64), "net.c"),
    "no call": in_text(r"    net_\d+_\w+\(.*\);", lambda m: "    (void)0;", "net.c"),
    "a weight": in_weights(_flip),
    "some weights": in_weights(_zero),
    "order of weights": in_weights(_swap),
    "another class": at_the_end(_swapped_top),
    "a score off": at_the_end(_off),
    "all off a little": at_the_end(_all_off),
    "rounded": at_the_end(_rounded),
    "moved": at_the_end(_moved),
    "order of outputs": at_the_end(_exchanged),
    "kept from before": at_the_end(_kept),
    "not a number": at_the_end(_nan),
    "one not a number": at_the_end(_one_nan),
}  # fmt: skip


def plan(networks: Sequence[str], each: int) -> list[tuple[str, str, int]]:
    """(network, kind, number) of every fault: all kinds in turns, so that each has as many."""
    kinds = list(KINDS)
    return [
        (network, kinds[(n + STRIDE * k) % len(kinds)], k) for k in range(each) for n, network in enumerate(networks)
    ]
