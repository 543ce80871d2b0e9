"""Programs of the C beside a divided network: compiled with warnings as errors and sanitizers, and at work."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.distribute.manifest import read_manifest

KEY = "0123456789abcdef-secret"
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")
RUNTIME = ("ec_divided.c", "ec_worker.c", "ec_message.c", "ec_transport.c")
ENGINES = {"tcp": ("ec_transport_tcp.c", "ec_sha256.c"), "mpi": ("ec_transport_mpi.c",)}
#: Memory is not zero when it is allocated.
FILLED = "max_malloc_fill_size=1000000000"
#: Open MPI asks for more cores than ranks, and for another user than root, unless it is told.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "ASAN_OPTIONS": f"detect_leaks=0:{FILLED}",
}  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "EDGEC_WORKER_SECRET": KEY, "ASAN_OPTIONS": FILLED, **more}


def need_mpi() -> None:
    for program in ("mpicc", "mpirun"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed here")


def compiled(folder: Path, engine: str = "tcp", main: str = "main.c", rank: int | None = None, *more: str) -> Path:
    """The program of a divided network, with its parts as libraries; of a ``rank``, with those of that worker alone."""
    if engine == "mpi":
        need_mpi()
    manifest = read_manifest(folder)
    name = manifest.name
    program = folder / f"{Path(main).stem}_{engine}{'' if rank is None else rank}"
    if program.exists():
        return program
    parts = [p.folder for p in manifest.parts if rank is None or p.worker == rank - 1]
    libraries = [str(folder / p / f"lib{name}_{p}.so") for p in parts]
    defined = [
        *(["-DEC_MPI"] if engine == "mpi" else []),
        *([f"-D{name.upper()}_RANK={rank}"] if rank is not None else []),
    ]
    sources = [main, f"{name}_divided.c", f"{name}_workers.c", *RUNTIME, *ENGINES[engine]]
    command = ["mpicc" if engine == "mpi" else "gcc", *STRICT, *SANITIZED, *defined, "-I.", "-o", str(program)]
    command += [*sources, *libraries, "-lm", "-lpthread", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return program


@contextmanager
def workers(
    folder: Path, program: Path | None = None, *more: str, secret: str = KEY
) -> Iterator[list[subprocess.Popen[str]]]:
    """Every worker of a network at work in C; each has its ``address``."""
    found: list[subprocess.Popen[str]] = []
    try:
        for k in range(len(read_manifest(folder).workers)):
            command = [str(program or compiled(folder)), "--worker", str(k + 1), *more]
            own = environment(EDGEC_WORKER_SECRET=secret)
            pipe = subprocess.PIPE
            found.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=own))
        for worker in found:
            assert worker.stdout is not None
            worker.address = worker.stdout.readline().split()[-1]  # type: ignore[attr-defined]
        yield found
    finally:
        for worker in found:
            worker.kill()
            worker.communicate()


def addresses(found: Sequence[subprocess.Popen[str]]) -> list[str]:
    return [worker.address for worker in found]  # type: ignore[attr-defined]


def host_command(folder: Path, engine: str, *arguments: str) -> list[str]:
    """The command of a host; by MPI of all ranks."""
    program = [str(compiled(folder, engine)), *arguments]
    return program if engine == "tcp" else ["mpirun", "-n", str(len(read_manifest(folder).workers) + 1), *program]


def expected(folder: Path, frames: Sequence[Mapping[str, np.ndarray]]) -> bytes:
    """The outputs of all frames as the coordinator in Python gives them."""
    with edgec.Several(folder) as network:
        found = list(network.stream(frames))
    return b"".join(r[n].tobytes() for r in found for n in read_manifest(folder).outputs)


def written(path: Path, folder: Path, frames: Sequence[Mapping[str, np.ndarray]]) -> Path:
    path.write_bytes(b"".join(f[n].tobytes() for f in frames for n in read_manifest(folder).inputs))
    return path
