"""Networks of NNSmith, compiled, beside onnxruntime.

`python -m benchmarks.robustness.nnsmith --graphs N --python PATH` draws networks 0 to N - 1 with an interpreter that
has the packages nnsmith and torch, builds and runs each on random inputs, and says how many agree. Networks that are
already in the folder are not drawn again; results are kept beside them, so that a run goes on where it was. Where
results differ by more than the narrowest float type of the network explains, both are compared with edgec's own
evaluation in double precision: what is nearer to it, or no farther than rounding explains, is right.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from benchmarks import ROOT
from benchmarks.robustness import nnsmith_graphs
from edgec import files
from edgec.errors import EdgecError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.rewrite import simplify

sys.path.insert(0, str(ROOT / "tests"))
from compiled import Compiled, compile_graphs
from small_graphs import doubled

#: Networks to one compiler run.
BATCH = 25
Arrays = Mapping[str, np.ndarray]


def inputs(model: onnx.ModelProto, number: int) -> dict[str, np.ndarray]:
    """Random operands: floats around 0, small integers."""
    random = np.random.default_rng(zlib.crc32(b"nnsmith") + number)
    known = {t.name for t in model.graph.initializer}
    found = {}
    for i in model.graph.input:
        if i.name not in known:
            shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            whole = random.integers(0, 2 if dtype.kind == "b" else 5, shape)
            drawn = random.standard_normal(shape) if dtype.kind == "f" else whole
            found[i.name] = np.asarray(drawn).astype(dtype)
    return found


def expected(model: onnx.ModelProto, feeds: Arrays) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, dict(feeds))))


def outcomes(folder: Path, numbers: Sequence[int]) -> dict[int, str]:
    """The outcome of each network: agrees, refused, or how it differs."""
    found: dict[int, str] = {}
    models = {k: onnx.load(folder / f"{k}.onnx") for k in numbers}
    feeds = {k: inputs(m, k) for k, m in models.items()}
    graphs, wanted = {}, {}
    for k, model in models.items():
        try:
            wanted[k] = expected(model, feeds[k])
        except Exception as error:  # its exceptions have no common base
            found[k] = f"onnxruntime refuses: {str(error).splitlines()[0][:100]}"
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graphs[f"{k}"] = simplify(import_model(model))[0]
        except EdgecError as error:
            found[k] = f"refused: {error.message[:150]}"
        except Exception as error:
            found[k] = f"mistake: {type(error).__name__}: {str(error)[:150]}"
    with tempfile.TemporaryDirectory() as place:
        for name, network in compile_graphs(graphs, Path(place)).items():
            k = int(name)
            if isinstance(network, EdgecError):
                found[k] = f"refused: {network.message[:150]}"
            else:
                found[k] = _compared(network, models[k], feeds[k], wanted[k])
    return found


def _compared(network: Compiled, model: onnx.ModelProto, feeds: Arrays, wanted: Arrays) -> str:
    try:
        got = network(feeds)
    except AssertionError as error:
        return f"differs: {error}"
    width = narrowest(model)
    told = [f"{n}: {t}" for n, w in wanted.items() if (t := difference(got[n], np.asarray(w), width))]
    if not told:
        return "agrees"
    precise = _precise(model, feeds)
    if precise is None or any(difference(got[n], precise[n].astype(w.dtype), width) for n, w in wanted.items()):
        return f"differs: {'; '.join(told)[:300]}"
    return "agrees with double precision alone"


def _precise(model: onnx.ModelProto, feeds: Arrays) -> Arrays | None:
    """The results in double precision; None where a network has operators for one type alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = doubled(import_model(model))
        wide = {n: a.astype(np.float64) if a.dtype in (np.float32, np.float16) else a for n, a in feeds.items()}
        return evaluate.run(graph, wide)
    except (EdgecError, AssertionError):
        return None


def narrowest(model: onnx.ModelProto) -> int:
    """Bytes of the narrowest float type of a network: a wide result may be a narrow one, cast."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = (*graph.input, *graph.output, *graph.value_info)
    types = [onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in known]
    return min((t.itemsize for t in types if t.kind == "f"), default=8)


def difference(got: np.ndarray, want: np.ndarray, width: int = 8) -> str:
    """The difference of two results, as far as floats of ``width`` bytes can tell; empty where they agree."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        wrong = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        most = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
        allowed = {2: 2e-2, 4: 1e-4, 8: 1e-8}[min(width, want.dtype.itemsize)] * most + 1e-30
        with np.errstate(all="ignore"):
            wrong = ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    place = tuple(np.argwhere(wrong)[0])
    return f"{got[place]} for {want[place]} ({int(wrong.sum())} of {wrong.size})"


def drawn(folder: Path, count: int, python: str) -> list[int]:
    """The numbers of the networks in the folder, after those that are missing were asked for once."""
    asked = folder / "asked.json"
    first = json.loads(asked.read_text()) if asked.is_file() else 0
    if first < count:
        script = nnsmith_graphs.__file__
        subprocess.run([python, "-I", script, str(folder), str(first), str(count - first)], check=True)
        files.replace(asked, json.dumps(count))
    return sorted(int(p.stem) for p in folder.glob("*.onnx") if int(p.stem) < count)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with nnsmith and torch")
    parser.add_argument("--folder", type=Path, default=Path("nnsmith-graphs"))
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.folder / "outcomes.json"
    known = {int(k): v for k, v in json.loads(kept.read_text()).items()} if kept.is_file() else {}
    waiting = [k for k in drawn(given.folder, given.graphs, given.python) if k not in known]
    for first in range(0, len(waiting), BATCH):
        known |= outcomes(given.folder, waiting[first : first + BATCH])
        files.replace(kept, json.dumps(known))
    counts = Counter(text.partition(":")[0] for text in known.values())
    for text, count in sorted(counts.items()):
        print(f"{count:>7} {text}")
    for k, text in sorted(known.items()):
        if text.startswith(("differs", "mistake")):
            print(f"{k}.onnx {text}")
    return int(any(text.startswith(("differs", "mistake")) for text in known.values()))


if __name__ == "__main__":
    raise SystemExit(main())
