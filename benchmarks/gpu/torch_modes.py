"""A module of PyTorch on a GPU: eager, as a CUDA graph, and through torch.compile, and the times of each."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

EAGER, GRAPH, AUTOTUNE = "eager", "graph", "max-autotune"
MODES = (EAGER, GRAPH, "reduce-overhead", AUTOTUNE)

Ways = dict[str, Callable[[], Any]]


def timed(calls: Mapping[str, Callable[[], float]], row: dict[str, Any]) -> None:
    """The milliseconds of every call, or what went wrong: that of edgec as ``ms`` of the row, others by mode."""
    for name, call in calls.items():
        with torch.inference_mode():
            try:
                found: float | str = call()
            except Exception as error:
                found = f"{type(error).__name__}: {error}"[:200]
        if name == "edgec":
            row["ms"] = found
        else:
            row["torch"][name] = found
    row["step"] = "done"


def ways_of(module: torch.nn.Module, arrays: Sequence[Any], modes: Sequence[str], until: float) -> tuple[Ways, Any]:
    """Calls that run the module, by mode, and what is known of each: seconds to the first result, or what went wrong.

    A mode that is not compiled at ``until`` (epoch) is left out. Runs in the main thread only, and under
    ``torch.inference_mode``.
    """
    ways: Ways = {EAGER: partial(module, *arrays)} if EAGER in modes else {}
    result: dict[str, Any] = {}
    signal.signal(signal.SIGALRM, _too_late)
    for mode in (m for m in modes if m != EAGER):
        try:
            signal.setitimer(signal.ITIMER_REAL, max(until - time.time(), 0.001))
            begun = time.perf_counter()
            ways[mode] = _captured(module, arrays) if mode == GRAPH else _compiled(module, arrays, mode)
            signal.setitimer(signal.ITIMER_REAL, 0)
            result[f"{mode}_first_s"] = time.perf_counter() - begun
        except Exception as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            result[mode] = f"{type(error).__name__}: {error}"[:200] + traceback.format_exc()[-600:]
    return ways, result


def _captured(module: torch.nn.Module, arrays: Sequence[Any]) -> Callable[[], Any]:
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):  # what is made on a first call there must not be captured
        for _ in range(3):
            module(*arrays)
    aside.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), patch.object(torch, "tensor", _scalar):
        module(*arrays)
    return graph.replay


def _compiled(module: torch.nn.Module, arrays: Sequence[Any], mode: str) -> Callable[[], Any]:
    faster = torch.compile(module, mode=mode)
    for _ in range(4):  # the first is compiled, the next are recorded
        faster(*arrays)
    torch.cuda.synchronize()
    return partial(faster, *arrays)


_tensor = torch.tensor


def _scalar(value: Any, **more: Any) -> Any:
    """A number on the GPU is filled in there: a copy from the processor cannot be captured."""
    on_gpu = torch.device(more.get("device") or "cpu").type == "cuda" and isinstance(value, (int, float))
    return torch.full((), value, **more) if on_gpu else _tensor(value, **more)


def _too_late(*_: Any) -> None:
    raise TimeoutError("not compiled in time")


def milliseconds(run: Callable[[], Any]) -> float:
    """Milliseconds of the GPU for one run: the median of `times`."""
    return times(run)[3]


def times(run: Callable[[], Any]) -> list[float]:
    """Milliseconds of the GPU for one run, sorted: seven times many runs between two events.

    Many are 30, or as many as take about a tenth of a second.
    """
    between_events(run, 2)
    runs = min(30, max(3, int(100 / max(between_events(run, 2), 1e-3))))
    between_events(run, runs // 3)
    return sorted(between_events(run, runs) for _ in range(7))


def microseconds_of_call(run: Callable[[], Any]) -> float:
    """Microseconds of the GPU for one call in a CUDA graph of many, one behind the other: a median."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            run()
    graph.replay()
    return sorted(between_events(graph.replay, 5) for _ in range(7))[3] * 1e3 / 20


def between_events(run: Callable[[], Any], runs: int) -> float:
    """Milliseconds of the GPU for one of so many runs."""
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    a.record()
    for _ in range(runs):
        run()
    b.record()
    torch.cuda.synchronize()
    return float(a.elapsed_time(b)) / runs


def no_tf32(is_off: bool = True) -> None:
    """Products in full fp32, unless TF32 is asked for; cuDNN picks its algorithms by measuring."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not is_off
    torch.backends.cudnn.benchmark = True
