"""Weights that are read while the network runs: the bits of resident ones, in less memory; reads that fail."""

from __future__ import annotations

import re
import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT
from gguf_files import llama
from small_models import model, node, tensor_input, weights

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import UsageError

LAYERS, WIDTH = 24, 512
#: Weights of the network with layers are four times as large.
LIMIT = LAYERS * WIDTH * WIDTH
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ec_pool.h"
#include "net.h"
static _Alignas(NET_WEIGHTS_MEMORY_ALIGNMENT) unsigned char memory[NET_WEIGHTS_MEMORY_BYTES];
static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES + 1];
static float x[NET_X_ELEMENTS], y[NET_Y_ELEMENTS];
/* net.weights threads runs, and a length that the file is cut to after the first run, or 0 */
int main(int argc, char **argv) {
  const int threads = atoi(argv[2]), runs = atoi(argv[3]);
  const void *weights = 0;
  void *const seats = malloc(ec_pool_bytes(threads));
  ec_pool *const pool = threads > 1 ? ec_pool_init(seats, threads) : 0;
  int status = net_weights_open(argv[1], memory, &weights);
  for (int i = 0; i < (int)NET_X_ELEMENTS; ++i) x[i] = (float)(i % 7) - 3;
  for (int i = 0; i < runs && !status; ++i) {
    memset(y, 0xff, sizeof y);
    status = net_run_pool(weights, arena, i % 3 == 2 ? 0 : pool, x, y);
    if (i == 0 && argc > 4 && truncate(argv[1], atol(argv[4]))) return 9;
  }
  long kilobytes = 0;
  char line[256];
  FILE *const file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &kilobytes);
  printf("%d %d %ld", status, weights ? net_weights_error(weights) : 0, kilobytes * 1024);
  for (int i = 0; i < (int)NET_Y_ELEMENTS; ++i) printf(" %.9g", (double)y[i]);
  net_weights_close(weights);
  if (pool) ec_pool_destroy(pool);
  free(seats);
  return 0;
}
"""
INCLUDED = ("-include", "failing.h")
FAILING = r"""
#include <errno.h>
#include <unistd.h>
ssize_t failing(int file, void *to, size_t bytes, off_t at);
ssize_t failing(int file, void *to, size_t bytes, off_t at) {
  static int reads;
  if (++reads == 40) { errno = EIO; return -1; }
  if (reads % 3 == 1) { errno = EINTR; return -1; }
  return pread(file, to, bytes > 8192 && reads % 2 ? 8192 : bytes, at);
}
"""


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A folder with a network of equal layers that reads its weights in an eighth of their size, and its result."""
    folder, names = tmp_path_factory.mktemp("layers"), [f"h{k}" for k in range(LAYERS)]
    given = [weights(f"w{k}", RANDOM.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 16) for k in range(LAYERS)]
    nodes = []
    for k, (before, after) in enumerate(zip(["x", *names], [*names[:-1], "y"])):
        nodes += [node("MatMul", [before, f"w{k}"], [f"m{k}"]), node("Tanh", [f"m{k}"], [after])]
    made = model(nodes, [tensor_input("x", [4, WIDTH])], ["y"], given)
    x = (np.arange(4 * WIDTH, dtype=np.float32) % 7 - 3).reshape(4, WIDTH)
    want = edgec.build(made, folder / "resident", threads=2)(x)
    built = edgec.build(made, folder / "out", weights="stream", ram="3M", threads=2)
    assert np.array_equal(built(x), want) and np.array_equal(built(x), want)
    (folder / "main.c").write_text(MAIN)
    (folder / "failing.c").write_text(FAILING)
    (folder / "out" / "failing.h").write_text("#include <sys/types.h>\nssize_t failing(int, void *, size_t, off_t);\n")
    return folder, want.reshape(-1)


def compiled(folder: Path, name: str, *flags: str) -> list[str]:
    sources = [*map(str, (folder / "out").glob("*.c")), str(folder / "main.c")]
    sources = [s for s in sources if s not in (str(folder / "out/main.c"), str(folder / "out/runner.c"))]
    command = ["gcc", *STRICT, "-march=native", "-Wconversion", "-Wsign-conversion", f"-I{folder / 'out'}"]
    done = subprocess.run([*command, *sources, *flags, "-o", str(folder / name), "-lm", "-lpthread"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]
    return [str(folder / name)]


def limited() -> None:
    """A quarter of the weights for data, the stacks of threads among them."""
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 18, 1 << 18))
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


def ran(command: list[str], *arguments: object, limit: bool = True) -> tuple[int, int, int, np.ndarray]:
    before = limited if limit else None
    words = [*command, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, preexec_fn=before)
    assert done.returncode == 0, done.stderr[:3000]
    status, error, used, *y = done.stdout.split()
    return int(status), int(error), int(used), np.array(y, np.float32)


def test_in_a_quarter_of_the_memory(layers: tuple[Path, np.ndarray]) -> None:
    folder, want = layers
    program, file = compiled(folder, "plain"), folder / "out" / "net.weights"
    for threads in (1, 2):
        status, error, used, y = ran(program, file, threads, 7)
        assert (status, error) == (0, 0) and np.array_equal(y, want)
        assert used < LIMIT < file.stat().st_size // 4 + 4096, f"{used} bytes of memory"


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitized(layers: tuple[Path, np.ndarray], sanitizer: str) -> None:
    folder, want = layers
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-Wno-conversion", "-Wno-sign-conversion"]
    status, _, _, y = ran(compiled(folder, "sanitized", *flags), folder / "out" / "net.weights", 2, 5, limit=False)
    assert status == 0
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


def test_reads_that_fail(layers: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    """On one thread and on two: a status and its reason, never a hang or a wrong result."""
    folder, want = layers
    content = (folder / "out" / "net.weights").read_bytes()
    (tmp_path / "net.weights").write_bytes(content)
    failing = compiled(
        folder, "failing", "-DEC_READER_PREAD=failing", str(folder / "failing.c"), "-include", "failing.h"
    )
    for threads in (1, 2):
        assert ran(failing, tmp_path / "net.weights", threads, 9)[:2] == (10, 5)
        (tmp_path / "net.weights").write_bytes(content)
        cut = int(RANDOM.integers(5000, len(content) // 2))
        assert ran(compiled(folder, "plain"), tmp_path / "net.weights", threads, 9, cut)[:2] == (10, -1)
        (tmp_path / "net.weights").write_bytes(content)
    plain = compiled(folder, "plain")
    (tmp_path / "net.weights").write_bytes(content[:-1])
    (tmp_path / "other").write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    statuses = [ran(plain, tmp_path / name, 1, 1)[0] for name in ("net.weights", "missing", "other")]
    assert want.size and statuses == [8, 6, 12]


def test_sessions_are_equal(tmp_path: Path) -> None:
    """A language model on one thread and two, in memory for all of its weights and in hardly enough."""
    (tmp_path / "lm.gguf").write_bytes(llama("Q4_1", layers=4))
    options = {"context": 80, "name": "lm", "threads": 2}
    edgec.build(tmp_path / "lm.gguf", tmp_path / "resident", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"--ram \d+K is enough") as refused:
        edgec.build(tmp_path / "lm.gguf", tmp_path / "no", weights="stream", ram="200K", **options)  # type: ignore[arg-type]
    least = re.search(r"--ram (\d+K)", str(refused.value))
    assert least is not None
    tokens = RANDOM.integers(0, 40, 30).tolist()

    def logits(folder: Path, threads: int) -> np.ndarray:
        with Network(folder, threads=threads) as opened:
            session, other = Session(opened), Session(opened)
            found = [session.prefill(tokens), other.prefill(tokens[:3])]
            return np.stack([*found, *(s.next(t) for t in tokens[:6] for s in (session, other))])

    want = logits(tmp_path / "resident", 1)
    for ram in (least[1], "8M"):
        edgec.build(tmp_path / "lm.gguf", tmp_path / ram, weights="stream", ram=ram, **options)  # type: ignore[arg-type]
        for threads in (1, 2):
            assert np.array_equal(logits(tmp_path / ram, threads), want)
    with Network(tmp_path / least[1]) as opened:
        file = tmp_path / least[1] / "lm.weights"
        session = Session(opened)
        session.prefill(tokens)
        with open(file, "r+b") as cut:
            cut.truncate(8192)
        with pytest.raises(UsageError, match="10"):
            for _ in range(9):
                session.next(1)


def test_refused_without_ram(tmp_path: Path) -> None:
    made = model([node("MatMul", ["x", "w"], ["y"])], initializers=[weights("w", np.ones((3, 5), np.float32))])
    with pytest.raises(UsageError, match="--ram 300M"):
        edgec.build(made, tmp_path / "out", weights="stream", compile=False)
    with pytest.raises(UsageError, match="own memory"):
        edgec.build(made, tmp_path / "out", weights="stream", ram="1M", device="cuda_sm90", compile=False)
