"""Networks of torchvision and transformers by `edgec.from_torch` and by `torch.compile(backend="edgec")`.

    python -m benchmarks.pytorch.networks [--only PATTERN ...] [--seconds S] [--threads N] [--inductor] [--write PAGE]

Every network has drawn weights. Both ways are compared with the module itself on two drawn inputs, and timed in turns
with it, in one process; `--inductor` times torch.compile's own backend, too. Needs torch, torchvision and transformers.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import edgec
from edgec.errors import EdgecError
from edgec.progress import silent

#: What an error may be, relative to the largest value.
TOLERANCE = 1e-4
ROUNDS = 3


@dataclass(frozen=True)
class Row:
    """Errors of the two ways relative to the largest value, seconds until the first answer, and medians in ms."""

    name: str
    errors: tuple[float, float] = (0.0, 0.0)
    seconds: tuple[float, float] = (0.0, 0.0)
    ms: tuple[float, ...] = ()
    refused: str = ""

    @property
    def ok(self) -> bool:
        return not self.refused and all(error <= TOLERANCE for error in self.errors)  # NaN is not


def networks() -> dict[str, Callable[[], tuple[Any, Callable[[], Any]]]]:
    """Makers of a module and of its inputs."""
    import torch
    import torchvision.models as vision
    import transformers as hf

    def picture(maker: Callable[..., Any], size: int = 224) -> Callable[[], tuple[Any, Callable[[], Any]]]:
        return lambda: (maker(weights=None).eval(), lambda: torch.randn(1, 3, size, size))

    def text(config: Any, kind: Any) -> Callable[[], tuple[Any, Callable[[], Any]]]:
        class Plain(torch.nn.Module):  # type: ignore[misc, name-defined]
            """A model of transformers with its first result alone."""

            def __init__(self) -> None:
                super().__init__()
                self.inner = kind(config)

            def forward(self, ids: Any) -> Any:
                return self.inner(input_ids=ids, use_cache=False, return_dict=False)[0]

        return lambda: (Plain().eval(), lambda: torch.randint(0, 900, (1, 64)))

    small = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
    return {
        "mobilenet_v3_small": picture(vision.mobilenet_v3_small),
        "resnet18": picture(vision.resnet18),
        "efficientnet_b0": picture(vision.efficientnet_b0),
        "shufflenet_v2_x1_0": picture(vision.shufflenet_v2_x1_0),
        "convnext_tiny": picture(vision.convnext_tiny, 96),
        "vit_b_16": picture(vision.vit_b_16),
        "swin_t": picture(vision.swin_t),
        "bert": text(hf.BertConfig(vocab_size=1000, **small), hf.BertModel),
        "gpt2": text(hf.GPT2Config(vocab_size=1000, n_embd=128, n_layer=2, n_head=4), hf.GPT2LMHeadModel),
        "llama": text(hf.LlamaConfig(vocab_size=1000, **small), hf.LlamaForCausalLM),
    }


def measured(name: str, make: Callable[[], tuple[Any, Callable[[], Any]]], options: argparse.Namespace) -> Row:
    import torch

    torch.manual_seed(0)
    module, draw = make()
    for weights in module.parameters():  # the head of vit_b_16 is zero until it is trained, and so would all results be
        if weights.ndim > 1 and not weights.any():
            torch.nn.init.normal_(weights, std=0.02)
    torch.set_num_threads(options.threads)
    try:
        begun = time.perf_counter()
        net = edgec.from_torch(module, (draw(),), threads=options.threads, progress=silent)
        first = time.perf_counter() - begun
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("error", category=UserWarning)
            warnings.filterwarnings("default", category=UserWarning, module="torch")
            from edgec.pytorch.backend import compiled

            torch._dynamo.reset()
            run = torch.compile(module, backend=compiled, options={"threads": options.threads, "progress": silent})
            begun = time.perf_counter()
            run(draw())
            seconds = (first, time.perf_counter() - begun)
            far = [0.0, 0.0]
            for _ in range(2):
                x = draw()
                want = module(x).numpy()
                for k, got in enumerate((net(x.numpy()), run(x).numpy())):
                    far[k] = float(np.maximum(far[k], np.abs(got - want).max() / np.abs(want).max()))
            x = draw()
            array = x.numpy()
            calls = [lambda: net(array), lambda: run(x), lambda: module(x)]
            if options.inductor:
                own = torch.compile(module, dynamic=False)
                own(x)
                calls.append(lambda: own(x))
            return Row(name, (far[0], far[1]), seconds, timed(calls, options.seconds))
    except (EdgecError, UserWarning) as refused:
        return Row(name, refused=str(refused).splitlines()[0])


def timed(calls: list[Callable[[], Any]], seconds: float) -> tuple[float, ...]:
    """Median milliseconds of each call, in turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, times in zip(calls, taken):
            call()
            end = time.perf_counter() + seconds / ROUNDS
            while time.perf_counter() < end or len(times) < ROUNDS:
                begun = time.perf_counter()
                call()
                times.append((time.perf_counter() - begun) * 1e3)
    return tuple(median(times) for times in taken)


def page(rows: list[Row], options: argparse.Namespace) -> str:
    import torch

    own = " --inductor" if options.inductor else ""
    command = f"python -m benchmarks.pytorch.networks --seconds {options.seconds:g} --threads {options.threads}{own}"
    head = ["network", "error of `from_torch`", "of `torch.compile`", "s until built", "s until compiled",
            "`from_torch` ms", "`torch.compile(backend=\"edgec\")` ms", "PyTorch eager ms",
            *(["torch.compile ms"] if options.inductor else [])]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for r in rows:
        cells = [r.name, *(f"{e:.1e}" for e in r.errors), *(f"{s:.1f}" for s in r.seconds), *(f"{t:.3f}" for t in r.ms)]
        lines.append("| " + " | ".join([r.name, r.refused] if r.refused else cells) + " |")
    right = sum(r.ok for r in rows)
    return f"""# Networks of PyTorch

Written by `{command}` on {date.today()}; PyTorch {torch.__version__}, {platform.processor() or platform.machine()},
{options.threads} thread(s), fp32, drawn weights. {right} of {len(rows)} networks are right by both ways: within
{TOLERANCE:.0e} of the largest value of the module's own results. Times are medians, taken in turns; those of
`from_torch` are of arrays, the others of tensors.

{chr(10).join(lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each of those that are timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--inductor", action="store_true", help="time torch.compile's own backend, too")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    rows = []
    for name, make in networks().items():
        if not options.only or any(fnmatch(name, p) for p in options.only):
            rows.append(measured(name, make, options))
            print(rows[-1], flush=True)
    text = page(rows, options)
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    raise SystemExit(0 if rows and all(r.ok for r in rows) else 1)


if __name__ == "__main__":
    main()
