"""Encrypted weights: opened in C by the right key alone, decrypted by OpenSSL's own program, and refused otherwise."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT
from needed import need
from small_models import model, node, weights
from typer.testing import CliRunner

import edgec
from edgec.cli.main import app
from edgec.emit.encrypted import encrypted
from edgec.emit.weights import ABI
from edgec.errors import UsageError

pytest.importorskip("cryptography", reason="pip install 'edgec[encrypt]'")

KEY = bytes(range(7, 39))
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net_encrypted.h"
static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES + 1];
int net_key(unsigned char key[32]) {
  const char *const text = getenv("KEY");
  for (int i = 0; text && i < 32; ++i) {
    unsigned byte = 0;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return 1;
    key[i] = (unsigned char)byte;
  }
  return !text;
}
int main(int argc, char **argv) {
  static const float x[NET_X_ELEMENTS] = {1, 2, 3, 4, 5, 6};
  static float y[NET_Y_ELEMENTS];
  for (int i = 1; i < argc; ++i) {
    const void *weights = 0;
    const int status = net_encrypted_open(argv[i], &weights);
    printf("%d ", status);
    FILE *const file = fopen(argv[i], "rb"); /* the same file in memory */
    if (file) {
      static _Alignas(NET_ALIGNMENT) unsigned char sealed[NET_ENCRYPTED_BYTES + 2], memory[NET_ENCRYPTED_MEMORY_BYTES];
      const size_t bytes = fread(sealed, 1, sizeof sealed, file);
      const void *inside = 0;
      fclose(file);
      if (net_encrypted_in(sealed, bytes, memory, &inside) != status) return 2;
      if (!status && memcmp(inside, weights, NET_WEIGHTS_BYTES)) return 3;
      net_encrypted_wipe(memory);
      for (size_t k = 0; k < sizeof memory; ++k)
        if (memory[k]) return 4;
    }
    if (!status && net_run(weights, arena, x, y)) return 1;
    if (!status)
      for (int k = 0; k < (int)NET_Y_ELEMENTS; ++k) printf("%.9g ", (double)y[k]);
    net_encrypted_close(weights);
  }
  return 0;
}
"""


def built(folder: Path, **settings: object) -> Path:
    """A matmul whose weights take several pieces of the file, and end in none of their own."""
    table = RANDOM.standard_normal((3, 100_003)).astype(np.float32)
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("ReduceMax", ["p"], ["y"], axes=[1])]
    made = model(nodes, initializers=[weights("w", table)], opset=13)
    edgec.build(made, folder, **{"weights": "file", "compile": False, **settings})
    return folder


def encrypt(folder: Path, key: bytes) -> Path:
    path = folder.with_name("key")
    path.write_bytes(key)
    done = CliRunner().invoke(app, ["encrypt", str(folder), "--key", str(path), "--json"])
    assert done.exit_code == 0, done.output
    return Path(json.loads(done.stdout)["file"])


@pytest.mark.parametrize(
    ("flags_of", "library", "package"),
    [((), "-lcrypto", "libssl-dev"), (("-DEC_PSA_CRYPTO",), "-lmbedcrypto", "libmbedtls-dev")],
    ids=["openssl", "psa"],
)
def test_only_the_key_opens_them(flags_of: tuple[str, ...], library: str, package: str, tmp_path: Path) -> None:
    need("gcc", "gcc", package)
    out = built(tmp_path / "out", compile=True)
    sealed = encrypt(out, KEY.hex().encode() + b"\n")
    content = sealed.read_bytes()
    assert (out / "net.weights").read_bytes()[5000:5064] not in content
    (tmp_path / "main.c").write_text(MAIN)
    sources = [*out.glob("net*.c"), tmp_path / "main.c", out / "ec_pool.c"]
    flags = [*STRICT, *flags_of, "-march=native", "-fsanitize=address,undefined", f"-I{out}"]
    command = ["gcc", *flags, *map(str, sources), "-o", str(tmp_path / "main"), "-lm", "-lpthread", library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No such file" in done.stderr and ("openssl/" in done.stderr or "psa/" in done.stderr):
        pytest.skip(f"headers are missing and cannot be installed here: apt install {package}")
    assert done.returncode == 0, done.stderr[:3000]
    strict = ["gcc", *STRICT, *flags_of, "-Wconversion", "-Wsign-conversion"]
    subprocess.run([*strict, "-c", str(out / "net_encrypted.c"), "-o", os.devnull], check=True)
    retrained = encrypted((built(tmp_path / "another") / "net.weights").read_bytes(), KEY)
    plain = (out / "net.weights").read_bytes()
    other = encrypted(plain[:ABI] + bytes(32) + plain[ABI + 32 :], KEY)
    turned = bytearray(content)
    turned[64 + 4096 + int(RANDOM.integers(len(content) - 64 - 4096))] ^= 1
    counter = content[:20] + bytes([content[20] ^ 1]) + content[21:]
    cases = {
        "right": (content, 0), "missing": (None, 6), "other": (other, 12),
        "plain": (plain, 7),
        "empty": (b"", 8), "head": (content[:63], 8), "cut": (content[:-1], 8), "long": (content + b"x", 8),
        "turned": (bytes(turned), 9), "counter": (counter, 33),
    }  # fmt: skip
    (tmp_path / "retrained").write_bytes(retrained)
    for name, (data, _) in cases.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)

    def told(key: str | None, *names: str) -> list[float]:
        environment = {**os.environ, **({"KEY": key} if key is not None else {})}
        ran = subprocess.run(
            [tmp_path / "main", *names], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[:3000]
        return list(map(float, ran.stdout.split()))

    statuses = told(KEY.hex(), *cases)
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    y = edgec.load(out)(x)
    np.testing.assert_array_equal(np.float32(statuses[1:3]), np.asarray(y).reshape(-1))
    assert [statuses[0], *statuses[3:]] == [want for _, want in cases.values()]
    assert told(KEY.hex(), "retrained")[0] == 0
    assert told(None, "right") == [32] and told((KEY[:-1] + b"\0").hex(), "right") == [33]
    decrypted = subprocess.run(
        [need("openssl", "openssl"), "enc", "-d", "-aes-256-ctr", "-K", KEY.hex(), "-iv", content[16:32].hex()],
        input=content[64:], capture_output=True, check=True,
    )  # fmt: skip
    assert decrypted.stdout == (out / "net.weights").read_bytes()


def test_a_board_opens_them_in_flash_memory(tmp_path: Path) -> None:
    """The sources of the embedded app compile for it with the headers of Mbed TLS; the image is the encrypted file."""
    compiler = need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libmbedtls-dev")
    if not Path("/usr/include/psa/crypto.h").is_file():
        pytest.skip("headers are missing and cannot be installed here: apt install libmbedtls-dev")
    table = weights("w", RANDOM.standard_normal((3, 5)).astype(np.float32))
    made, out = model([node("MatMul", ["x", "w"], ["y"])], initializers=[table]), tmp_path / "out"
    edgec.build(made, out, device="mps2_an386", weights="file", compile=False, extras=["embedded"])
    content = encrypt(out, KEY).read_bytes()
    for folder in ("psa", "mbedtls"):
        (tmp_path / folder).symlink_to(f"/usr/include/{folder}")
    (out / "embedded" / "key.c").write_text(
        '#include "net_encrypted.h"\nint net_key(unsigned char key[32]) { return !(key[0] = 7); }\n'
    )
    objects = ["main.c.o", "net_encrypted.c.o", "key.c.o", "net_weights_image.S.o"]
    words = ["make", "-s", "-C", str(out / "embedded"), "KEY=key.c", *objects]
    environment = {**os.environ, "CPATH": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr[:3000]
    image = (out / "embedded" / "net_weights_image.S.o").read_bytes()
    assert content in image and (out / "net.weights").read_bytes() not in image
    symbols = subprocess.run([compiler.replace("-gcc", "-nm"), "main.c.o"], cwd=out / "embedded", capture_output=True)
    assert b"net_encrypted_in" in symbols.stdout and b"net_encrypted_open" not in symbols.stdout


def test_counters_are_of_key_and_content(tmp_path: Path) -> None:
    """The same build gives the same file; no two contents or keys have a counter in common."""
    out = built(tmp_path / "out")
    first = encrypt(out, KEY).read_bytes()
    assert encrypt(out, KEY).read_bytes() == first
    again = [encrypt(out, KEY[::-1]).read_bytes(), encrypt(built(tmp_path / "b"), KEY).read_bytes()]
    assert len({data[16:32] for data in (first, *again)}) == 3


def test_refused(tmp_path: Path) -> None:
    from edgec.artifact.encrypt import encrypt as refuse

    key = tmp_path / "key"
    key.write_bytes(KEY)
    for place in ("incbin", "array"):
        out = built(tmp_path / place, weights=place)
        with pytest.raises(UsageError, match=f"only weights in a file .*: its weights are {place}") as refused:
            refuse(out, key)
        assert "--weights file" in str(refused.value.hint)
        assert not (out / "net.weights.enc").exists()
    with pytest.raises(UsageError, match="not a folder made by edgec"):
        refuse(tmp_path, key)
    out = built(tmp_path / "out")
    for wrong in (b"", KEY[:-1], KEY.hex().encode()[:-1], KEY.hex().encode()[:32], b"x" * 64, "é".encode() * 40):
        key.write_bytes(wrong)
        with pytest.raises(UsageError, match="a key is 32 bytes, or 64 hex digits"):
            refuse(out, key)
    with pytest.raises(UsageError, match="cannot read the key"):
        refuse(out, tmp_path / "none")
    key.write_bytes(KEY)
    whole = (out / "net.weights").read_bytes()
    for damaged in (whole[:-500], whole[:-1] + bytes([whole[-1] ^ 1]), whole + b"x", b""):
        (out / "net.weights").write_bytes(damaged)
        with pytest.raises(UsageError, match="not those of the build"):
            refuse(out, key)
    assert not list(out.glob("*enc*"))


def test_the_next_build_has_no_weights_of_the_last(tmp_path: Path) -> None:
    out = built(tmp_path / "out")
    encrypt(out, KEY)
    (out / "notes.txt").write_text("kept", encoding="utf-8")
    built(tmp_path / "out", weights="array")
    assert not list(out.glob("*enc*")) and (out / "notes.txt").is_file()
