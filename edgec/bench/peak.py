"""Peak of this machine: multiply-adds, and reading memory. C programs that do nothing else, on threads."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from edgec.device.device import Device
from edgec.device.toolchain import Compiler, compile_program

#: Independent sums: more than latency times throughput of any core here, fewer than its registers.
CHAINS = 12
_SOURCE = """\
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(float), STEPS = 1000000, ROUNDS = 12 };
static pthread_barrier_t barrier;
static double times[256];
static volatile float factor = 0.999f, summand = 0.001f;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Chains of x = x * factor + summand: each step waits for the one before it, the chains do not wait for each other. */
static float multiply_add(void) {
  const vec a = factor - (vec){0}, b = summand - (vec){0};
  vec CHAIN(DECLARE);
  for (int step = 0; step < STEPS; ++step) {
    CHAIN(STEP);
  }
  vec sum = {0};
  CHAIN(ADD);
  return sum[0];
}

static float *memory;
static size_t vectors; /* of one thread's part of the memory; 0: multiply and add instead */

static float read_part(const vec *p) {
  vec a = {0}, b = a, c = a, d = a;
  for (const vec *end = p + vectors; p < end; p += 4) {
    a += p[0];
    b += p[1];
    c += p[2];
    d += p[3];
  }
  a += b + c + d;
  return a[0];
}

static void *work(void *best) {
#ifdef __linux__ /* a core for each: some systems put two busy threads on one for a while */
  const long thread = (double *)best - times;
  cpu_set_t cores, own;
  long seen = 0;
  CPU_ZERO(&own);
  if (!pthread_getaffinity_np(pthread_self(), sizeof cores, &cores))
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores) && seen++ == thread) CPU_SET(core, &own);
  if (CPU_COUNT(&own)) pthread_setaffinity_np(pthread_self(), sizeof own, &own);
#endif
  const vec *part = (const vec *)memory + vectors * (size_t)((double *)best - times);
  float keep = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    pthread_barrier_wait(&barrier);
    const double start = now();
    keep += vectors ? read_part(part) : multiply_add();
    pthread_barrier_wait(&barrier);
    const double taken = now() - start;
    if (round && (*(double *)best == 0 || taken < *(double *)best)) *(double *)best = taken;
  }
  summand = keep * 0 + summand;
  return NULL;
}

int main(int argc, char **argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  pthread_t thread[256];
  const size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  vectors = bytes / sizeof(vec) / (size_t)threads / 4 * 4;
  if (vectors) {
    memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory) return 1;
    for (size_t i = 0; i < bytes / sizeof(float); ++i) memory[i] = 1.0f;
  }
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int t = 1; t < threads; ++t)
    if (pthread_create(&thread[t], NULL, work, &times[t])) return 1;
  work(&times[0]);
  for (int t = 1; t < threads; ++t) pthread_join(thread[t], NULL);
  const double done = vectors ? (double)(vectors * sizeof(vec)) : 2.0 * LANES * CHAINS * STEPS;
  printf("%.3f\\n", 1e-9 * done * threads / times[0]);
  return 0;
}
"""


def _source() -> str:
    def repeated(form: str, separator: str) -> str:
        return separator.join(form.format(k=k) for k in range(CHAINS))

    # Different starts, so that no compiler makes one chain of them.
    macros = {
        "DECLARE": repeated("x{k} = b * {k}.5f", ", "),
        "STEP": repeated("x{k} = x{k} * a + b", ";\n    "),
        "ADD": repeated("sum += x{k}", ";\n  "),
    }
    text = _SOURCE.replace("CHAINS", str(CHAINS))
    for name, expansion in macros.items():
        text = text.replace(f"CHAIN({name})", expansion)
    return text


def gflops(device: Device, compiler: Compiler, threads: int) -> float:
    """Measured peak of fp32 multiply-adds, two operations each, in 1e9 a second: the best of the vector widths."""
    with tempfile.TemporaryDirectory(prefix="edgec-peak-") as folder:
        return max(run(program, threads) for program in programs(device, compiler, Path(folder)))


def read_speed(device: Device, compiler: Compiler, threads: int, size: int) -> float:
    """Measured speed of reading so many bytes again and again, all threads together, in 1e9 bytes a second."""
    with tempfile.TemporaryDirectory(prefix="edgec-peak-") as folder:
        return run(programs(device, compiler, Path(folder))[0], threads, max(size, 1 << 16))


def programs(device: Device, compiler: Compiler, folder: Path) -> list[Path]:
    """The program compiled for the device's vectors, and for vectors of half the width."""
    source, made = folder / "peak.c", []
    source.write_text(_source())
    for width in dict.fromkeys(max(device.vector_bytes >> halvings, 16) for halvings in (0, 1)):
        made.append(folder / f"peak_{width}")
        compile_program(compiler, device, [source], made[-1], defines=[f"VECTOR_BYTES={width}"])
    return made


def run(program: Path | str, threads: int, size: int = 0) -> float:
    """Result of one of the programs: 1e9 operations a second, or bytes of reading memory of that size."""
    command = [str(program), str(threads), str(size)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
