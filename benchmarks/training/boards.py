"""Training steps of two networks of MLPerf Tiny on emulated Cortex-M: memory and instructions.

    python -m benchmarks.training.boards [--networks NAME ...] [--devices NAME ...]

The keyword spotter and the network of visual wake words with stochastic gradient descent, momentum and one sample, in
qemu, which counts an instruction as a nanosecond. One line a network, device and update: KiB of arena, state and sample
and of all of them, the instructions of a step, and those of a step on all weights over it; then its instructions beside
those of an answer, which is the forward pass that every step makes, and the same share. A step is built for 256 KiB;
where none fits there, for the first of some larger memories in which one does, and the line says so.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import edgec
from benchmarks.training.networks import FILES, models_folder
from edgec.artifact.folder import read_lock
from edgec.bench.remote import board_flags
from edgec.device.load import load_device
from edgec.device.toolchain import compile_image, pick_compiler
from edgec.errors import UsageError
from edgec.link.board import Board

#: The machine of qemu that a device is, and its core.
MACHINES = {"mps2_an386": ("mps2-an386", "Cortex-M4"), "mps2_an500": ("mps2-an500", "Cortex-M7")}
#: The floats of a sample, and the updates that are tried.
NETWORKS = {
    "ds_cnn": (490, ("last:2", "bias", "all")),
    "mobilenet_vww": (96 * 96 * 3, ("last:1", "last:2", "bias", "all")),
}
ROOM = 256 << 10
LARGER = (512 << 10, 768 << 10, 64 << 20)
SECONDS = 300.0
PROGRAM = """
#include "ec_board.h"
#include "net_training.h"
#include <stdio.h>

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
static _Alignas(64) unsigned char arena[LARGER(NET_STEP_ARENA_BYTES, NET_ARENA_BYTES) + 1], state[NET_STATE_BYTES];
static float input[FLOATS], answers[ANSWERS];

int main(void) {
  net_state_init(state);
  for (int k = 0; k < 2; ++k) {
    int64_t target[1] = {k};
    float loss;
    for (int i = 0; i < FLOATS; ++i) input[i] = (float)((i * 37 + k) % 19) / 19 - 0.5f;
    const int64_t begun = ec_board_nanoseconds();
    if (net_step(net_weights, state, arena, 0, input, target, NET_LEARNING_RATE, &loss)) return 1;
    const int64_t stepped = ec_board_nanoseconds();
    if (net_predict(net_weights, state, arena, 0, input, answers)) return 1;
    const int64_t answered = ec_board_nanoseconds();
    printf("%ld %ld\\n", (long)((stepped - begun) / 1000), (long)((answered - stepped) / 1000));
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Step:
    """Bytes of arena and state, and the thousands of instructions of a step and of an answer, 0 where the step does not
    run on the board."""

    arena: int
    state: int
    thousands: int
    answer: int
    fits: bool

    @property
    def beside(self) -> int:
        """Thousands of instructions for gradients and updates."""
        return self.thousands - self.answer


def measured(name: str, update: str, device_name: str, folder: Path) -> Step:
    """A step that was built for 256 KiB, or for more where none fits."""
    device, floats = load_device(device_name), NETWORKS[name][0]
    asked: dict[str, Any] = {
        "loss": "cross_entropy", "update": update, "device": device_name, "optimizer": "sgd:lr=0.01,momentum=0.9",
        "compile": False, "weights": "array",
    }  # fmt: skip
    for room in (ROOM, *LARGER):
        try:
            built, fits = edgec.build(models_folder() / FILES[name], folder / "out", ram=room, **asked), room == ROOM
            break
        except UsageError:
            if room == LARGER[-1]:
                raise
    lock = read_lock(built.folder)
    facts = lock["training"]
    program = PROGRAM.replace("FLOATS", str(floats)).replace("ANSWERS", str(facts["classes"]))
    (folder / "program.c").write_text(program)
    sources = [folder / "program.c", *(built.folder / s for s in lock["sources"]), built.folder / "ec_board.c"]
    flags = board_flags(device, built.folder / "net.ld")
    found = Step(facts["arena_bytes"], facts["state_bytes"], 0, 0, fits)
    if found.arena + found.state + 4 * floats > device.ram_bytes:
        return found
    compile_image(
        pick_compiler(device), device, sources, folder / "program", include=[built.folder], defines=[],
        link_flags=flags, extra_flags=[],
    )  # fmt: skip
    board = Board(device, MACHINES[device_name][0])
    try:
        board.send(folder / "program", "program")
        told = [int(word) for word in board.start("program", [], SECONDS).output.split()]
    finally:
        board.close()
    return Step(found.arena, found.state, min(told[::2]), min(told[1::2]), fits)


def _work(step: Step) -> tuple[int, int]:
    return step.thousands, step.beside


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    p.add_argument("--devices", nargs="+", default=list(MACHINES), choices=list(MACHINES))
    given = p.parse_args()
    warnings.simplefilter("ignore")
    told = ("network", "core", "`--update`", "arena", "state", "sample", "together", "instructions a step", "of `all`")
    print("| " + " | ".join((*told, "beside the answer", "of `all`")) + " |")
    print("|---" * 11 + "|")
    for name in given.networks:
        floats, updates = NETWORKS[name]
        for device in given.devices:
            whole: Step | None = None
            for update in reversed(updates):
                with tempfile.TemporaryDirectory() as folder:
                    step = measured(name, update, device, Path(folder))
                whole = step if update == "all" and step.thousands else whole
                sizes = [b / 1024 for b in (step.arena, step.state, 4 * floats)]
                kib = " | ".join(f"{size:.0f} KiB" for size in (*sizes, sum(sizes)))
                work = f"{step.thousands / 1e3:.1f} million" if step.thousands else "more RAM than it has"
                beside = f"{step.beside / 1e3:.1f} million" if step.thousands else ""
                shares = ["", ""]
                if whole is not None and step.thousands:
                    shares = [f"1 / {a / b:.1f}" for a, b in zip(_work(whole), _work(step))]
                kib += "" if step.fits else " (no step fits)"
                cells = (name, MACHINES[device][1], f"`{update}`", kib, work, shares[0], beside, shares[1])
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
