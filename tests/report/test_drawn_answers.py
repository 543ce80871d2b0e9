"""Answers drawn by their types, as the terminal shows them, as lines of ``answers.txt``.

A line has a type, the number of answers that were shown, and a checksum of their texts: every branch that depends on
one figure is met. ``pytest tests/report --update-golden`` writes the lines, after a look at what changed.
"""

from __future__ import annotations

import io
import types
import zlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import pytest
from kept_graphs import hold
from rich.console import Console

from edgec.report import (
    advise,
    bench,
    build,
    built,
    certify,
    check,
    device,
    device_run,
    diff,
    divided,
    doctor,
    evidence,
    explain,
    farm,
    fitted,
    gpus,
    inspect,
    language,
    profile,
    profiles,
    rules,
    score,
    step_profile,
    sustained,
    training,
    tune,
)  # fmt: skip
from edgec.report.answers import advise as A
from edgec.report.answers import build as B
from edgec.report.answers import certify as E
from edgec.report.answers import check as C
from edgec.report.answers import divided as D
from edgec.report.answers import document as R
from edgec.report.answers import inspect as S
from edgec.report.answers import others as O
from edgec.report.answers import timing as T
from edgec.report.record import finite, shown

KEPT = Path(__file__).with_name("answers.txt")
#: Answers that are drawn of each type, and how often one is drawn again that contradicts itself.
COUNT, AGAIN = 12, 40
WORDS = ("a", "conv [b]", "0 of 3", "x\x1b[1m", "one, two", "", "12", "y = 2")
SHOWN: dict[Any, Callable[[Any], Any]] = {
    A.AdviseAnswer: advise.draw, B.BuildAnswer: lambda r: build.draw(r, "model"), C.CheckAnswer: check.draw,
    C.ScoreAnswer: score.draw, C.TrainingCheckAnswer: training.draw_checked, E.CertifyAnswer: certify.draw,
    D.DividedAnswer: divided.draw, D.DividedBenchAnswer: divided.draw_bench, D.DividedCheckAnswer: divided.draw_check,
    D.LinksAnswer: divided.draw_links, D.GpusAnswer: gpus.draw, R.DiffAnswer: diff.draw,
    S.InspectAnswer: inspect.draw, S.InspectBuiltAnswer: built.draw, S.ExplainAnswer: explain.draw,
    S.RulesAnswer: rules.draw_list, S.RuleAnswer: rules.draw_one, S.ProofsAnswer: rules.draw_proofs,
    T.BenchAnswer: bench.draw, T.DecodingAnswer: language.draw, T.StepsAnswer: training.draw_benched,
    T.SustainedAnswer: sustained.draw, T.TuneAnswer: tune.draw, T.ProfileAnswer: profile.draw,
    T.StepProfileAnswer: step_profile.draw, O.DoctorAnswer: doctor.draw, O.EvidenceAnswer: evidence.drawn,
    O.ProfilesAnswer: profiles.draw_list, O.MovedProfilesAnswer: profiles.draw_moved, O.FarmAnswer: farm.draw,
    O.DeviceRunAnswer: device_run.draw, O.DeviceFitAnswer: fitted.draw,
    O.DeviceAnswer: lambda r: device.draw(r["device"]), O.DevicesAnswer: lambda r: device.draw_list(r["devices"]),
}  # fmt: skip
#: What a type does not say of its values, by the keys of the answer.
KNOWN: dict[Any, dict[str, Any]] = {
    B.BuildAnswer: {"seconds": {"import": 0.5, "compile": 0.25, "total": 1.5}},
    T.DecodingAnswer: {"numeric": "approximates", "read_gbps": 12.5},
    O.MovedProfilesAnswer: {"command": "profiles export"},
    S.InspectBuiltAnswer: {
        "build": {"arena_bytes": 4096, "weights_bytes": None, "device": "a", "threads": 2, "kernels": 3, "edgec": "1"}
    },
}


class Answers:
    """Values of types, by a generator of numpy."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.dice.integers(len(choices)))]

    def of(self, kind: Any) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.of(args[0])
        if origin is Literal:
            return self.pick(*args)
        if origin in (Union, types.UnionType):
            return self.of(self.pick(*args))
        if origin is list:
            return [self.of(args[0]) for _ in range(self.pick(0, 1, 2, 4))]
        if origin is tuple:
            several = [args[0]] * self.pick(0, 1, 3) if args[-1:] == (...,) else args
            return [self.of(a) for a in several]
        if origin is dict:
            return {self.pick(*WORDS) or "k": self.of(args[1]) for _ in range(self.pick(0, 1, 3))}
        if is_typeddict(kind):
            hints = get_type_hints(kind, include_extras=True)
            optional = sorted(kind.__optional_keys__)
            left = {k for k in optional if self.dice.integers(2)}
            return {k: self.of(v) for k, v in hints.items() if k not in left}
        if is_dataclass(kind):
            hints = get_type_hints(kind, include_extras=True)
            return {f.name: self.of(hints[f.name]) for f in fields(kind)}
        return self.plain(kind)

    def plain(self, kind: Any) -> Any:
        if kind is bool:
            return bool(self.dice.integers(2))
        if kind is int:
            return self.pick(0, 1, 2, 3, 17, 4096, 123_456, 3 << 30)
        if kind is float:
            return self.pick(0.0, 1.0, 0.25, 3e-7, 42.5, 1e5, -0.5, float(np.float32(self.dice.random())))
        return self.pick(*WORDS) if kind is str else None


def drawn(kind: Any, number: int) -> str | None:
    """The text of the first answer of a draw that does not contradict itself; None where all do."""
    for again in range(AGAIN):
        answer = Answers(1000 * number + again).of(kind) | KNOWN.get(kind, {})
        console = Console(file=io.StringIO(), width=120, color_system="truecolor", force_terminal=True)
        try:
            console.print(SHOWN[kind](shown(finite(answer))))
        except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError, AttributeError):
            continue
        return f"{again} {console.file.getvalue()}"  # type: ignore[attr-defined]
    return None


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_drawn_answers(kind: Any, update_golden: bool) -> None:
    texts = [text for text in (drawn(kind, k) for k in range(COUNT)) if text is not None]
    hold(KEPT, [f"{kind.__name__} | {len(texts)} | {zlib.crc32(repr(texts).encode()):08x}"], update_golden)
