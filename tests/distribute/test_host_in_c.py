"""The host in C by itself: sums of every type as the coordinator adds them, statuses, and no allocation."""

from __future__ import annotations

import re
import subprocess
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from emitted_programs import SANITIZED, STRICT

from edgec.distribute.emitted import _ADDED
from edgec.distribute.manifest import Tensor
from edgec.distribute.sums import Sum
from edgec.ir.dtypes import DTYPES, plain
from edgec.resources import data_folder

RUNTIME = data_folder("codegen_templates") / "runtime"
#: The numbers of the ways to add, in their order in ec_divided.h.
WAYS = re.findall(r"EC_ADD_\w+", (RUNTIME / "divided" / "ec_divided.h").read_text())


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("host") / "driver"
    own = RUNTIME / "divided"
    sources = [
        Path(__file__).parent / "host_driver.c",
        *(own / f"ec_{f}.c" for f in ("divided", "message", "transport")),
    ]
    command = ["gcc", *STRICT, *SANITIZED, f"-I{own}", f"-I{RUNTIME}", "-o", program, *sources, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return program


@pytest.mark.parametrize("dtype", _ADDED)
def test_sums_have_the_bits_of_the_coordinator(driver: Path, dtype: str, tmp_path: Path) -> None:
    """In all orders of arrival; integers wrap, halves are rounded once, infinities and signed zeros are kept."""
    kind, random = DTYPES[dtype], np.random.default_rng(4)
    names = tuple("abc")
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        terms = [random.integers(low, high, 300, kind, endpoint=True) for _ in names]
    else:
        drawn = [random.standard_normal(300) * 10.0 ** random.integers(-4, 4, 300) for _ in names]
        terms = [d.astype(kind) for d in drawn]
        for term, special in zip(terms, (np.inf, 1.0, -0.0)):
            term[:2] = special, -0.0
    own = Sum(Tensor("sum", dtype, (300,), names))
    for name, term in zip(names, terms):
        total = own.take(name, term.copy())
    assert total is not None
    given = tmp_path / "terms"
    given.write_bytes(b"".join(plain(t).tobytes() for t in terms))
    for order in permutations("012"):
        command = [str(driver), str(WAYS.index(_ADDED[dtype])), str(terms[0].nbytes), str(given), "".join(order)]
        assert subprocess.run(command, capture_output=True, check=True).stdout == plain(total).tobytes()


def test_calls_out_of_turn_have_statuses(driver: Path) -> None:
    done = subprocess.run([str(driver), "statuses"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nothing_is_allocated_after_a_host_or_worker_has_begun() -> None:
    for source in sorted((RUNTIME / "divided").glob("*.c")):
        assert not re.search(r"\b(malloc|calloc|realloc|alloca|strdup|fopen)\b", source.read_text()), source.name
