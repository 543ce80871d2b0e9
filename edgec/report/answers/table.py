"""The answers of every command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.report.answers import advise, build, certify, check, divided, document, inspect, others, timing

#: The types of what a command prints, by its name; each may print `frame.Refused` too.
ANSWERS: Mapping[str, tuple[Any, ...]] = {
    "build": (build.BuildAnswer, build.UntilAnswer, divided.DividedAnswer, divided.GpusAnswer),
    "kernel": (build.BuildAnswer,),
    "check": (check.CheckAnswer, check.ScoreAnswer, check.TrainingCheckAnswer, divided.DividedCheckAnswer),
    "bench": (timing.BenchAnswer, timing.DecodingAnswer, timing.StepsAnswer, divided.DividedBenchAnswer),
    "advise": (advise.AdviseAnswer,),
    "certify": (certify.CertifyAnswer,),
    "inspect": (inspect.InspectAnswer, inspect.InspectBuiltAnswer),
    "explain": (inspect.ExplainAnswer,),
    "tune": (timing.TuneAnswer,),
    "profile": (timing.ProfileAnswer, timing.StepProfileAnswer),
    "report": (document.ReportAnswer,),
    "diff": (document.DiffAnswer,),
    "serve": (others.ServeAnswer,),
    "train": (build.TrainAnswer,),
    "chat": (others.ChatAnswer,),
    "serve-lm": (others.ServeLmAnswer,),
    "adapter": (others.AdapterAnswer,),
    "trust": (others.TrustAnswer,),
    "samples": (others.SamplesAnswer,),
    "wheel": (others.WheelAnswer,),
    "encrypt": (others.EncryptAnswer,),
    "update": (others.UpdateAnswer,),
    "evidence": (others.EvidenceAnswer,),
    "demo": (build.DemoAnswer,),
    "doctor": (others.DoctorAnswer,),
    "worker": (divided.WorkerAnswer,),
    "schema": (others.SchemaAnswer,),
    "rules list": (inspect.RulesAnswer,),
    "rules show": (inspect.RuleAnswer,),
    "rules prove": (inspect.ProofsAnswer,),
    "profiles list": (others.ProfilesAnswer,),
    "profiles export": (others.MovedProfilesAnswer,),
    "profiles import": (others.MovedProfilesAnswer,),
    "profiles clear": (others.MovedProfilesAnswer,),
    "device list": (others.DevicesAnswer,),
    "device show": (others.DeviceAnswer,),
    "device probe": (others.DeviceAnswer, divided.LinksAnswer),
    "device run": (others.DeviceRunAnswer,),
    "device check": (check.CheckedOnDevice, check.ScoreAnswer),
    "device bench": (timing.BenchAnswer, timing.SustainedAnswer),
    "device farm": (others.FarmAnswer,),
    "device fit": (others.DeviceFitAnswer,),
}
