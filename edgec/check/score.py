"""A network on labelled data: its reference, what it compiles to in floats, and what it compiles to quantized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.bench.remote import Remote
from edgec.build import Built
from edgec.check.metrics import Metric, class_axis, decisions
from edgec.check.network import reference_for
from edgec.errors import UsageError
from edgec.execute.samples import samples
from edgec.ir.graph import Graph
from edgec.media.folder import LABELS, arrays_of
from edgec.media.way import Files, Way, data, hint_below
from edgec.progress import Progress
from edgec.text import one_of, printable
from edgec.untrusted import read_arrays

Array = np.ndarray


@dataclass(frozen=True)
class Variant:
    """One way to run the network. ``value`` is its metric in percent, ``agrees`` how many of its decisions (where
    results are compared: how many of its numbers, to 1 % of the largest) are those of the reference."""

    name: str
    value: float
    agrees: float


@dataclass(frozen=True)
class Scored:
    """``labels`` says where labels come from: the data, or the reference where data have none."""

    ok: bool
    metric: str
    output: str
    samples: int
    labels: str
    drop: float
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


def labelled(graph: Graph, folder: Path, way: Way = Way()) -> tuple[list[dict[str, Array]], Array | None]:
    """Inputs, and labels where there are any, of an .npz file or of all in a folder.

    A folder of pictures or WAV files becomes samples by ``way``; folders in it are classes, whose numbers are labels.

    Raises UsageError where there is nothing, or files differ in having labels.
    """
    source = data(folder, way)
    if isinstance(source, Files):
        arrays = arrays_of(source, graph)
        known = arrays.pop(LABELS, None)
        return samples(graph, arrays, str(folder)), known
    files = sorted(folder.glob("*.npz")) if folder.is_dir() else [folder]
    if not files or not files[0].is_file():
        given = f"give an .npz file, or a folder of them, with inputs by name and labels in '{LABELS}'"
        hint = printable(hint_below(folder)) or f"{given}, or a folder of pictures or WAV files for each class"
        raise UsageError("there are no data", hint=hint, where=str(folder))
    names = {str(n.attributes["name"]) for n in graph.inputs}
    sets: list[dict[str, Array]] = []
    labels: list[Array] = []
    for file in files:
        arrays = read_arrays(file)
        others = [name for name in arrays if name not in names]
        found = samples(graph, {k: v for k, v in arrays.items() if k in names}, str(file))
        sets += found
        chosen = LABELS if LABELS in others else others[0] if len(others) == 1 else None
        if chosen is not None:
            own = arrays[chosen]
            own = own.reshape(1, *own.shape) if len(found) == 1 and own.shape[:1] != (1,) else own
            if own.shape[:1] != (len(found),):
                count = len(own) if own.ndim else "no row of"
                raise UsageError(f"{len(found)} inputs and {count} labels", where=str(file))
            labels.append(own)
        elif others:
            raise UsageError(
                f"which of {', '.join(others)} are the labels?", hint=f"call them '{LABELS}'", where=str(file)
            )
    if labels and len(labels) != len(files):
        raise UsageError("some files have labels, and some have none", where=str(folder))
    return sets, np.concatenate(labels) if labels else None


def score(
    floats: Built,
    narrow: Built | None,
    folder: Path,
    metric: str,
    known: Mapping[str, Metric],
    output: str | None,
    drop: float,
    progress: Progress,
    on: Remote | None = None,
) -> Scored:
    """See `edgec.score`; ``on`` is the network on its device, where it is to run there."""
    if metric not in known:
        raise UsageError(f"there is no metric '{metric}'", hint=one_of(metric, known))
    graph = floats.stages.graph
    outputs = [name for name, _ in graph.outputs]
    output = outputs[0] if output is None else output
    if output not in outputs:
        raise UsageError(f"there is no output '{output}'", hint=one_of(output, outputs))
    sets, labels = labelled(graph, folder, floats.options.way)
    notes: list[str] = []
    name, reference = reference_for(floats, notes)
    ways: dict[str, Callable[[Mapping[str, Array]], Mapping[str, Array]]] = {name: reference}
    if on is None:
        ways["compiled"] = floats.network.run
    if narrow is not None:
        ways[narrow.options.quantize] = narrow.network.run
    results: dict[str, Array] = {}
    for label, run in ways.items():
        got = []
        for k, arrays in enumerate(sets):
            progress("check", f"{label}, sample {k + 1}/{len(sets)}", k / len(sets))
            got.append(run(arrays)[output])
        results[label] = np.stack(got)
    if on is not None:
        results[on.link.name] = np.stack([ran.outputs[output] for ran in on.run(sets)])
    wanted = results[name]
    whose = "the data" if labels is not None else name
    if labels is None:
        labels = wanted if metric == "cosine" else wanted.argmax(axis=class_axis(wanted))
    labels = labels.reshape(len(sets), -1) if labels.size == len(sets) else labels
    variants = []
    for label, stacked in results.items():
        variants.append(Variant(label, known[metric](stacked, labels), _agreement(stacked, wanted, labels)))
    ok = all(v.value >= variants[0].value - drop for v in variants[1:])
    return Scored(ok, metric, output, len(sets), whose, drop, tuple(variants), tuple(notes))


def _agreement(got: Array, wanted: Array, labels: Array) -> float:
    if labels.dtype.kind in "iub":
        try:
            return float(100 * np.mean(decisions(got, labels) == decisions(wanted, labels)))
        except UsageError:  # a metric of one's own reads results its own way
            pass
    far = np.abs(got.astype(np.float64) - wanted)
    return float(100 * np.mean(far <= 0.01 * np.abs(wanted).max(initial=0.0)))
