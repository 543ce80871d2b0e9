"""ec_pool: every thread runs, barriers order, an idle pool sleeps, and the sanitizers agree."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "codegen_templates" / "runtime"
CC = [c for c in map(shutil.which, ["cc", "gcc", "clang"]) if c][:1]
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}", str(HERE / "pool_shim.c")]
THREADS = [1, 2, 3, 8]

pytestmark = pytest.mark.skipif(not CC, reason="needs a C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("pool") / "shim.so"
    command = [*CC, "-O2", *STRICT, "-shared", "-fPIC", "-pthread", "-o", str(path)]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(path))
    library.ec_pool_bytes.restype = ctypes.c_size_t
    library.ec_pool_init.restype = ctypes.c_void_p
    for name in ("seconds_per_barrier", "seconds_per_run", "idle_processor_seconds"):
        getattr(library, name).restype = ctypes.c_double
    return library


@contextmanager
def pool(library: ctypes.CDLL, threads: int) -> Iterator[ctypes.c_void_p]:
    # One byte off any alignment: the pool must not rely on where its memory lies.
    memory = ctypes.create_string_buffer(library.ec_pool_bytes(threads) + 1)
    address = library.ec_pool_init(ctypes.byref(memory, 1), threads)
    assert address
    try:
        yield ctypes.c_void_p(address)
    finally:
        library.ec_pool_destroy(ctypes.c_void_p(address))


@pytest.mark.parametrize("threads", THREADS)
def test_every_thread_runs_once_in_every_run(library: ctypes.CDLL, threads: int) -> None:
    with pool(library, threads) as p:
        assert library.ec_pool_threads(p) == threads
        assert library.workers_alive() == threads - 1
        assert library.spmd_errors(p, 500) == 0
        assert library.spmd_errors(p, 500) == 0
    assert library.workers_alive() == 0


@pytest.mark.parametrize("threads", THREADS)
def test_a_barrier_orders_what_stands_around_it(library: ctypes.CDLL, threads: int) -> None:
    with pool(library, threads) as p:
        assert library.barrier_errors(p, 500) == 0


@pytest.mark.parametrize("threads", THREADS)
def test_sleeping_workers_wake_up(library: ctypes.CDLL, threads: int) -> None:
    with pool(library, threads) as p:
        assert library.errors_with_pauses(p, 50) == 0


def test_two_pools_do_not_know_each_other(library: ctypes.CDLL) -> None:
    errors: list[int] = []
    with pool(library, 2) as one, pool(library, 3) as other:
        callers = [
            threading.Thread(target=lambda p=p: errors.append(library.barrier_errors(p, 500))) for p in (one, other)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert errors == [0, 0]


def test_an_idle_pool_sleeps(library: ctypes.CDLL) -> None:
    with pool(library, 4) as p:
        assert library.idle_processor_seconds(p, ctypes.c_double(0.3)) < 0.01


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_threads_meet_without_system_calls(library: ctypes.CDLL) -> None:
    """A generous bound on the best of fifty, for a busy machine; a sleep takes longer."""
    with pool(library, 2) as p:
        assert min(library.seconds_per_barrier(p, 100) for _ in range(50)) < 5e-6
        assert min(library.seconds_per_run(p, 100) for _ in range(50)) < 5e-6


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone tells where threads run")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_workers_keep_off_the_core_of_the_caller(library: ctypes.CDLL) -> None:
    cores = os.sched_getaffinity(0)
    try:
        for threads in (2, 3):
            with pool(library, threads) as p:
                for core in sorted(cores)[:2] * 2:
                    os.sched_setaffinity(0, {core})
                    library.spmd_errors(p, 1)
                    os.sched_setaffinity(0, cores)  # the caller stays where it was put, or is seen to move
                    if threads <= len(cores):
                        assert library.runs_on_one_core(p, 200) == 0
                    assert library.barrier_errors(p, 20) == 0  # more threads than cores: slow, but right
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("started", [0, 1, 2])
def test_a_failed_start_leaves_nothing_behind(library: ctypes.CDLL, started: int) -> None:
    memory = ctypes.create_string_buffer(library.ec_pool_bytes(4))
    library.allow_workers(started)
    try:
        assert library.ec_pool_init(memory, 4) is None
        assert library.workers_alive() == 0
    finally:
        library.allow_workers(1000)


def test_no_threads_are_refused(library: ctypes.CDLL) -> None:
    memory = ctypes.create_string_buffer(library.ec_pool_bytes(1))
    assert library.ec_pool_init(memory, 0) is None
    assert library.ec_pool_init(None, 1) is None


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_sanitizers_agree(sanitizer: str, tmp_path: Path) -> None:
    program = tmp_path / "pool"
    flags = ["-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-DPOOL_MAIN"]
    command = [*CC, *flags, *STRICT, "-pthread", "-o", str(program)]
    compiled = subprocess.run(command, check=False, capture_output=True, text=True)
    if "cannot find" in compiled.stderr:
        pytest.skip(f"no {sanitizer} sanitizer here")
    assert compiled.returncode == 0, compiled.stderr
    for threads in THREADS:
        run = [str(program), str(threads)]
        result = subprocess.run(run, check=False, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
