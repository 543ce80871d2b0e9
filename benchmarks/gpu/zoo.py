"""Networks of the zoo on an NVIDIA GPU beside PyTorch's best on the same machine, all in one run.

    python -m benchmarks.gpu.zoo --catalog CATALOG.jsonl [--count 44] [--seconds 540] [--rows ROWS.jsonl] [--page PAGE]

The networks are the first of the catalog (`benchmarks.zoo.draw` writes it) that PyTorch makes; their modules are
exported there, built in fp32 and compared with onnxruntime on the processor. PyTorch runs the same modules eagerly, as
a CUDA graph and through torch.compile. Each network has a process of its own; they compile side by side, and take turns
in being timed when all of them are ready, or after a little more than half of ``--seconds``. ``--dry`` runs without a
GPU: kernels in emulation, PyTorch on the processor, no times. ``--page`` alone writes the page of the rows that are
there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.alone import Row, append_row, read_rows
from benchmarks.gpu import zoo_page
from benchmarks.gpu.turns import Turns, take
from benchmarks.zoo.entries import Entry, load, mixed

DEVICE = "cuda_sm90"
#: The part of the time in which networks are made ready.
READY = 0.55
#: Modes of PyTorch: one that searches for kernels takes minutes a module.
MODES = ("eager", "graph", "reduce-overhead")


def chosen(catalog: Path, count: int) -> list[Entry]:
    """The first networks of a catalog that PyTorch makes, from all of its packages in turns."""
    plain = [e for e in load(catalog) if not e.variant]
    groups = [[e for e in plain if e.source == source] for source in ("timm", "torchvision", "transformers")]
    return mixed(groups)[:count]


class One:
    """One network: the steps until it can be timed, and the row of what was found."""

    def __init__(self, entry: Entry, folder: Path, is_dry: bool, until: float) -> None:
        self.entry, self.folder, self.is_dry, self.until = entry, folder, is_dry, until
        self.row: Row = {"name": entry.name, "source": entry.source, "family": entry.family}
        self.calls: dict[str, Callable[[], float]] = {}

    def prepare(self) -> None:
        import torch

        from benchmarks.zoo.export import export, made

        torch.set_num_threads(1)
        begun = time.perf_counter()

        def step(name: str) -> None:
            self.row["step"], self.row.setdefault("began", {})[name] = name, round(time.perf_counter() - begun, 1)

        step("export")
        path = self.folder / "network.onnx"
        module, inputs = made(self.entry)
        export(self.entry, module, inputs, path)
        step("build")
        self._build(path, [a.numpy() for a in inputs])
        step("torch")
        self._compile(module, inputs)
        step("time")

    def _build(self, path: Path, given: list[Any]) -> None:
        """Build the network, and compare its results with onnxruntime's."""
        import numpy as np
        import onnxruntime

        import edgec

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        if len(names) != len(given):
            raise ValueError(f"the exporter left {len(names)} of {len(given)} inputs")
        arrays = dict(zip(names, given))
        outputs = [o.name for o in session.get_outputs()]
        want = dict(zip(outputs, session.run(outputs, arrays)))
        more = {"compiler": "emulated"} if self.is_dry else {}
        built = edgec.build(path, self.folder / "net", device=DEVICE, name="net", **more)
        self.row |= {"kernels": built.kernels, "compile_s": round(built.seconds.get("compile", 0.0), 1)}
        ordered = [np.ascontiguousarray(arrays[n.attributes["name"]]) for n in built.stages.graph.inputs]
        if self.is_dry:
            got = built.network.run({n.attributes["name"]: a for n, a in zip(built.stages.graph.inputs, ordered)})
            results = [got[name] for name in outputs]
        else:
            sys.path.insert(0, str(self.folder / "net"))
            import net

            network = net.Net()
            network.poison(0xFF)
            found = network(*ordered)
            results = list(found) if isinstance(found, tuple) else [found]
            self.calls["edgec"] = lambda: sorted(network.milliseconds(100) for _ in range(7))[3]
        errors = [
            float(np.abs(g.astype(np.float64) - w).max() / max(np.abs(w).max(), 1e-30))
            for g, w in zip(results, want.values())
        ]
        self.row["error"] = max(errors)

    def _compile(self, module: Any, inputs: Any) -> None:
        import torch

        from benchmarks.gpu import torch_modes

        torch_modes.no_tf32()
        place = "cpu" if self.is_dry else "cuda"
        module, arrays = module.to(place), [a.to(place) for a in inputs]
        if any(a.dim() == 4 for a in arrays):
            module = module.to(memory_format=torch.channels_last)
            arrays = [a.to(memory_format=torch.channels_last) if a.dim() == 4 else a for a in arrays]
        with torch.inference_mode():
            ways, self.row["torch"] = torch_modes.ways_of(
                module, arrays, MODES[:1] if self.is_dry else MODES, self.until
            )
            for mode, run in ways.items():
                run()
                if not self.is_dry:
                    self.calls[mode] = lambda run=run: torch_modes.milliseconds(run)  # type: ignore[misc]

    def time(self) -> None:
        from benchmarks.gpu.torch_modes import timed

        timed(self.calls, self.row)


def one(job: dict[str, Any]) -> None:
    """The process of one network."""
    take(lambda: One(Entry(**job["entry"]), Path(job["folder"]), job["is_dry"], job["until"]))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--catalog", type=Path)
    p.add_argument("--count", type=int, default=44)
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="networks made ready side by side")
    p.add_argument("--seconds", type=float, default=540, help="of the whole run")
    p.add_argument("--rows", type=Path, default=Path("zoo_gpu.jsonl"))
    p.add_argument("--page", type=Path)
    p.add_argument("--dry", action="store_true")
    p.add_argument("--one", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.one:
        one(json.loads(options.one))
        return
    if options.catalog:
        options.rows.unlink(missing_ok=True)
        until = time.time() + READY * options.seconds
        turns = Turns(__spec__.name, options.jobs, until, until + (1 - READY) * options.seconds)
        machine = zoo_page.machine(options.dry)
        entries = {e.name: asdict(e) for e in chosen(options.catalog, options.count)}
        for row in turns.rows(entries, options.dry):
            append_row(options.rows, row | machine)
            print(json.dumps(row)[:600], flush=True)
    text = zoo_page.text(list(read_rows(options.rows).values()))
    print(text)
    if options.page:
        options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
