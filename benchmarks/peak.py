"""How many multiply-adds this machine can do: a C program that does nothing else, on 1 or more threads."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from edgec.device.facts import Device
from edgec.device.toolchain import Compiler, compile_program

#: Independent sums: more than latency times throughput of any core here, fewer than its registers.
CHAINS = 12
_SOURCE = """\
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(float), STEPS = 1000000, ROUNDS = 12 };
static pthread_barrier_t barrier;
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

static void *work(void *best) {
  float keep = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    pthread_barrier_wait(&barrier);
    const double start = now();
    keep += multiply_add();
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
  double best[256] = {0};
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int t = 1; t < threads; ++t)
    if (pthread_create(&thread[t], NULL, work, &best[t])) return 1;
  work(&best[0]);
  for (int t = 1; t < threads; ++t) pthread_join(thread[t], NULL);
  printf("%.3f\\n", 2e-9 * LANES * CHAINS * STEPS * threads / best[0]);
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
    best = 0.0
    with tempfile.TemporaryDirectory(prefix="edgec-peak-") as folder:
        source = Path(folder, "peak.c")
        source.write_text(_source())
        for width in {max(device.vector_bytes, 16), max(device.vector_bytes // 2, 16)}:
            program = Path(folder, f"peak_{width}")
            compile_program(compiler, device, [source], program, defines=[f"VECTOR_BYTES={width}"])
            done = subprocess.run([str(program), str(threads)], capture_output=True, text=True, check=True)
            best = max(best, float(done.stdout))
    return best
