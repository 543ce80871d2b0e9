"""Answers of the commands about devices, profiles, language models and this machine."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict, Union

from edgec.report.answers.device import DeviceFacts
from edgec.report.answers.frame import Answered, Figure


class DevicesAnswer(Answered):
    """The answer of `edgec device list`."""

    devices: Annotated[list[DeviceFacts], "the facts of every TOML file"]


class DeviceAnswer(Answered):
    """The answer of `edgec device show` and `edgec device probe`."""

    device: Annotated[DeviceFacts, "the facts from its TOML file, or of this machine"]


class ArrayType(TypedDict):
    """The type of an array."""

    dtype: str
    shape: Annotated[list[int], "samples first"]


class DeviceRunAnswer(Answered):
    """The answer of `edgec device run`."""

    file: Annotated[str, "the file with the outputs"]
    outputs: Annotated[dict[str, ArrayType], "types by name"]
    milliseconds: Annotated[list[float], "of every sample"]


class FarmDevice(TypedDict):
    """A device of a farm."""

    place: Annotated[str, "`DEVICE@LINK`"]
    ok: bool
    seconds: Annotated[float, "in total"]
    measured: Annotated[Union[int, None], "variants of matmuls that were timed there; `null` without `--tune`"]
    max_rel: Annotated[Figure, "the worst output's largest difference over its largest value"]
    median_ms: Annotated[Figure, "of a run, by the device's clock"]
    error: Annotated[Union[str, None], "the reason why the device was lost"]


class FarmAnswer(Answered):
    """The answer of `edgec device farm`."""

    ok: Annotated[bool, "whether all are right"]
    devices: Annotated[list[FarmDevice], "every device"]


class FitError(TypedDict):
    """The accuracy with which costs foretell kernels that were left out of a fit."""

    median: Annotated[float, "how far prices are off, as a fraction"]
    ninth: Annotated[float, "what nine in ten are below"]
    tiles: Annotated[Figure, "time lost to tiles that are not the quickest of those timed, as a fraction"]


class DeviceFitAnswer(Answered):
    """The answer of `edgec device fit`."""

    device: Annotated[str, "the device that was fitted"]
    file: Annotated[str, "the device file that was written"]
    record: Annotated[str, "the file of the times, from which the same command goes on"]
    link: Annotated[str, "where it was timed"]
    on: Annotated[str, "the date"]
    kernels: Annotated[int, "that were timed"]
    held_out: Annotated[int, "of them, left out of the fit"]
    left: Annotated[int, "networks that were not timed for lack of time"]
    seconds: Annotated[float, "in total"]
    before: Annotated[FitError, "by the costs that the device had"]
    after: Annotated[FitError, "by the fitted ones"]
    costs: Annotated[dict[str, dict[str, float]], "the tables of `[costs]` that were fitted"]
    kept: Annotated[list[str], "costs without an effect on what was timed"]
    counts: Annotated[bool, "whether times are counts of instructions"]


class DoctorRow(TypedDict):
    """A tool."""

    name: str
    ok: bool
    optional: bool
    serves: Annotated[str, "features that need it"]
    detail: Annotated[str, "what was found"]
    hint: Annotated[str, "the command that installs it"]


class DoctorAnswer(Answered):
    """The answer of `edgec doctor`."""

    ok: Annotated[bool, "whether edgec can build and run a network here"]
    checks: Annotated[list[DoctorRow], "every program and package that a feature can use"]


class KnownTime(TypedDict):
    """A time of the profile database."""

    block: Annotated[str, "its fingerprint"]
    what: str
    us: float
    device: str
    compiler: str
    target: str


class ProfilesAnswer(Answered):
    """The answer of `edgec profiles list`."""

    file: Annotated[str, "the database"]
    times: Annotated[list[KnownTime], "every time"]


class MovedProfilesAnswer(Answered):
    """The answer of `edgec profiles export`, `import` and `clear`."""

    database: Annotated[str, "the database"]
    times: Annotated[int, "their number"]
    file: Annotated[
        Union[str, None], "the file that was written or read, an object too: `edgec_profiles` (1) and `times`"
    ]


class TrustAnswer(Answered):
    """The answer of `edgec trust`."""

    file: Annotated[str, "the `edgec.toml`"]
    trusted: Annotated[bool, "false after `--revoke`"]
    lines: Annotated[
        dict[str, Any],
        'values that need trust by their place in the file, such as `"build.save_stages": "../stages"`',
    ]


class ServeAnswer(Answered):
    """The answer of `edgec serve`, when it was stopped."""

    file: Annotated[str, "the file with the decisions"]
    url: Annotated[str, "the address"]


class ServeLmAnswer(Answered):
    """The answer of `edgec serve-lm`, when it was stopped."""

    folder: Annotated[str, "the folder of the language model"]
    url: Annotated[str, "the address"]


class UsageFacts(TypedDict):
    """Tokens, seconds and speed."""

    prompt_tokens: int
    reused_tokens: Annotated[int, "of them, those that the cache had"]
    completion_tokens: int
    prefill_seconds: float
    decode_seconds: float
    tokens_per_second: Annotated[float, "behind the first token of the answer"]


class ChatAnswer(Answered):
    """The answer of `edgec chat --prompt`."""

    folder: Annotated[str, "the folder of the language model"]
    text: Annotated[str, "the answer"]
    finish: Annotated[str, "`stop`: a stop string or a token that ends a text; `length`"]
    seed: Annotated[int, "gives the same answer again"]
    usage: Annotated[UsageFacts, "tokens, seconds and speed"]


class AdapterAnswer(Answered):
    """The answer of `edgec adapter`."""

    folder: Annotated[str, "the folder of the language model"]
    file: Annotated[str, "the file that was written"]
    bytes: Annotated[int, "its size"]


class WheelAnswer(Answered):
    """The answer of `edgec wheel`."""

    folder: Annotated[str, "the folder of the build"]
    file: Annotated[str, "the wheel that was written"]
    tag: Annotated[str, "the interpreters and systems that it is for"]
    needs: Annotated[str, "instruction sets that the code needs; empty: those of every processor of the tag"]
    hint: Annotated[str, "options of a build that needs less; empty where there is none"]


class EncryptAnswer(Answered):
    """The answer of `edgec encrypt`."""

    folder: Annotated[str, "the folder of the build"]
    file: Annotated[str, "the encrypted file of weights"]
    sources: Annotated[list[str], "the C that opens it"]


class UpdateAnswer(Answered):
    """The answer of `edgec update`."""

    ok: Annotated[bool, "whether the program of the build takes the weights"]
    folder: Annotated[str, "the folder of the build"]
    file: Annotated[Union[str, None], "the file of weights that was written"]
    bytes: Annotated[int, "its size, or what it would be"]
    abi: Annotated[str, "the digest of the code that the weights are for"]
    built_abi: Annotated[str, "that of the build"]
    reasons: Annotated[list[str], "why the code does not fit, such as constants that are part of it"]


class BoundedLoop(TypedDict):
    """A loop of generated C."""

    line: int
    bound: Annotated[Union[int, None], "the most iterations of one entry; `null` where it is not known"]
    form: Annotated[str, "what gives the bound (docs/results/evidence.md)"]


class BoundedFunction(TypedDict):
    """A function of generated C with loops, or a kernel."""

    file: str
    function: str
    operations: Annotated[Figure, "of a kernel: FLOP of a run, in three digits"]
    bytes: Annotated[Figure, "of a kernel: read and written in a run, likewise"]
    loops: list[BoundedLoop]


class BrokenRules(TypedDict):
    """Rules of MISRA C that a file breaks."""

    file: str
    rules: Annotated[dict[str, int], "places by rule"]


class EvidenceAnswer(Answered):
    """The answer of `edgec evidence`."""

    ok: Annotated[bool, "whether every loop has a bound"]
    folder: Annotated[str, "the folder of the build"]
    files: Annotated[list[str], "those that were written"]
    functions: Annotated[list[BoundedFunction], "every function with loops"]
    loops: Annotated[int, "their number"]
    unbounded: Annotated[int, "of them, without a bound"]
    misra: Annotated[Union[list[BrokenRules], None], "by file; `null` where cppcheck did not run"]
    checker: Annotated[str, "the version of cppcheck, or the reason why it did not run"]


class SamplesAnswer(Answered):
    """The answer of `edgec samples`."""

    model: Annotated[str, "the model that they are for"]
    folder: Annotated[str, "the folder of files"]
    file: Annotated[str, "the file that was written"]
    preparation: Annotated[str, "the way from a file to an input"]
    arrays: Annotated[dict[str, ArrayType], "types by name: an input, and `labels` where there are classes"]
    classes: Annotated[list[str], "names of the classes, in order of their labels"]
    next: Annotated[list[str], "commands that take the file"]


class SchemaAnswer(Answered):
    """The answer of `edgec schema`."""

    schema_of: Annotated[Union[str, None], "the command; `null` for all"]
    json_schema: Annotated[Union[dict[str, Any], None], "the schema; `null` with `--markdown`"]
    markdown: Annotated[Union[str, None], "with `--markdown`, the tables"]
