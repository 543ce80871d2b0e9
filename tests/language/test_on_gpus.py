"""Decoders on GPUs: any number of tokens at any position, which kernels read from memory; sessions on CUDA."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import SEED
from emulated import nvcc
from gguf_files import llama
from onnx_decoders import VOCABULARY, decoder, logits_of, stacked

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.device.cuda import compile_cuda
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.frontend.gguf import import_gguf, parse
from edgec.frontend.language.cache import Kind
from edgec.fuse.single import single_plan
from edgec.ir.sizes import outputs_alone, outputs_apart
from edgec.ir.types import DTYPES
from edgec.rewrite import load_rules, simplify
from edgec.rewrite.measure import OpCosts
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.gpu.early_keys import with_early_keys
from edgec.schedule.gpu.few_queries import GpuFewQueries
from edgec.schedule.gpu.together import together
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Kernel

CONTEXT = 80
CASES = [
    ("F32", "cuda_sm90", "fp32", "fp32"), ("Q4_1", "cuda_sm90", "fp16", "fp16"), ("F16", "cuda_sm90", "fp32", "int8"),
    ("F32", "jetson", "fp16", "int8"), ("Q8_0", "host_pocl", "fp32", "fp32"), ("F32", "host_pocl", "fp32", "fp16"),
    ("F32", "host_pocl", "fp32", "int8"),
]  # fmt: skip
#: How far logits may be from those of a processor: a number may be rounded the other way when it is stored.
TOLERANCE = {"fp32": 1e-4, "fp16": 2e-3, "int8": 3e-2}
#: The same by the precision of the kernels. In fp16 the median token of a network with random weights of 4 bits is 4e-4
#: apart; of 40 tokens three were 3e-3 to 8e-3, and with a random cache one was 2e-2.
TOLERANCE_OF_WEIGHTS = {"fp32": 1e-4, "fp16": 3e-2}


def states_of(network: Network) -> dict[str, np.ndarray]:
    """Random contents of a cache; bytes with scales are about as large as floats are."""
    random, found = np.random.default_rng(SEED), {}
    for port in network.inputs[2:]:
        drawn = random.standard_normal(port.shape)
        drawn = (
            np.abs(drawn) / 64
            if "scale" in port.onnx_name
            else np.clip(drawn * 40, -127, 127)
            if port.dtype == "i8"
            else drawn
        )
        found[port.onnx_name] = drawn.astype(DTYPES[port.dtype])
    return found


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest, of the largest wanted."""
    exact = want.astype(np.float64)
    return float(np.abs(got - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize(("format", "device", "precision", "cache"), CASES)
def test_logits_are_those_of_a_processor(format: str, device: str, precision: str, cache: str, tmp_path: Path) -> None:
    """At the beginning, in the middle and at the end of the context; one token and several."""
    (tmp_path / "lm.gguf").write_bytes(llama(format, layers=1))
    is_cuda = device != "host_pocl"
    more = {"compiler": "emulated"} if is_cuda else {}
    options = {"device": device, "precision": precision, **more}
    edgec.build(tmp_path / "lm.gguf", tmp_path / "cpu", context=CONTEXT, cache=cache)
    edgec.build(tmp_path / "lm.gguf", tmp_path / "gpu", context=CONTEXT, cache=cache, **options)
    random, tolerance = np.random.default_rng(SEED), max(TOLERANCE[cache], TOLERANCE_OF_WEIGHTS[precision])
    with Network(tmp_path / "cpu") as cpu, Network(tmp_path / "gpu") as gpu:
        for past, count in ((0, 1), (7, 64), (31, 1), (CONTEXT - 1, 1)):
            given = states_of(cpu)
            given |= {"tokens": random.integers(0, 40, count).astype(np.int32), "past": np.array(past, np.int64)}
            want = cpu.run(given)
            for name, got in gpu.run(given).items():
                assert difference(got, want[name]) <= tolerance, (name, past, count)
        if is_cuda:
            compare_sessions(gpu, Session(cpu), tolerance)


@pytest.mark.parametrize(
    ("context", "device", "cache", "sharing"),
    [(60, "cuda_sm90", "fp32", "64 keys a block"), (150, "cuda_sm90", "fp16", "64 keys a block of a cluster"),
     (700, "cuda_sm90", "fp32", "128 keys a block of a cluster"),
     (700, "cuda_sm90", "int8", "128 keys a block of a cluster"),
     (2500, "cuda_sm90", "fp16", "64 keys a block"), (700, "jetson", "int8", "64 keys a block")],
)  # fmt: skip
def test_a_token_attends_to_any_number_of_keys(
    context: int, device: str, cache: str, sharing: str, tmp_path: Path
) -> None:
    """Thread blocks that share the keys are a cluster or meet in memory; where the last one has none, one, or all."""
    (tmp_path / "lm.gguf").write_bytes(llama("F32", layers=1, **{"llama.context_length": context}))
    edgec.build(tmp_path / "lm.gguf", tmp_path / "cpu", context=context, cache=cache)
    options = {"device": device, "precision": "fp32", "compiler": "emulated"}
    built = edgec.build(tmp_path / "lm.gguf", tmp_path / "gpu", context=context, cache=cache, **options)
    single = built.program.single
    assert single is not None
    assert [k.describe.rsplit(", ")[-1] for k in single.kernels if k.template == "few_queries"] == [sharing]
    random = np.random.default_rng(SEED)
    with Network(tmp_path / "cpu") as cpu, Network(tmp_path / "gpu") as gpu:
        for past in sorted({0, 1, 62, 63, 64, context // 2, context - 1} & set(range(context))):
            given = states_of(cpu)
            given |= {"tokens": random.integers(0, 40, 1).astype(np.int32), "past": np.array(past, np.int64)}
            want = cpu.run(given)
            for name, got in gpu.run(given).items():
                assert difference(got, want[name]) <= TOLERANCE[cache], (name, past)


def compare_sessions(gpu: Network, cpu: Session, tolerance: float) -> None:
    """A text in parts, of one token and of more than a run takes, back, and to the end of the context.

    Half of the differences are within ``tolerance``; where tokens nearly share the attention, rounding is amplified.
    """
    calls, name = gpu._net._library, gpu.name
    prefill, session = getattr(calls, f"{name}_prefill"), gpu._net._session
    logits = np.empty(40, np.float32)

    def read(tokens: np.ndarray) -> int:
        given, out = (ctypes.c_void_p(a.ctypes.data) for a in (tokens, logits))
        return int(prefill(session, given, ctypes.c_int64(len(tokens)), out))

    tokens = np.random.default_rng(SEED).integers(0, 40, CONTEXT).astype(np.int32)
    begin, found = 0, []
    for count in (1, 1, 66, 1, 11):
        assert read(tokens[begin : begin + count]) == 0
        want = cpu.prefill(tokens[begin : begin + count].tolist())
        begin += count
        found.append(difference(logits, want))
        if count == 66:
            assert getattr(calls, f"{name}_rewind")(session, ctypes.c_int64(5)) == 0
            assert getattr(calls, f"{name}_rewind")(session, ctypes.c_int64(6)) == 3
            assert read(tokens[5:begin]) == 0
    assert np.median(found) <= tolerance and max(found) <= 5 * tolerance, found
    assert read(tokens[:1]) == 17 and read(np.array([40], np.int32)) == 17
    assert getattr(calls, f"{name}_rewind")(session, ctypes.c_int64(0)) == 0
    assert read(np.array([40], np.int32)) == 16 and read(np.array([-1], np.int32)) == 16 and read(tokens[:0]) == 3


def reads(gpu: Network, tokens: list[int], logits: np.ndarray) -> int:
    given, out = np.array(tokens, np.int32), ctypes.c_void_p(logits.ctypes.data)
    prefill = getattr(gpu._net._library, f"{gpu.name}_prefill")
    return int(prefill(gpu._net._session, ctypes.c_void_p(given.ctypes.data), ctypes.c_int64(len(tokens)), out))


def test_the_ring_of_a_window(tmp_path: Path) -> None:
    """Back by 64 tokens, as on a processor; further back, rows of the window are lost, and that is said."""
    keys = {"block_count": 1, "context_length": 256, "embedding_length": 256, "feed_forward_length": 256}
    heads = {"head_count": 4, "head_count_kv": 2, "layer_norm_rms_epsilon": 1e-5, "sliding_window": 8}
    keys |= {f"attention.{name}": value for name, value in heads.items()}
    gemma = {"general.architecture": "gemma2", **{f"gemma2.{name}": value for name, value in keys.items()}}
    (tmp_path / "lm.gguf").write_bytes(llama("F32", 1, **gemma))
    edgec.build(tmp_path / "lm.gguf", tmp_path / "cpu", context=120)
    edgec.build(tmp_path / "lm.gguf", tmp_path / "gpu", context=120, device="cuda_sm90", compiler="emulated")
    tokens, logits = np.random.default_rng(SEED).integers(0, 40, 110).tolist(), np.empty(40, np.float32)
    with Network(tmp_path / "cpu") as cpu, Network(tmp_path / "gpu") as gpu:
        back = getattr(gpu._net._library, f"{gpu.name}_rewind")
        assert reads(gpu, tokens, logits) == 0
        assert back(gpu._net._session, ctypes.c_int64(45)) == 18
        assert back(gpu._net._session, ctypes.c_int64(46)) == 0
        assert back(gpu._net._session, ctypes.c_int64(45)) == 18  # the rows of then are lost all the same
        assert reads(gpu, tokens[46:70], logits) == 0
        want = Session(cpu).prefill(tokens[:70])
        assert np.abs(logits - want).max() <= 1e-4 * np.abs(want).max()
        assert back(gpu._net._session, ctypes.c_int64(0)) == 0 and reads(gpu, tokens[:20], logits) == 0
        assert back(gpu._net._session, ctypes.c_int64(3)) == 0  # the ring was not full


def test_a_decoder_of_one_token(tmp_path: Path) -> None:
    """A prompt is as many runs as it has tokens."""
    model = decoder("plain")
    onnx.save(stacked(model, 1), str(tmp_path / "lm.onnx"))
    edgec.build(tmp_path / "lm.onnx", tmp_path / "gpu", context=12, device="cuda_sm90", compiler="emulated")
    tokens, logits = np.random.default_rng(SEED).integers(0, VOCABULARY, 12).tolist(), np.empty(VOCABULARY, np.float32)
    want = logits_of(model, tokens)
    with Network(tmp_path / "gpu") as gpu:
        for begin, end in ((0, 5), (5, 6), (6, 12)):
            assert reads(gpu, tokens[begin:end], logits) == 0
            assert np.abs(logits - want[end - 1]).max() <= 1e-4 * np.abs(want[end - 1]).max()
        assert reads(gpu, tokens[:1], logits) == 17


@pytest.mark.parametrize(("format", "cache"), [("F16", "fp32"), ("Q4_K", "fp16"), ("Q8_0", "fp32"), ("F16", "int8")])
def test_a_token_takes_five_launches_a_layer(format: str, cache: Kind) -> None:
    """And one more where keys and values become bytes with scales, all four in one launch that starts attention."""
    layers, device = 3, replace(load_device("cuda_sm90"), precision="fp16")
    graph = import_gguf(parse(llama(format, layers=layers)), CONTEXT, cache)
    simpler, _ = simplify(outputs_alone(graph), load_rules([]), numeric="reassociates", prices=OpCosts.on(device))
    single = single_plan(outputs_apart(simpler, graph), largest_head(device))
    assert single is not None
    program = together(schedule(single, device, ScheduleOptions(fp32_blocks=0)))
    kinds = [k.template for k in program.kernels if k.schedule.copied not in program.states.values()]
    stored = ["together"] * (cache == "int8")
    assert kinds == ["map", *["together", *stored, "few_queries", "vector", "vector", "vector"] * layers, "vector"]


@pytest.mark.parametrize("cache", ["fp32", "fp16", "int8"])
def test_kernels_of_a_token_do_not_spill(cache: Kind, tmp_path: Path) -> None:
    device = replace(load_device("cuda_sm90"), precision="fp16")
    compiler = nvcc(device)
    single = single_plan(import_gguf(parse(llama("Q4_1", layers=1)), CONTEXT, cache), largest_head(device))
    assert single is not None
    program = with_early_keys(together(schedule(single, device, ScheduleOptions(fp32_blocks=0))))
    assert [k.schedule.fresh is not None for k in program.kernels if isinstance(k.schedule, GpuFewQueries)] == [True]
    written = files(program, device, "lm")
    for path, content in written.items():
        if path.endswith((".cu", ".h")):
            (tmp_path / path).write_bytes(content)
    sources = [tmp_path / path for path in written if path.endswith(".cu") and "kernels" in path]
    reports = compile_cuda(compiler, device, sources, tmp_path / "lm.so", link=False)
    assert len(reports) >= 5 and [r for r in reports if r.spill_bytes or r.registers > 128] == []


def test_keys_are_not_read_early_while_a_kernel_that_writes_them_may_run() -> None:
    """Another writer of the cache, two places before attention, behind a product that starts attention early."""
    device = replace(load_device("cuda_sm90"), precision="fp16")
    single = single_plan(import_gguf(parse(llama("F32", layers=1)), CONTEXT), largest_head(device))
    assert single is not None
    program = together(schedule(single, device, ScheduleOptions(fp32_blocks=0)))
    kernels = list(program.kernels)
    (at,) = [k for k, kernel in enumerate(kernels) if isinstance(kernel.schedule, GpuFewQueries)]

    def known(before: list[Kernel]) -> bool:
        changed = replace(program, kernels=(*kernels[: at - 1], *before, *kernels[at - 1 :]))
        (found,) = [k.schedule for k in with_early_keys(changed).kernels if isinstance(k.schedule, GpuFewQueries)]
        return found.fresh is not None

    (copy, *_) = [k for k in kernels if k.schedule.copied is not None and k.writes in kernels[at].reads]
    gather = kernels[at - 2]
    assert known([]) and known([copy, gather]) and not known([copy])
