"""Networks on an NVIDIA GPU at batch 1: correctness and milliseconds, compared with PyTorch on the same machine.

    python -m benchmarks.gpu.cuda [--device cuda_sm90] [--peers all] [--out FILE.json] [--write PAGE] [NAME ...]

PAGE is docs/results/cuda.md. Networks, weights and inputs are those of `benchmarks.networks.make`. Correctness is
against onnxruntime on the processor. Times are of the GPU, by events around many runs of one CUDA graph; PyTorch runs
the same modules eagerly, as a CUDA graph, and through torch.compile. PyTorch's modules are compiled side by side, on
all GPUs there are, for --patience seconds at most, then ours; times are taken one after the other, when nothing
compiles. raft_small is the model of the folder of trained models, with torchvision's module beside it. Needs torch,
transformers, onnx, onnxruntime, nvcc and a GPU.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

from benchmarks.table import markdown, put_into

Arrays = dict[str, np.ndarray[Any, Any]]

HEADLINE = (
    "mobilenetv2_224", "mobilenetv3s_224", "efficientnet_b0_224", "resnet50_224", "vit_tiny_224", "bert_base_128",
    "gpt2_64", "raft_small",
)  # fmt: skip
RAFT, RAFT_FILE = "raft_small", "flow_raft_small_untrained/raft_small_seed0_6it_128x192.onnx"


def raft(folder: Path) -> Path:
    """RAFT-small on two pictures of 128 x 192, six rounds; its weights are random."""
    from benchmarks.networks import catalog as networks

    random = np.random.default_rng(0)
    pictures = {k: random.uniform(-1, 1, (1, 3, 128, 192)).astype(np.float32) for k in ("image1", "image2")}
    np.savez(folder / f"{RAFT}.in.npz", **pictures)
    return Path(networks.models_folder() / RAFT_FILE)


def raft_module(is_half: bool) -> Any:
    """torchvision's module; in halves by autocast, since its positions must be floats."""
    import torch
    from torchvision.models.optical_flow import raft_small

    class Flow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = raft_small(weights=None)

        def forward(self, a: Any, b: Any) -> Any:
            with torch.autocast("cuda", torch.float16, enabled=is_half):
                return self.model(a, b, num_flow_updates=6)[-1]

    return Flow()


def made(name: str, folder: Path) -> Path:
    """The network, inputs and a reference."""
    import onnxruntime
    import torch

    from benchmarks.networks import make as make_networks

    torch.set_num_threads(2)
    path = raft(folder) if name == RAFT else make_networks.make(name, folder, make_networks.RECIPES[name])
    inputs = dict(np.load(folder / f"{name}.in.npz"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    np.savez(folder / f"{name}.ref.npz", **dict(zip(names, session.run(names, inputs))))
    return path


def built(name: str, path: Path, folder: Path, device: str, precisions: tuple[str, ...]) -> dict[str, Any]:
    """Make the projects of a network; how long that took."""
    import edgec
    from edgec import pipeline
    from edgec.frontend.source import read
    from edgec.options import resolve
    from edgec.pipeline.context import Context

    begun = time.perf_counter()
    record: dict[str, Any] = {"name": name}
    simple = pipeline.run(read(str(path)), Context(resolve({"device": device})), until="simplify").result.graph
    record["simplify_s"] = time.perf_counter() - begun
    for precision in precisions:
        begun = time.perf_counter()
        more = {"precision": precision} if precision != "fp32" else {}
        try:
            where = folder / f"{name}_{precision}"
            done = edgec.build(simple, where, device=device, name="net", start="compress", **more)
        except edgec.errors.EdgecError as error:
            record[precision] = {"failed": str(error)}
            continue
        record[precision] = {
            "build_s": time.perf_counter() - begun,
            "compile_s": done.seconds.get("compile"),
            "kernels": [k.describe for k in done.program.kernels],
        }
    return record


@contextmanager
def alone_on_the_gpu(folder: Path) -> Iterator[None]:
    """Keeps what measures in other processes away."""
    with open(folder / "measuring", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def measured(name: str, folder: Path, precision: str, profile: bool) -> dict[str, Any]:
    """Errors against the reference, and milliseconds of the GPU."""
    project = folder / f"{name}_{precision}"
    sys.path.insert(0, str(project))
    begun = time.perf_counter()
    import net

    inputs = dict(np.load(folder / f"{name}.in.npz"))
    want = dict(np.load(folder / f"{name}.ref.npz"))
    with alone_on_the_gpu(folder):  # also while another would only fetch its weights
        return timed(net.Net(), inputs, want, begun, profile)


def timed(network: Any, inputs: Arrays, want: Arrays, begun: float, profile: bool) -> dict[str, Any]:
    """Measurements of a loaded network."""
    network.poison(0xFF)
    got = network(*(np.ascontiguousarray(v) for v in inputs.values()))
    first = time.perf_counter() - begun
    outputs = got if isinstance(got, tuple) else (got,)
    errors = {
        k: float(np.abs(g.astype(np.float64) - w).max() / np.abs(w).max()) for g, (k, w) in zip(outputs, want.items())
    }
    again = network(*(np.ascontiguousarray(v) for v in inputs.values()))
    same = all(np.array_equal(a, b) for a, b in zip(again if isinstance(again, tuple) else (again,), outputs))
    times = sorted(network.milliseconds(100) for _ in range(7))
    found = {"errors": errors, "repeats": same, "ms": times[3], "spread": times[-1] - times[0], "first_s": first}
    if profile:
        found["kernel_us"] = [round(float(x) * 1e3, 2) for x in network.profile()]
    return found


def peers(name: str, folder: Path, precision: str, modes: tuple[str, ...], until: float, others: int) -> dict[str, Any]:
    """Milliseconds of PyTorch: eager, as a graph, compiled; what is not compiled at ``until`` (epoch) is left out.

    Waits for ``others`` processes that compile beside this one before it times anything.
    """
    import torch

    from benchmarks.gpu import torch_modes
    from benchmarks.networks import make as make_networks

    torch_modes.no_tf32(precision != "tf32")
    torch.manual_seed(zlib.crc32(name.encode()))
    dtype = torch.float16 if precision == "fp16" else torch.float32
    recipe = make_networks.RECIPES.get(name)
    module = recipe.make() if recipe else raft_module(dtype == torch.float16)
    dtype = dtype if recipe else torch.float32
    with torch.no_grad():
        make_networks.draw_weights(module)
    module = module.eval().cuda().to(dtype)
    arrays = [torch.from_numpy(v).cuda() for v in dict(np.load(folder / f"{name}.in.npz")).values()]
    arrays = [a.to(dtype) if a.is_floating_point() else a for a in arrays]
    if recipe and recipe.picture and len(recipe.picture) == 3:
        module = module.to(memory_format=torch.channels_last)
        arrays = [a.to(memory_format=torch.channels_last) for a in arrays]
    with torch.inference_mode():
        ways, result = torch_modes.ways_of(module, arrays, modes, until)
        (folder / f"ready_{name}_{precision}_{modes[-1]}").touch()
        while time.time() < until and len(list(folder.glob("ready_*"))) < others:
            time.sleep(0.2)
        with alone_on_the_gpu(folder):
            for mode, run in ways.items():
                try:
                    result[mode] = torch_modes.milliseconds(run)
                except Exception as error:
                    result[mode] = f"{type(error).__name__}: {error}"[:200]
                print(json.dumps(result), flush=True)
    return result


def alone(*arguments: str, gpu: str, seconds: float = 480) -> dict[str, Any]:
    """The last line of one step in a process of its own: what breaks there breaks nothing else."""
    step = subprocess.Popen(
        [sys.executable, "-m", __spec__.name, *arguments], env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, wrong = step.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(step.pid, signal.SIGKILL)  # and the compilers that it started
        said, wrong = step.communicate()
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        return {"failed": wrong[-800:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def gpus_here() -> list[str]:
    """The GPUs that may be used, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(i) for i in range(max(torch.cuda.device_count(), 1))]


EAGER, AUTOTUNE = "eager", "max-autotune"
MODES = (EAGER, "graph", "reduce-overhead", AUTOTUNE)
#: What of PyTorch goes in one process: a mode that is not compiled in time leaves the others whole.
TOGETHER = {"none": (), "quick": (MODES[:2],), "all": (MODES[:3], MODES[3:])}
PLACES = ("<!-- networks -->", "<!-- end of networks -->")


def drawn(results: dict[str, Any]) -> str:
    """A row for every network and precision, and how much faster than PyTorch's best edgec is in geometric mean."""
    rows, ratios = [], []
    known = {m for r in results.values() for f in r.values() if isinstance(f, dict) for m in f.get("torch", {})}
    modes = [mode for mode in MODES if mode in known]
    for name, record in results.items():
        for precision, found in record.items():
            if not isinstance(found, dict) or "ms" not in found:
                continue
            theirs = [found.get("torch", {}).get(mode) for mode in modes]
            best = min((ms for ms in theirs if isinstance(ms, float)), default=None)
            ratios += [best / found["ms"]] if best else []
            shown = [f"{ms:.3f}" if isinstance(ms, float) else "-" for ms in (found["ms"], *theirs)]
            last = [f"{best / found['ms']:.2f}x" if best else "-"] if modes else []
            rows.append([name, precision, f"{max(found['errors'].values()):.1e}", *shown, *last])
    head = ["network", "precision", "error", "edgec", *(f"PyTorch {m}" for m in modes), *(["faster"] if modes else [])]
    mean = f"\n\nGeometric mean over the best of PyTorch: {np.exp(np.mean(np.log(ratios))):.2f}x." if ratios else ""
    return markdown(head, rows) + mean


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--device", default="cuda_sm90")
    p.add_argument("--precision", default="fp32", help="fp32, tf32, fp16, int8, mixed, separated by commas")
    p.add_argument("--peers", choices=("none", "quick", "all"), default="none")
    p.add_argument("--jobs", type=int, default=8, help="projects compiled side by side")
    p.add_argument("--patience", type=float, default=600, help="seconds in which PyTorch compiles all modules")
    p.add_argument("--autotune", default="fp32,tf32,fp16", help="precisions in which PyTorch compiles for max-autotune")
    p.add_argument("--profile", action="store_true", help="times of every kernel")
    p.add_argument("--out", type=Path)
    p.add_argument("--write", type=Path, help="a page whose table between two marks is replaced")
    p.add_argument("--replay", type=Path, help="what --out wrote: only the table is made anew")
    p.add_argument("--folder", type=Path)
    p.add_argument("--step", choices=("measured", "peers"), help=argparse.SUPPRESS)
    p.add_argument("--modes", nargs="+", help=argparse.SUPPRESS)
    p.add_argument("--until", type=float, nargs=2, help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.replay:
        put_into(options.write, drawn(json.loads(options.replay.read_text())), PLACES)
        return
    folder = options.folder or Path(tempfile.mkdtemp(prefix="edgec-cuda-"))
    folder.mkdir(parents=True, exist_ok=True)
    if options.step:
        (name,) = options.names
        if options.step == "measured":
            print(json.dumps(measured(name, folder, options.precision, options.profile)))
        else:
            until, others = options.until
            print(json.dumps(peers(name, folder, options.precision, tuple(options.modes), until, int(others))))
        return
    names = options.names or list(HEADLINE)
    precisions = tuple(options.precision.split(","))
    cases = [(n, p) for n in names for p in precisions]
    begun = time.time()
    with ProcessPoolExecutor(options.jobs) as pool:
        paths = dict(zip(names, pool.map(made, names, [folder] * len(names))))
        print(f"made in {time.time() - begun:.0f} s", flush=True)

        gpus = gpus_here()

        def step(case: tuple[str, str], *more: str, gpu: str = gpus[0]) -> dict[str, Any]:
            return alone(case[0], "--folder", str(folder), "--precision", case[1], *more, gpu=gpu)

        torch: dict[tuple[str, str], dict[str, Any]] = {}
        asked = [
            (case, modes) for modes in TOGETHER[options.peers] for case in cases
            if case[1] in ("fp32", "tf32", "fp16") and (AUTOTUNE not in modes or case[1] in options.autotune)
        ]  # fmt: skip
        until = (str(time.time() + options.patience), str(len(asked)))
        how = ("--step", "peers", "--until", *until, "--modes")
        with ThreadPoolExecutor(len(asked) or 1) as side:
            spread = [side.submit(step, c, *how, *modes, gpu=gpus[i % len(gpus)]) for i, (c, modes) in enumerate(asked)]
            for (case, _), found in zip(asked, (work.result() for work in spread)):
                torch[case] = torch.get(case, {}) | found
                print(*case, json.dumps(found), flush=True)
        begun = time.time()
        building = {n: pool.submit(built, n, paths[n], folder, options.device, precisions) for n in names}
        results: dict[str, Any] = {}
        for name, work in building.items():
            problem = work.exception()
            failed = {p: {"failed": str(problem)} for p in precisions}
            results[name] = failed if problem else work.result()
        print(f"built in {time.time() - begun:.0f} s", flush=True)
        ours = [c for c in cases if "failed" not in results[c[0]][c[1]]]
        more = ("--step", "measured", *(["--profile"] if options.profile else []))
        with ThreadPoolExecutor(4) as side:
            for (name, precision), found in zip(ours, side.map(lambda case: step(case, *more), ours)):
                results[name][precision] |= found
    for name, precision in cases:
        record = results[name][precision]
        if (name, precision) in torch:
            record["torch"] = torch[name, precision]
        shown = {k: v for k, v in record.items() if k not in ("kernels", "kernel_us")}
        print(f"{name} {precision}: {len(record.get('kernels', ()))} kernels {json.dumps(shown)}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(results))
    if options.write:
        put_into(options.write, drawn(results), PLACES)
    print(drawn(results))


if __name__ == "__main__":
    main()
