"""A training step on a microcontroller in emulation: the same losses as here, in the memory that the macros say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from needed import need
from trained_models import Unopened, convolutions

import edgec
from edgec.artifact.folder import read_lock
from edgec.bench.remote import board_flags
from edgec.check.training import InNumpy
from edgec.device.load import load_device
from edgec.device.toolchain import compile_image, pick_compiler
from edgec.link.board import Board

STEPS = 4
PROGRAM = """
#include "ec_board.h"
#include "net_training.h"
#include <stdio.h>

static _Alignas(64) unsigned char arena[NET_STEP_ARENA_BYTES + 1], state[NET_STATE_BYTES];

int main(void) {
  static float image[128];
  net_state_init(state);
  for (int k = 0; k < STEPS; ++k) {
    int64_t target[1] = {k % 5};
    float loss;
    for (int i = 0; i < 128; ++i) image[i] = (float)((i * 37 + k) % 19) / 19 - 0.5f;
    const int64_t begun = ec_board_nanoseconds();
    const int status = net_step(net_weights, state, arena, 0, image, target, NET_LEARNING_RATE, &loss);
    const long taken = (long)(ec_board_nanoseconds() - begun);
    printf("%d %.7g %ld\\n", status, (double)loss, taken);
  }
  return 0;
}
"""


@pytest.mark.parametrize("update", ["last:2", "bias"])
def test_steps_on_a_cortex_m7(update: str, tmp_path: Path) -> None:
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    device = load_device("mps2_an500")
    built = edgec.build(
        convolutions(), tmp_path / "out", loss="cross_entropy", update=update, optimizer="sgd:lr=0.05,momentum=0.9",
        device="mps2_an500", compile=False, ram="64K", weights="array",
    )  # fmt: skip
    (tmp_path / "program.c").write_text(PROGRAM)
    sources = [*(built.folder / s for s in read_lock(built.folder)["sources"]), built.folder / "ec_board.c"]
    compile_image(
        pick_compiler(device), device, [tmp_path / "program.c", *sources], tmp_path / "program",
        include=[built.folder], defines=[f"STEPS={STEPS}"], link_flags=board_flags(device, built.folder / "net.ld"),
        extra_flags=["-Wall", "-Wextra", "-Werror"],
    )  # fmt: skip
    board = Board(device, "mps2-an500")
    try:
        board.send(tmp_path / "program", "program")
        told = board.start("program", [], 60.0).output.split()
    finally:
        board.close()
    rows = np.array(told, np.float64).reshape(-1, 3)
    assert len(rows) == STEPS and not rows[:, 0].any() and (rows[:, 2] > 0).all()
    reference = InNumpy(Unopened(built.folder))  # type: ignore[arg-type]
    for k, loss in enumerate(rows[:, 1]):
        image = np.float32([((i * 37 + k) % 19) / 19 - 0.5 for i in range(128)]).reshape(1, 2, 8, 8)
        assert abs(reference.step(image, np.array([k % 5])) - loss) < 1e-4
