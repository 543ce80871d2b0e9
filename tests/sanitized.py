"""Graphs in an executable of their own under a sanitizer: every read and write outside a buffer ends it.

Every input and output is a block of exactly its size. In the arena and among the weights no two buffers share memory,
and the bytes between them are forbidden, so that a kernel that leaves one buffer for another is caught too.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
from compiled import Target, Written, compile_c, write_graphs

from edgec.ir.expr import Expr
from edgec.ir.extent import sizes as sizes_in_extent
from edgec.ir.graph import Graph
from edgec.ir.sizes import dimensions, read_sizes, shape_at
from edgec.ir.types import DTYPES
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program

#: Checks that are called, not written out at every access: that compiles in half the time.
ADDRESS_ALONE = ("-fsanitize=address", "--param=asan-instrumentation-with-call-threshold=0", "-g1")
#: Null pointers and ends of objects are what addresses are checked for in any case.
ADDRESS = (*ADDRESS_ALONE, "-fsanitize=undefined", "-fno-sanitize=null,object-size", "-fno-sanitize-recover=all")
THREAD = ("-fsanitize=thread", "-g1")

_HEAD = """
#include "all.c" /* first: the pool says which functions of the system it wants */
#include <stdio.h>
#include <stdlib.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define ALLOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define FORBID(p, n) ((void)(p))
#define ALLOW(p, n) ((void)(p))
#endif

static unsigned char *block(size_t size) {
  void *p = 0;
  if (posix_memalign(&p, 64, size ? size : 1)) abort();
  memset(p, 0xff, size);
  return p;
}
static void filled(void *p, size_t size, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f || fread(p, 1, size, f) != size) abort();
  fclose(f);
}
static void kept(void *p, size_t size, const char *path) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(p, 1, size, f) != size) abort();
  fclose(f);
}
"""


def spread(program: Program) -> Program:
    """The same program with a place of its own for every buffer and a gap after it."""
    offsets: dict[Buffer, int] = {}
    ends = {"arena": ALIGNMENT, "weights": ALIGNMENT}
    for buffer in program.offsets:
        offsets[buffer] = ends[buffer.space]
        ends[buffer.space] += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT + ALIGNMENT
    return dataclasses.replace(program, offsets=offsets, arena_bytes=ends["arena"], weights_bytes=ends["weights"])


def run_sanitized(
    graphs: Mapping[str, Graph],
    inputs: Mapping[str, Mapping[str, np.ndarray]],
    folder: Path,
    target: Target,
    sanitizer: Sequence[str] = ADDRESS,
    threads: int = 1,
    in_place: bool = False,
    emulator: Sequence[str] = (),
) -> dict[str, dict[str, np.ndarray]]:
    """Outputs of every graph by name; fails with the sanitizer's report where there is one.

    ``in_place``: every state and its new value are one array. ``emulator`` runs what the compiler in CC made.
    """
    is_address = sanitizer is not THREAD
    made = write_graphs(graphs, folder, target.device, threads=threads, change=spread if is_address else lambda p: p)
    written = {name: w for name, w in made.items() if isinstance(w, Written)}
    assert len(written) == len(graphs), made
    functions = [_function(w, threads, _sizes(w.program, inputs[n]), in_place) for n, w in written.items()]
    calls = "".join(f'  puts("{w.prefix}"); fflush(stdout); run_{w.prefix}();\n' for w in written.values())
    (folder / "driver.c").write_text(_HEAD + "".join(functions) + f"int main(void) {{\n{calls}  return 0;\n}}\n")
    for name, w in written.items():
        (folder / f"{w.prefix}_weights.bin").write_bytes(w.weights)
        for k, (port, _, node) in enumerate(w.program.inputs):
            array = np.ascontiguousarray(inputs[name][port], DTYPES[node.type.dtype])
            (folder / f"{w.prefix}_in{k}.bin").write_bytes(array.tobytes())
    flags = [f for f in target.flags if f != "-g0"]
    program = compile_c(folder, "driver.c", "driver", [*flags, *sanitizer])
    stop = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1"}
    command = [*emulator, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, **stop})
    if done.returncode:
        last = {w.prefix: name for name, w in written.items()}.get((done.stdout.split() or [""])[-1])
        raise AssertionError(f"{last}: {done.stderr[:4000]}")
    got: dict[str, dict[str, np.ndarray]] = {}
    for name, w in written.items():
        sizes = _sizes(w.program, inputs[name])
        if w.program.sizes:
            counts = np.fromfile(folder / f"{w.prefix}_sizes.bin", np.int64)
            sizes.update(zip(w.program.sizes, map(int, counts[-len(w.program.sizes) :])))
        got[name] = {}
        for k, (port, _, n) in enumerate(w.program.outputs):
            shape = shape_at(n.type.shape, sizes)
            raw = np.fromfile(folder / f"{w.prefix}_out{k}.bin", DTYPES[n.type.dtype])
            got[name][port] = raw[: prod(shape)].reshape(shape)
    return got


def _sizes(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[Expr, int]:
    """The run-time sizes that inputs have."""
    sizes: dict[Expr, int] = {}
    for name, _, node in program.inputs:
        read_sizes(name, node.type, inputs[name].shape, sizes)
    return sizes


def _gaps(program: Program, space: str, size: int) -> list[tuple[int, int]]:
    """(start, size) of what no buffer of ``space`` covers."""
    taken = sorted((o, o + b.bytes) for b, o in program.offsets.items() if b.space == space)
    starts, ends = [0, *(end for _, end in taken)], [*(start for start, _ in taken), size]
    return [(a, b - a) for a, b in zip(starts, ends) if b > a]


def _function(w: Written, threads: int, known: Mapping[Expr, int], in_place: bool = False) -> str:
    p, name = w.program, w.prefix
    places = {buffer: k for k, (_, buffer, _) in enumerate(p.inputs)}
    shared = {new: places[old] for new, old in p.states.items()} if in_place else {}
    own = []
    chosen = dimensions(node.type for _, _, node in p.inputs)
    spaces = {"arena": max(p.arena_bytes, 1), "weights": len(w.weights)}
    lines = [f"static void run_{name}(void) {{"]
    lines += [f"  unsigned char *const {space} = block({size});" for space, size in spaces.items()]
    lines.append(f'  filled(weights, {len(w.weights)}, "{name}_weights.bin");')
    arguments = []
    bytes_of: dict[str, int] = {}
    if chosen or p.sizes:
        values = [*(known[s] * d.step for s, d in chosen.items()), *(0 for _ in p.sizes)]
        lines.append(f"  {name}_sizes sizes = {{{', '.join(map(str, values))}}};")
    for kind, ports in (("in", p.inputs), ("out", p.outputs)):
        for k, (_, buffer, node) in enumerate(ports):
            # Outputs whose size is computed are as large as they can become, others just as large as they are.
            sizes_known = all(s in known for n in node.type.shape for s in sizes_in_extent(n))
            size = prod(shape_at(node.type.shape, known)) * DTYPES[node.type.dtype].itemsize if sizes_known else 0
            place = f"in{shared[buffer]}" if kind == "out" and buffer in shared else None
            lines.append(f"  void *const {kind}{k} = {place or f'block({size if sizes_known else node.type.bytes})'};")
            own += [] if place else [f"{kind}{k}"]
            if kind == "in":
                lines.append(f'  filled(in{k}, {size}, "{name}_in{k}.bin");')
            bytes_of[f"{kind}{k}"] = size if sizes_known else node.type.bytes
            arguments.append(f"{kind}{k}")
    for space, size in spaces.items():
        lines += [f"  FORBID({space} + {start}, {n});" for start, n in _gaps(p, space, size)]
    if threads > 1:
        lines.append(f"  struct ec_pool *const pool = ec_pool_init(block(ec_pool_bytes({threads})), {threads});")
        lines.append("  if (!pool) abort();")
    call = f"{name}_run_pool(weights, arena, pool" if threads > 1 else f"{name}_run(weights, arena"
    sizes_ = ["&sizes"] if chosen or p.sizes else []
    lines.append(f"  if ({', '.join([call, *sizes_, *arguments])}) != 0) abort();")
    if sizes_:
        lines.append(f'  kept(&sizes, sizeof sizes, "{name}_sizes.bin");')
    if threads > 1:
        lines.append("  ec_pool_destroy(pool);")
    for k in range(len(p.outputs)):
        lines.append(f'  kept(out{k}, {bytes_of[f"out{k}"]}, "{name}_out{k}.bin");')
    for space, size in spaces.items():
        lines.append(f"  ALLOW({space}, {size});")
        lines.append(f"  free({space});")
    lines += [f"  free({a});" for a in own]
    return "\n".join([*lines, "}\n"])
