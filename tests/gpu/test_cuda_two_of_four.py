"""Products by weights with two of each four along k on tensor cores: priced, packed, and right on the processor."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import emulated
import numpy as np
import pytest
from chance import RANDOM, begin
from emulated import Emulated, emulate
from integer_cases import bias, requantized, scales
from sanitized import ADDRESS_ALONE
from small_graphs import arrays, conv, graph, pad, relu, transpose, value, weights
from test_cuda_kernels import TOLERANCE, difference

import edgec
from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.errors import UsageError
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.schedule.build import schedule
from edgec.schedule.flat import Weights, flatten
from edgec.schedule.gpu.choose import choose
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.two_of_four import packed, sparse_offers
from edgec.schedule.gpu.variants import proposed
from edgec.schedule.options import ScheduleOptions


def halved(w: np.ndarray, axis: int) -> np.ndarray:
    """Two of each four along an axis, which two for every other index by chance; some groups with fewer."""
    last = np.moveaxis(w, axis, -1).copy()
    room = np.pad(last, [(0, 0)] * (w.ndim - 1) + [(0, -last.shape[-1] % 4)]).reshape(*last.shape[:-1], -1, 4)
    rank = RANDOM.random(room.shape).argsort(axis=-1)
    room[(rank > 1) | (RANDOM.random(room.shape) < 0.1)] = 0
    return np.ascontiguousarray(np.moveaxis(room.reshape(*last.shape[:-1], -1)[..., : last.shape[-1]], -1, axis))


def matrix(depth: int, columns: int) -> Node:
    return constant(halved(RANDOM.standard_normal((depth, columns)) / np.sqrt(depth), 0).astype(np.float32))


def kernels(*shape: int) -> Node:
    w = RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return constant(halved(w, 1).astype(np.float32))


def floats() -> dict[str, Graph]:
    image = transpose(value("x", 1, 9, 11, 20), 0, 3, 1, 2)
    window = conv(pad(image, 1, 1), kernels(70, 20, 3, 3), 2)
    biased = ops.node("add", ops.node("matmul", value("a", 70, 203), matrix(203, 133)), weights(133))
    rows = ops.node("matmul", transpose(value("t", 96, 70), 1, 0), matrix(96, 64))
    return {
        "odd": graph(relu(biased)),
        "batch": graph(ops.node("matmul", value("b", 3, 40, 512), matrix(512, 96))),
        "turned": graph(rows),
        "window": graph(transpose(relu(window), 0, 2, 3, 1)),
    }


def bytes_() -> dict[str, Graph]:
    found = {}
    for number, (dtype, columns, depth) in enumerate((("i8", 133, 203), ("u8", 96, 512), ("u8", 64, 64))):
        w = constant(halved(RANDOM.integers(-128, 128, (depth, columns)), 0).astype(np.int8))
        a = ops.node("cast", value("a", 70, depth, dtype=dtype), to="i32")
        sums = ops.node("add", ops.node("matmul", a, ops.node("cast", w, to="i32")), bias(columns))
        found[f"bytes {number}"] = graph(requantized(sums, scales(columns)))
    image = ops.node("cast", transpose(value("x", 1, 7, 5, 32, dtype="i8"), 0, 3, 1, 2), to="i32")
    w = constant(halved(RANDOM.integers(-128, 128, (90, 32, 3, 3)), 1).astype(np.int8))
    found["bytes of a window"] = graph(
        transpose(requantized(conv(image, ops.node("cast", w, to="i32")), scales(90, 1, 1)), 0, 2, 3, 1)
    )
    return found


def asking(device: Device, gain: float, rate: float = 1.0) -> Device:
    """The device that takes 2:4 from a gain on, and multiplies it so much faster."""
    tile = replace(device.costs.tensor_tile, two_of_four_gain=gain, two_of_four=rate)
    return replace(device, costs=replace(device.costs, tensor_tile=tile))


def are_right(graphs: dict[str, Graph], folder: Path, device: Device) -> None:
    for title, network in emulate(graphs, folder, asking(device, 0.01)).items():
        assert isinstance(network, Emulated), (title, network)
        found = [k.schedule for k in network.program.kernels if isinstance(k.schedule, GpuContract)]
        assert found and all(map(is_sparse, found)), title
        given = arrays(graphs[title], 1)
        want = evaluate.run(graphs[title], given)
        for output, got in network(given).items():
            exact = np.array_equal(got, want[output]) if title.startswith("bytes") else True
            assert exact and difference(got, want[output], TOLERANCE[device.precision]) is None, (title, output)


def test_kernels_of_halves_are_right(tmp_path: Path) -> None:
    are_right(floats(), tmp_path, replace(load_device("cuda_sm90"), precision="fp16"))


def test_kernels_of_bytes_are_right(tmp_path: Path) -> None:
    are_right(bytes_(), tmp_path, load_device("jetson"))


def test_kernels_stay_in_their_buffers(tmp_path: Path) -> None:
    """The same, with weights that threads copy, in a process that AddressSanitizer watches."""
    asked = [os.environ.get("CXX", "g++"), "-print-file-name=libasan.so"]
    library = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(library).is_file():
        pytest.skip("no address sanitizer here")
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parents[1]), str(Path(__file__).parent)])
    quiet = "detect_leaks=0:detect_stack_use_after_return=0"
    watched = {**os.environ, "PYTHONPATH": path, "LD_PRELOAD": library, "ASAN_OPTIONS": quiet}
    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(command, env=watched, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def watched(folder: Path) -> None:
    """The work of that process."""
    begin("watched")
    emulated.FLAGS = (*emulated.FLAGS, *ADDRESS_ALONE)
    device = replace(load_device("jetson"), precision="fp16")
    whole = floats() | bytes_()
    are_right({name: whole[name] for name in ("odd", "window", "bytes of a window")}, folder, device)


def unpacked(tiles: np.ndarray, t: TensorTile) -> np.ndarray:
    """[columns, depth] of weights, by the fragments that PTX describes for the left factor of `mma.sp`."""
    count, rounds = tiles.shape[:2]
    found = np.zeros((count * t.n, rounds * t.k), tiles.dtype)
    units = tiles.view(np.uint8).reshape(count, rounds, t.n // 16, t.steps, t.step_bytes)
    per = 4 // t.bytes  # elements of a register
    for at in np.ndindex(units.shape[:-1]):
        elements = units[at][:512].view(tiles.dtype).reshape(32, 4, per)
        words = units[at][512:].view(np.uint32)
        first = at[1] * t.k + at[3] * (64 // t.bytes)
        before = 0
        for lane, register, part in np.ndindex(elements.shape):
            row, column = lane // 4 + register % 2 * 8, lane % 4 * per + register // 2 * 4 * per + part
            if t.bytes == 2:  # a register has columns of 16 elements in rows g and g + 8
                bits = int(words[lane // 4 * 2 + column // 8]) >> (row // 8 * 16 + column % 8 * 2)
            else:  # columns of 32 elements in one of them
                bits = int(words[lane // 4 * 4 + row // 8 + column // 16 * 2]) >> (column % 16 * 2)
            if column % 2:
                assert bits & 3 > before, "positions of a group are in order"
            before = bits & 3
            found[at[0] * t.n + at[2] * 16 + row, first + column // 2 * 4 + (bits & 3)] = elements[lane, register, part]
    return found


@pytest.mark.parametrize(("element", "dtype"), [("f16", np.float16), ("s8", np.int8)])
def test_weights_are_packed_as_lanes_hold_them(element: str, dtype: type) -> None:
    tile = TensorTile(32, 32, 64 if element == "f16" else 128, 1, 1, 1, 3, 1, element, two_of_four=True)
    w = halved(RANDOM.integers(-99, 99, (45, 150)), 1).astype(dtype)
    got = packed(w, tile)
    assert got.dtype == w.dtype and got.shape == (2, -(-150 // tile.k), tile.l_room)
    whole = unpacked(got, tile)
    assert np.array_equal(whole[:45, :150], w) and not whole[45:].any() and not whole[:, 150:].any()
    with pytest.raises(ValueError, match="more than two of four"):
        packed(np.ones((8, 8), dtype), tile)


def scheduled(g: Graph, device: Device, variant: str | None = None) -> GpuContract:
    """The record of the only product of a graph."""
    found = [b for b in plan(g, gpu=True).blocks if b.kind == "contract"]
    assert len(found) == 1
    program = schedule(plan(g, gpu=True), device, ScheduleOptions(fp32_blocks=0))
    (kernel,) = (k for k in program.kernels if isinstance(k.schedule, GpuContract))
    if variant is None:
        assert isinstance(kernel.schedule, GpuContract)
        return kernel.schedule
    flat = flatten(found[0], program.views, Weights())
    record = choose(found[0], flat, device, Weights(), variant)
    assert isinstance(record, GpuContract)
    return record


def is_sparse(record: GpuContract) -> bool:
    return isinstance(record.tile, TensorTile) and record.tile.two_of_four


def test_the_price_decides_and_a_variant_forces() -> None:
    g = graph(ops.node("matmul", value("a", 256, 768), matrix(768, 512)))
    device = replace(load_device("jetson"), precision="fp16")
    usual = scheduled(g, device)
    assert usual.offer is not None and usual.offer.taken is is_sparse(usual)
    assert not is_sparse(scheduled(g, asking(device, 100.0, 2.0)))
    taken = scheduled(g, asking(device, 1.15, 8.0))
    assert is_sparse(taken) and taken.offer is not None and taken.offer.taken
    assert taken.offer.dense_cycles > 1.15 * taken.offer.sparse_cycles and taken.offer.zeros >= 0.5
    names = proposed(usual, device)
    sparse = [n for n in names if "2:4" in n.split()]
    assert 0 < len(sparse) < len(names)
    assert [is_sparse(scheduled(g, asking(device, 100.0), n)) for n in names] == [n in sparse for n in names]
    assert not any(is_sparse(scheduled(g, asking(device, 0.01), n)) for n in names if n not in sparse)


def test_other_products_stay_dense() -> None:
    device = asking(replace(load_device("jetson"), precision="fp16"), 0.01)
    g = graph(ops.node("matmul", value("a", 256, 768), matrix(768, 512)))
    assert is_sparse(scheduled(g, device)) and is_sparse(scheduled(g, replace(device, precision="bf16")))
    for precision in ("fp32", "tf32"):
        assert not is_sparse(scheduled(g, replace(device, precision=precision))), precision
    dense = constant(np.where(RANDOM.random((768, 512)) < 0.5, 0, 1).astype(np.float32))
    assert not is_sparse(scheduled(graph(ops.node("matmul", value("a", 256, 768), dense)), device))
    each = constant(np.stack([halved(RANDOM.random((256, 128)), 0) for _ in range(3)]).astype(np.float32))
    assert not is_sparse(scheduled(graph(ops.node("matmul", value("a", 3, 64, 256), each)), device))
    groups = conv(value("x", 1, 64, 12, 12), kernels(128, 32, 3, 3), 1, 1, 2)
    assert not is_sparse(scheduled(graph(transpose(groups, 0, 2, 3, 1)), device))


def test_tiles_have_room_for_results_and_whole_steps() -> None:
    """Sums pass through shared memory in rows that are eight longer than a tile."""
    for name in ("jetson", "cuda_sm86", "cuda_sm90"):
        for element in ("f16", "bf16", "s8"):
            found = list(sparse_offers(4096, 4096, load_device(name), element))
            assert len({(t.m, t.n, t.k, t.slices) for t in found}) >= 12, (name, element)
            for t in found:
                assert t.shared_bytes >= 4 * t.m * (t.n + 8) and t.steps % t.slices == 0, t.name
                assert t.whole is (name == "cuda_sm90") and t.l_room * t.bytes % 16 == 0, t.name


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_networks_are_pruned_for_it_where_the_device_file_says_so(precision: str, tmp_path: Path) -> None:
    """Each output has zeros of its own."""
    first = relu(conv(value("x", 1, 16, 12, 12), weights(96, 16, 3, 3)))
    network = graph(conv(relu(conv(pad(first, 1, 1), weights(96, 96, 3, 3))), weights(8, 96, 1, 1)))
    asked = {"prune": "2:4", "precision": precision, "compile": False, "start": "simplify"}
    asked |= {"calibrate": "random"} if precision == "int8" else {}
    with pytest.raises(UsageError, match="gains nothing on this device") as error:
        edgec.build(network, tmp_path / "refused", device="jetson", **asked)
    assert error.value.hint is not None and " gain" in error.value.hint
    file = tmp_path / "own.toml"
    file.write_text('base = "jetson"\n[costs.tensor_tile]\ntwo_of_four_gain = 0.01\n')
    built = edgec.build(network, tmp_path / "built", device=str(file), **asked)
    records = [k.schedule for k in built.program.kernels if isinstance(k.schedule, GpuContract)]
    assert sum(map(is_sparse, records)) == 1
    (mask,) = built.stages["compress"].pruned.masks.values()
    assert len(np.unique(mask.reshape(len(mask), -1), axis=0)) == len(mask)


if __name__ == "__main__":
    watched(Path(sys.argv[1]))
