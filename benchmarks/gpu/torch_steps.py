"""Training steps of a PyTorch module on a GPU: eager, the eager step as a CUDA graph, and compiled."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.gpu import torch_modes

GRAPH = "graph"
MODES = ("eager", GRAPH, "default", "reduce-overhead")
#: What losses in halves are multiplied by: a constant, without the test of gradients that a scaler makes.
SCALE = 1024.0
_JUDGES: dict[str, Any] = {"cross_entropy": F.cross_entropy, "mse": F.mse_loss}


def peak_bytes(module: torch.nn.Module, loss: str, precision: str, arrays: Sequence[Any]) -> int:
    """The most that PyTorch's allocator holds during an eager step, weights and moments included."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    steps = TorchSteps(module, loss, precision, arrays, is_last=False)
    steps.step(steps.loss)  # makes the moments
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    steps.step(steps.loss)
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)


def fastest(module: torch.nn.Module, loss: str, precision: str, arrays: Sequence[Any]) -> TorchSteps:
    """Steps on pictures with channels first or last, whichever is the faster as a CUDA graph."""
    made = [TorchSteps(module, loss, precision, arrays, is_last) for is_last in (False, True)]
    if made[0].given.dim() != 4 or made[0].place != "cuda":
        return made[0]
    return min(made, key=lambda steps: torch_modes.times(steps.way(GRAPH))[0])


class TorchSteps:
    """SGD with momentum on a copy of a module, by arrays on the device; pictures lie channels last if ``is_last``.

    ``precision`` is fp32, tf32 (products of matmuls and convolutions), or fp16 or bf16 by autocast with weights
    in fp32; only fp16 scales the loss.
    """

    def __init__(
        self, module: torch.nn.Module, loss: str, precision: str, arrays: Sequence[Any], is_last: bool
    ) -> None:
        torch_modes.no_tf32(precision == "fp32")
        self.place = "cuda" if torch.cuda.is_available() else "cpu"
        self.own, self.judge, self.is_half = deepcopy(module).to(self.place), _JUDGES[loss], precision == "fp16"
        self.type = torch.bfloat16 if precision == "bf16" else torch.float16
        self.is_narrow = precision in ("fp16", "bf16")
        self.given, self.target = (torch.as_tensor(a).to(self.place) for a in arrays)
        self.is_last = is_last and self.given.dim() == 4
        if self.is_last:
            self.own = self.own.to(memory_format=torch.channels_last)
            self.given = self.given.to(memory_format=torch.channels_last)
        self.known = [p for p in self.own.parameters() if p.requires_grad]
        fused = {"fused": True} if self.place == "cuda" else {}
        self.optimizer = torch.optim.SGD(self.known, 0.0, momentum=0.9, **fused)

    def loss(self, given: Any, target: Any) -> Any:
        with torch.autocast(self.place, self.type, enabled=self.is_narrow):
            return self.judge(self.own(given), target)

    def step(self, loss: Callable[[Any, Any], Any]) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        found = loss(self.given, self.target)
        (found * SCALE if self.is_half else found).backward()
        if self.is_half:
            torch._foreach_mul_([p.grad for p in self.known if p.grad is not None], 1 / SCALE)
        self.optimizer.step()

    def ways(self, modes: Sequence[str]) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
        """Calls that make a step, by mode; and seconds to the first step, or what went wrong."""
        found: dict[str, Callable[[], Any]] = {}
        known: dict[str, Any] = {}
        for mode in modes:
            begun = time.perf_counter()
            try:
                found[mode] = self.way(mode)
                known[f"{mode}_first_s"] = time.perf_counter() - begun
            except Exception as error:
                known[mode] = f"{type(error).__name__}: {error}"[:200] + traceback.format_exc()[-400:]
        return found, known

    def way(self, mode: str) -> Callable[[], Any]:
        """A call that makes a step in a mode."""
        if mode == GRAPH:
            return self._captured()
        loss = self.loss if mode == "eager" else torch.compile(self.loss, mode=mode)
        run = partial(self.step, loss)
        for _ in range(4):  # the first is compiled, the next are recorded
            run()
        return run

    def _captured(self) -> Callable[[], Any]:
        """A step in one CUDA graph, of a copy of the module: other modes tie gradients to the default stream."""
        copied = copy(self)
        copied.own = deepcopy(self.own)
        copied.known = [p for p in copied.own.parameters() if p.requires_grad]
        copied.optimizer = torch.optim.SGD(copied.known, 0.0, momentum=0.9, fused=True)
        aside = torch.cuda.Stream()
        with torch.cuda.stream(aside):
            for _ in range(3):
                copied.step(copied.loss)
        aside.synchronize()
        copied.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
            copied.step(copied.loss)
        self.captured = copied  # whose weights the graph works on
        return graph.replay
