"""Training steps of the keyword spotter on an emulated Cortex-M7: memory and instructions.

    python -m benchmarks.training.boards

DS-CNN of MLPerf Tiny with stochastic gradient descent, momentum and one sample, in qemu, which counts an instruction as
a nanosecond. One line an update: arena and state in KiB, and the instructions of a step.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import edgec
from benchmarks.training.networks import FILES, models_folder
from edgec.artifact.folder import read_lock
from edgec.bench.remote import board_flags
from edgec.device.load import load_device
from edgec.device.toolchain import compile_image, pick_compiler
from edgec.link.board import Board

DEVICE = "mps2_an500"
PROGRAM = """
#include "ec_board.h"
#include "net_training.h"
#include <stdio.h>

static _Alignas(64) unsigned char arena[NET_STEP_ARENA_BYTES + 1], state[NET_STATE_BYTES];

int main(void) {
  static float input[490];
  net_state_init(state);
  for (int k = 0; k < 3; ++k) {
    int64_t target[1] = {k};
    float loss;
    for (int i = 0; i < 490; ++i) input[i] = (float)((i * 37 + k) % 19) / 19 - 0.5f;
    const int64_t begun = ec_board_nanoseconds();
    if (net_step(net_weights, state, arena, 0, input, target, NET_LEARNING_RATE, &loss)) return 1;
    printf("%ld\\n", (long)(ec_board_nanoseconds() - begun));
  }
  return 0;
}
"""


def measured(update: str, folder: Path) -> tuple[float, float, float]:
    """The KiB of arena and state, and the millions of instructions of a step."""
    device = load_device(DEVICE)
    built = edgec.build(
        models_folder() / FILES["ds_cnn"], folder / "out", loss="cross_entropy", update=update, device=DEVICE,
        optimizer="sgd:lr=0.01,momentum=0.9", compile=False, weights="array",
    )  # fmt: skip
    (folder / "program.c").write_text(PROGRAM)
    lock = read_lock(built.folder)
    sources = [folder / "program.c", *(built.folder / s for s in lock["sources"]), built.folder / "ec_board.c"]
    flags = board_flags(device, built.folder / "net.ld")
    compile_image(
        pick_compiler(device), device, sources, folder / "program", include=[built.folder], defines=[],
        link_flags=flags, extra_flags=[],
    )  # fmt: skip
    board = Board(device, "mps2-an500")
    try:
        board.send(folder / "program", "program")
        told = board.start("program", [], 120.0).output.split()
    finally:
        board.close()
    facts = lock["training"]
    return facts["arena_bytes"] / 1024, facts["state_bytes"] / 1024, min(map(int, told)) / 1e6


def main() -> None:
    print("| `--update` | arena | state | instructions a step |\n|---|---|---|---|")
    for update in ("last:2", "bias", "all"):
        with tempfile.TemporaryDirectory() as folder:
            arena, state, millions = measured(update, Path(folder))
        print(f"| `{update}` | {arena:.0f} KiB | {state:.0f} KiB | {millions:.1f} million |", flush=True)


if __name__ == "__main__":
    main()
