"""Tokens a second of a language model whose weights are read from disk, beside the bandwidth of the disk.

`python -m benchmarks.cpu.streaming MODEL.gguf --ram 64M` builds it with `--weights stream`, runs it in a process of its
own and reads the same bytes alone in turns, both past the page cache. The share is seconds of reading a token's bytes
over seconds of a token.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import edgec
from edgec.device.compilers import compiler_for
from edgec.device.load import load_device
from edgec.device.toolchain import Compiler, compile_program

HERE = Path(__file__).resolve().parent


def measured(model: Path, ram: str, context: int, tokens: int, rounds: int) -> tuple[np.ndarray, int]:
    """Rows of (seconds a token, seconds of reading, bytes of memory), and the bytes of the file of weights."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "out"
        edgec.build(model, folder, weights="stream", ram=ram, context=context, name="lm", compile=False)
        device = load_device("host")
        compiler = compiler_for(device, None)
        assert isinstance(compiler, Compiler)
        sources = [p for p in folder.glob("*.[cS]") if p.name not in ("main.c", "runner.c")]
        program = Path(scratch) / "streaming"
        compile_program(compiler, device, [*sources, HERE / "streaming.c"], program, include=[folder])
        command = [str(program), str(folder / "lm.weights"), str(tokens), str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"the program ended with {done.returncode}: {done.stderr}")
        rows = [list(map(float, line.split())) for line in done.stdout.splitlines()]
        return np.array(rows), (folder / "lm.weights").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--ram", default="64M", help="for everything: arena, cache and weights")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=10, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rows, size = measured(given.model, given.ram, given.context, given.tokens, given.rounds)
    print(f"weights {size / 1e6:.1f} MB, memory {rows[-1, 2] / 1e6:.1f} MB ({size / rows[-1, 2]:.2f} times as large)")
    for token, alone, _ in rows:
        print(f"token {token * 1e3:8.2f} ms, its bytes alone {alone * 1e3:8.2f} ms: {alone / token:.1%}")
    token, alone = rows[:, 0].min(), rows[:, 1].min()
    print(f"minima: {1 / token:.2f} tokens a second, {alone / token:.1%} of the bandwidth of the disk")


if __name__ == "__main__":
    main()
