"""The same networks by CMSIS-NN's kernels: a program that calls them layer by layer, for boards.py.

CMSIS-NN is Arm's library of integer kernels for Cortex-M. Its sources are not in a package registry; they are had by

    git clone https://github.com/ARM-software/CMSIS-NN

What the file of a network says of each layer is written as tables in C (``layers.h``); ``cmsis_nn.c`` has the calls.
Everything is compiled by the compiler that edgec takes for the board, with edgec's options.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from edgec.bench.remote import board_flags
from edgec.build import Built
from edgec.device.toolchain import compile_image, pick_compiler
from edgec.frontend.tflite.integer import fixed_point, round_away
from edgec.frontend.tflite.model import Operator, Subgraph, Tensor
from edgec.frontend.tflite.reader import parse
from edgec.link.choose import open_link

PROGRAM = Path(__file__).resolve().with_name("cmsis_nn.c")
#: Folders of the library that have kernels for bytes and what those need.
FOLDERS = "Convolution", "FullyConnected", "Pooling", "Softmax", "BasicMath", "Transpose", "NNSupport"
#: Sources for other types than bytes. Kernels that bytes need besides have both types in their names (``_s8_s16``).
OTHERS = re.compile(r"_(s4|f16|f32|s64)(_|\.)|(?<!_s8)_s16\.|svdf|lstm")
KINDS = {
    "CONV_2D": "CONV",
    "DEPTHWISE_CONV_2D": "DEPTHWISE",
    "FULLY_CONNECTED": "FULLY_CONNECTED",
    "AVERAGE_POOL_2D": "AVERAGE_POOL",
    "ADD": "ADD",
    "SOFTMAX": "SOFTMAX",
}
SAME, RELU, RELU6 = 0, 1, 3
#: Bits before the point of what a softmax takes the exponential of.
SOFTMAX_BITS = 5


@dataclass(frozen=True)
class Counted:
    """Instructions of one run, and the outputs."""

    instructions: float
    outputs: np.ndarray


def version(library: Path) -> str:
    """Version of the checkout."""
    told = subprocess.run(
        ["git", "-C", str(library), "describe", "--tags", "--always"], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def counted(library: Path, model: Path, built: Built, inputs: np.ndarray) -> Counted:
    """One run of the network in ``model`` on the board that ``built`` is for; ``built`` lends what starts the board."""
    device = built.options.device
    network = parse(model.read_bytes(), path=model).main
    with tempfile.TemporaryDirectory() as scratch, open_link(device) as link:
        folder = Path(scratch)
        (folder / "layers.h").write_text("\n".join(tables(network)) + "\n", encoding="utf-8")
        image = compile_image(
            pick_compiler(device, built.options.compiler), device,
            [PROGRAM, built.folder / "ec_board.c", *sources(library)], folder / "cmsis_nn",
            include=[folder, built.folder, library / "Include"],
            extra_flags=["-w", "-ffunction-sections"],
            link_flags=[*board_flags(device, built.folder / f"{built.options.name}.ld"), "-Wl,--gc-sections"],
        )  # fmt: skip
        (folder / "inputs.bin").write_bytes(inputs.tobytes())
        for file in (image, folder / "inputs.bin"):
            link.send(file, file.name)
        ended = link.start(image.name, ["inputs.bin", "outputs.bin"], 600)
        told = re.search(r"^nanoseconds (\d+)\s*$", ended.output, re.MULTILINE)
        if ended.code != 0 or told is None:
            raise SystemExit(f"{model.name} by CMSIS-NN ended with {ended.code} on {device.name}: {ended.output}")
        link.fetch("outputs.bin", folder / "outputs.bin")
        shape = network.tensors[network.outputs[0]].shape
        return Counted(float(told[1]), np.fromfile(folder / "outputs.bin", np.int8).reshape(shape))


def sources(library: Path) -> list[Path]:
    """Kernels for bytes, and whatever any kernel shares; the linker leaves out what is not called."""
    found = [p for folder in FOLDERS for p in sorted((library / "Source" / f"{folder}Functions").glob("*.c"))]
    return [path for path in found if not OTHERS.search(path.name)]


def tables(network: Subgraph) -> Iterator[str]:
    """The lines of layers.h: constants, room for what is computed, and the list of layers."""
    alias: dict[int, int] = {}  # a reshape moves nothing
    for operator in network.operators:
        if operator.name == "RESHAPE":
            alias[operator.outputs[0]] = alias.get(operator.inputs[0], operator.inputs[0])
    names = {k: f"t{alias.get(k, k)}" for k in range(len(network.tensors))}
    layers = [o for o in network.operators if o.name != "RESHAPE"]
    for k in [*network.inputs, *(o.outputs[0] for o in layers)]:
        yield f"static int8_t t{k}[{prod(network.tensors[k].shape)}] __attribute__((aligned(16)));"
    entries = []
    for number, operator in enumerate(layers):
        tensors = [network.tensors[k] for k in operator.inputs]
        facts = Facts(operator, tensors, network.tensors[operator.outputs[0]])
        fields = {"kind": KINDS[operator.name], "in": names[operator.inputs[0]], "out": names[operator.outputs[0]]}
        if operator.name == "ADD":
            fields["second"] = names[operator.inputs[1]]
            fields["second_zero"] = str(tensors[1].quantized.zero)
        elif len(tensors) > 1:
            yield _array("const int8_t", f"weights{number}", tensors[1].data)
            yield _array("const int32_t", f"bias{number}", tensors[2].data)
            fields |= {"weights": f"weights{number}", "bias": f"bias{number}"}
        for what, values in zip(("multipliers", "shifts"), fixed_point(facts.factors())):
            yield _array("int32_t", f"{what}{number}", values)
            fields[what] = f"{what}{number}"
        fields |= facts.fields()
        entries.append("  {" + ", ".join(f".{key} = {value}" for key, value in fields.items()) + "},")
    yield from ["static struct layer layers[] = {", *entries, "};"]
    yield f"#define NET_INPUT {names[network.inputs[0]]}"
    yield f"#define NET_OUTPUT {names[network.outputs[0]]}"


@dataclass(frozen=True)
class Facts:
    """Facts of a layer's call, from the file."""

    operator: Operator
    operands: Sequence[Tensor]
    result: Tensor

    def factors(self) -> np.ndarray:
        """Factors from accumulators to results, one or one a channel; operands of an addition have their own."""
        name, scale = self.operator.name, float(self.result.quantized.scale)
        first = float(self.operands[0].quantized.scale)
        if name == "ADD":
            most = 2 * max(first, second := float(self.operands[1].quantized.scale))
            return np.array([most / (2**20 * scale), first / most, second / most])
        if name == "SOFTMAX":
            beta = float(self.operator.options["beta"])
            return np.array([min(beta * first * 2 ** (31 - SOFTMAX_BITS), 2.0**31 - 1)])
        if name == "AVERAGE_POOL_2D":
            return np.ones(1)
        return first * self.operands[1].quantized.scales.astype(np.float64) / scale

    def fields(self) -> dict[str, str]:
        zero, out_zero = self.operands[0].quantized.zero, self.result.quantized.zero
        least, most = self.bounds()
        given, made = _image(self.operands[0].shape), _image(self.result.shape)
        window, filter_dims = self.window(given[3])
        steps = tuple(int(self.operator.options.get(f"stride_{d}", 1)) for d in "hw")
        same = self.operator.options.get("padding", 1) == SAME and "stride_h" in self.operator.options
        border = [max(0, (made[d + 1] - 1) * steps[d] + window[d] - given[d + 1]) // 2 if same else 0 for d in range(2)]
        fields = {
            "in_dims": _dims(given), "out_dims": _dims(made), "filter_dims": _dims(filter_dims),
            "bias_dims": _dims((1, 1, 1, made[3])),
            "in_zero": str(zero), "out_zero": str(out_zero), "least": str(least), "most": str(most),
            "stride": f"{{{steps[1]}, {steps[0]}}}", "padding": f"{{{border[1]}, {border[0]}}}",
        }  # fmt: skip
        if self.operator.name == "SOFTMAX":
            _, shift = fixed_point(self.factors())
            fields["diff_min"] = str(-int((2**SOFTMAX_BITS - 1) * 2.0 ** (31 - SOFTMAX_BITS - int(shift[0]))))
        return fields

    def window(self, channels: int) -> tuple[tuple[int, int], tuple[int, ...]]:
        """Rows and columns that one result reads, and the filter's dimensions as the library wants them."""
        if self.operator.name == "AVERAGE_POOL_2D":
            rows, columns = (int(self.operator.options[f"filter_{d}"]) for d in ("height", "width"))
            return (rows, columns), (1, rows, columns, 1)
        if self.operator.name == "FULLY_CONNECTED":
            return (1, 1), (channels, 1, 1, self.result.shape[-1])
        if self.operator.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            shape = self.operands[1].shape
            return (shape[1], shape[2]), (1, *shape[1:])
        return (1, 1), (1, 1, 1, 1)

    def bounds(self) -> tuple[int, int]:
        """Clipping bounds of results."""
        scale, zero = self.result.quantized.scale, self.result.quantized.zero
        activation = self.operator.options.get("fused_activation_function", 0)
        least = max(-128, zero) if activation in (RELU, RELU6) else -128
        most = min(127, zero + int(round_away(np.float32(6.0) / scale))) if activation == RELU6 else 127
        return least, most


def _image(shape: Sequence[int]) -> tuple[int, ...]:
    return (shape[0], *(1,) * (4 - len(shape)), *shape[1:])


def _dims(dims: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, dims)) + "}"


def _array(kind: str, name: str, values: np.ndarray | None) -> str:
    assert values is not None
    return f"static {kind} {name}[] = {{{', '.join(map(str, values.reshape(-1).tolist()))}}};"
