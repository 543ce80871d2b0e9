"""Weights linked, as a C array and in a file: the same results, and files that are refused."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from compiled import STRICT
from small_models import model, node, weights

import edgec
from edgec.artifact.network import Network
from edgec.emit.weights import HEAD_BYTES, PLACES
from edgec.errors import UsageError

MAIN = r"""
#include <stdio.h>
#include "net.h"
static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES + 1], copy[4096 + NET_WEIGHTS_BYTES + 1];
int main(int argc, char **argv) {
  const void *weights = 0;
  for (int i = 1; i < argc; ++i) {
    const int status = net_weights_open(argv[i], 0, &weights);
    printf("%d ", status ? status : 10 + net_weights_verify(weights));
    if (status == NET_OK) net_weights_close(weights);
  }
  FILE *const file = fopen(argv[1], "rb");
  const size_t bytes = fread(copy, 1, sizeof copy, file);
  fclose(file);
  printf("%d ", net_weights_in(copy, bytes - 1, &weights));
  printf("%d ", net_weights_in(copy + 1, bytes, &weights));
  printf("%d ", net_weights_in(copy, bytes, &weights));
  static const float x[NET_X_ELEMENTS] = {1, 2, 3, 4, 5, 6};
  static float y[NET_Y_ELEMENTS];
  printf("%d", net_run(weights, arena, x, y));
  for (int i = 0; i < (int)NET_Y_ELEMENTS; ++i) printf(" %.9g", (double)y[i]);
  return 0;
}
"""


def network(seed: float = 0) -> onnx.ModelProto:
    """A matmul by drawn weights whose bytes are no multiple of eight."""
    w = RANDOM.standard_normal((3, 5)).astype(np.float32) + np.float32(seed)
    return model([node("MatMul", ["x", "w"], ["y"])], initializers=[weights("w", w)])


def test_places_are_equal(tmp_path: Path) -> None:
    """Results to the bit, in Python and of the runner; the sources strictly compiled."""
    made, x = network(), RANDOM.standard_normal((2, 3)).astype(np.float32)
    found = {}
    for place in PLACES:
        built = edgec.build(made, tmp_path / place, weights=place, ram="64M" if place == "stream" else None)
        found[place] = built(x)
        sources = [p.name for p in built.folder.glob("*.[cS]") if p.name != "main.c"]
        flags = [*STRICT, "-march=native", "-Wconversion", "-Wsign-conversion"]
        for command in (
            ["gcc", *flags, "-c", f"net_weights.{'S' if place == 'incbin' else 'c'}", "-o", "weights.o"],
            ["gcc", *STRICT, "-march=native", *sources, "-o", "runner", "-lm", "-lpthread"],
        ):
            done = subprocess.run(command, cwd=built.folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:3000]
        sample = built.folder / "sample"
        sample.write_bytes(np.uint64(x.nbytes).tobytes() + x.tobytes())
        assert subprocess.run(["./runner", "sample", "out"], cwd=built.folder).returncode == 0
        assert (built.folder / "out").read_bytes()[24:] == found[place].tobytes()
        assert (built.folder / "net_weights.bin").is_file() == (place == "incbin")
    assert all(np.array_equal(found[place], found["incbin"]) for place in PLACES)
    (tmp_path / "file" / "net.weights").rename(tmp_path / "moved")
    done = subprocess.run(["./runner", "sample", "out"], cwd=tmp_path / "file", capture_output=True, text=True)
    assert done.returncode == 2 and "status 6 of the file of weights net.weights" in done.stderr
    command = ["./runner", "sample", "out", "1", "1", "../moved"]
    assert subprocess.run(command, cwd=tmp_path / "file").returncode == 0


def test_files_are_checked(tmp_path: Path) -> None:
    built = edgec.build(network(), tmp_path / "out", weights="file")
    edgec.build(network(1), tmp_path / "built", weights="file", compile=False)
    edgec.build(network(1), tmp_path / "third", weights="file", compile=False, device="generic", fuse="none")
    right = (built.folder / "net.weights").read_bytes()
    retrained = (tmp_path / "built" / "net.weights").read_bytes()
    other = (tmp_path / "third" / "net.weights").read_bytes()
    damaged = bytearray(right)
    damaged[HEAD_BYTES + int(RANDOM.integers(len(right) - HEAD_BYTES))] ^= 1
    cases = {
        "right": (right, 10), "missing": (None, 6), "retrained": (retrained, 10), "other": (other, 12),
        "text": (b"x" * len(right), 7),
        "empty": (b"", 8), "head": (right[:40], 8), "cut": (right[:-1], 8), "long": (right + b"x", 8),
        "damaged": (bytes(damaged), 19), "layout": (right[:8] + b"\3" + right[9:], 7),
        "size": (right[:16] + b"\7" + right[17:], 7),
        "hash": (right[:30] + bytes([right[30] ^ 1]) + right[31:], 19),
    }  # fmt: skip
    for name, (content, _) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    (tmp_path / "main.c").write_text(MAIN)
    sources = [*built.folder.glob("net*.c"), tmp_path / "main.c"]
    flags = [*STRICT, "-march=native", "-fsanitize=address,undefined", f"-I{built.folder}"]
    command = ["gcc", *flags, *map(str, sources), str(built.folder / "ec_pool.c"), "-o", "main", "-lm", "-lpthread"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    ran = subprocess.run(["./main", *cases, "/dev/null", "."], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
    statuses = list(map(int, ran.stdout.split()[: len(cases) + 6]))
    assert statuses == [*(want for _, want in cases.values()), 7, 7, 8, 2, 0, 0]
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(np.float32(ran.stdout.split()[-10:]), built(x).reshape(-1))
    messages = {
        "missing": "No such file",
        "other": "made for another build",
        "text": "no file of weights",
        "cut": "cut off",
        "long": "cut off",
        "empty": "cut",
    }
    for name, message in messages.items():
        (built.folder / "net.weights").unlink(missing_ok=True)
        if (tmp_path / name).is_file():
            (built.folder / "net.weights").write_bytes((tmp_path / name).read_bytes())
        with pytest.raises(UsageError, match=message):
            Network(built.folder)


DEVICES = ("host", "cortex_m7", "wasm32", "cuda_sm90", "generic_opencl")
EXTRAS = ("", "cpp", "python", "rust", "java")


@pytest.mark.parametrize(("device", "extra"), [*itertools.product(DEVICES, EXTRAS)])
def test_written_or_refused(device: str, extra: str, tmp_path: Path) -> None:
    """Every place on every kind of device, with every binding: written, or refused in words."""
    extras = [extra] if extra else []
    made = network()
    try:
        edgec.build(made, tmp_path / "incbin", device=device, compile=False, extras=extras)
    except UsageError:
        return  # no such binding on the device, whatever the weights
    for place in ("array", "file"):
        fits = device == "host" if place == "file" else device in DEVICES[:3]
        fits = fits and (not extra or (place == "array" and extra != "python"))
        if fits:
            built = edgec.build(made, tmp_path / place, device=device, compile=False, extras=extras, weights=place)
            assert (built.folder / "net_weights.c").is_file() and not list(built.folder.rglob("*_weights.bin"))
        else:
            with pytest.raises(UsageError, match=r"--weights (array|file)(.|\n)*hint"):
                edgec.build(made, tmp_path / place, device=device, compile=False, extras=extras, weights=place)
            assert not (tmp_path / place).exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "flash"}, "place of weights 'flash'"),
        ({"ram": "300X"}, "'300X' is no size"),
        ({"ram": "0K"}, "hold nothing"),
        ({"weights": "file", "device": "mali_g710"}, "--weights file"),
    ],
)
def test_refused_options(settings: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        edgec.build(network(), tmp_path / "out", compile=False, **settings)  # type: ignore[arg-type]
