"""What a user can decide about a build: as keywords (`Settings`), and resolved and validated (`Options`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Union, get_args

from edgec.compress import CORRECTIONS, OBSERVERS, PRECISIONS, RANDOM
from edgec.compress.budget import parsed as budget_of
from edgec.compress.prune import METHODS
from edgec.compress.prune.scheme import Scheme
from edgec.compress.prune.scheme import parsed as scheme_of
from edgec.device.device import Device, Precision
from edgec.device.load import load_device
from edgec.errors import UsageError
from edgec.frontend.onnx.inputs import DimensionRange
from edgec.fuse.modes import MODES, ModeName, mode_of
from edgec.rewrite.rule import Numeric
from edgec.text import identifier

#: How much a law may change numbers, from the least to the most; each level includes those before it.
NUMERIC: tuple[Numeric, ...] = ("exact", "reassociates", "approximates")
#: Other names of levels.
_LEVELS: dict[str, Numeric] = {**{level: level for level in NUMERIC}, "fast": "approximates"}
#: Where kernels run on a device with a GPU beside its processor: on the cheaper of the two, or all on one.
PLACES = ("auto", "gpu", "cpu")
#: More threads than this are a slip of the finger.
MAX_THREADS = 256

Folders = Iterable[Union[str, Path]]


class Settings(TypedDict, total=False):
    """The keywords that `build`, `check`, `bench` and `load` share.

    `device` is a name or a TOML file; `shapes` gives inputs the dimensions that the model leaves open, `dims` gives
    dimensions a range (least, most, step) inside which they are chosen when the network runs, `values` fixes inputs at
    build time, `states` says which output is the next value of which input, `loops` how often a Loop goes round at
    most, by the name of its node; `precision` is "fp32", "fp16", "bf16" or a GPU's "tf32", "int8" (quantized
    products, halves elsewhere) or "mixed:ERROR" (as many of the first kernels in floats as the error asks for); `fuse`
    says how much becomes one kernel (`edgec.fuse.modes`: True is the planner, False is none), `tuned` whether times in
    the profile database count; `quantize` is "int8", "int8-dynamic", "mixed", "int4-weight" or "float", with ranges
    that an `observer` ("best" of "minmax", "percentile", "mse" and "entropy") finds in `calibrate`, an .npz file, a
    folder of them, or "random"; `loss_budget` bounds what that may lose ("top1_drop=0.5", "max_abs=0.1",
    "cosine=0.99"), `corrections` are those that may be taken ("auto", "none", names with commas); `prune` is a scheme
    ("vector", "vector=8", "block=8x4", "pattern=4of9", "2:4", "channel"), `sparsity` its share of zeros (or "auto": as
    `loss_budget` allows), `prune_by` how they are chosen ("obs", "wanda", "magnitude"), `masks` an .npz file of what
    stays; `place` says what runs on the GPU beside the device ("auto", "gpu", "cpu"); `ram` is the bytes that arena,
    inputs and outputs may take (a board's own where nothing is said): beyond them, the head of the network is computed
    stripe by stripe; `numeric` bounds what laws may change (`NUMERIC`); `name` is the prefix of everything in the
    generated C.
    `rules`, `templates`, `devices` and `operators` are folders of the user's own.

    Decisions that are otherwise the compiler's: laws to do `without`, nodes whose results are to be kept `apart` from
    who reads them, what to `choose` where prices decide ("attention NODE": the name of a way), and `tiles` (rows,
    vectors) of the products that end in a node.
    """

    device: str | Path | Device
    threads: int
    name: str
    shapes: Mapping[str, Sequence[int]]
    dims: Mapping[str, DimensionRange | range]
    values: Mapping[str, Any]
    states: Mapping[str, str]
    loops: Mapping[str, int]
    numeric: str
    quantize: str
    calibrate: str | Path
    observer: str
    loss_budget: str | None
    corrections: str
    prune: str | None
    sparsity: float | str | None
    prune_by: str
    masks: str | Path | None
    fuse: bool | str
    tuned: bool
    precision: str
    compiler: str | None
    place: str | None
    ram: int | None
    rules: Folders
    templates: Folders
    devices: Folders
    operators: Folders
    without: Sequence[str]
    apart: Sequence[str]
    choose: Mapping[str, str]
    tiles: Mapping[str, tuple[int, int]]


#: What mixed precision may be off by, of the largest value, when nothing is said.
MIXED_ERROR = 0.01


@dataclass(frozen=True)
class Options:
    """Everything that decides what a build makes of a model."""

    device: Device
    threads: int = 1
    name: str = "net"
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, DimensionRange] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    loops: Mapping[str, int] = field(default_factory=dict)
    numeric: Numeric = "reassociates"
    error: float = 0.0  # of mixed precision: at most, beside the largest value; 0 where precision is not mixed
    quantize: str = "float"
    calibrate: str | Path = RANDOM
    observer: str = "minmax"
    loss_budget: str | None = None
    corrections: tuple[str, ...] | None = None
    prune: Scheme | None = None
    sparsity: float | None = None
    prune_by: str = "obs"
    masks: Path | None = None
    fuse: ModeName = "planner"
    tuned: bool = True
    compiler: str | None = None
    gpu: Device | None = None  # beside the device, where blocks go to the cheaper of the two
    ram: int | None = None
    rules: tuple[Path, ...] = ()
    templates: tuple[Path, ...] = ()
    operators: tuple[Path, ...] = ()
    without: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    choose: Mapping[str, str] = field(default_factory=dict)
    tiles: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """Bytes for arena, inputs and outputs, beyond which the head is computed in stripes; 0: as many as it takes."""
        if self.ram is not None:
            return self.ram
        return 0 if self.device.hosted else self.device.ram_bytes


def resolve(settings: Settings) -> Options:
    """Options from keywords; raises UsageError for a value that makes no sense, DeviceError for an unknown device."""
    unknown = sorted(set(settings) - set(Settings.__annotations__))
    if unknown:
        raise UsageError(
            f"there is no option '{unknown[0]}'", hint=f"the options are {', '.join(Settings.__annotations__)}"
        )
    device = settings.get("device", "host")
    if not isinstance(device, Device):
        device = load_device(device, _folders(settings.get("devices", ()), "devices"))
    wanted, quantize, error = _precision(settings.get("precision"), settings.get("quantize", "float"))
    device, gpu = _placed(device, settings.get("place"), _folders(settings.get("devices", ()), "devices"))
    device = _with_precision(device, wanted)
    gpu = _with_precision(gpu, wanted) if gpu is not None else None
    threads = _threads(settings.get("threads", 1))
    if threads > 1 and not device.hosted:
        raise UsageError(f"'{device.name}' has no operating system and so no threads", hint="leave out --threads")
    prune, sparsity = _pruning(settings, device)
    return Options(
        device=device,
        threads=threads,
        name=_name(settings.get("name", "net")),
        shapes={n: tuple(int(d) for d in s) for n, s in settings.get("shapes", {}).items()},
        dims={n: _range(n, r) for n, r in settings.get("dims", {}).items()},
        values=dict(settings.get("values", {})),
        states=dict(settings.get("states", {})),
        loops={n: _rounds(n, k) for n, k in settings.get("loops", {}).items()},
        numeric=_numeric(settings.get("numeric", "reassociates")),
        error=error,
        quantize=_one_of("precision", quantize, PRECISIONS),
        calibrate=settings.get("calibrate", RANDOM),
        observer=_one_of("observer", settings.get("observer", "minmax"), OBSERVERS),
        loss_budget=_budget(settings.get("loss_budget"), settings.get("quantize", "float"), prune),
        corrections=_corrections(settings.get("corrections", "auto")),
        prune=prune,
        sparsity=sparsity,
        prune_by=_one_of("way to choose zeros", settings.get("prune_by", "obs"), METHODS),
        masks=_masks(settings.get("masks"), prune),
        fuse=_mode(settings.get("fuse", True)),
        tuned=bool(settings.get("tuned", True)),
        compiler=settings.get("compiler"),
        gpu=gpu,
        ram=_ram(settings.get("ram")),
        rules=_folders(settings.get("rules", ()), "rules"),
        templates=_folders(settings.get("templates", ()), "templates"),
        operators=_folders(settings.get("operators", ()), "operators"),
        without=frozenset(settings.get("without", ())),
        apart=frozenset(settings.get("apart", ())),
        choose=dict(settings.get("choose", {})),
        tiles={n: _tile(n, *t) for n, t in settings.get("tiles", {}).items()},
    )


def _folders(folders: Folders, what: str) -> tuple[Path, ...]:
    if isinstance(folders, (str, Path)):
        folders = (folders,)
    paths = tuple(Path(f) for f in folders)
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"no such folder of {what}", where=str(path))
    return paths


def _range(name: str, given: DimensionRange | range) -> DimensionRange:
    """A range of sizes as (least, most, step); Python's own ranges leave out their end."""
    low, high, step = (given.start, given.stop - 1, given.step) if isinstance(given, range) else given
    high -= high % step if step > 0 else 0
    if step < 1 or low < 0 or low % step or high < low:
        raise UsageError(
            f"{low}..{high} in steps of {step} is no range of sizes for dimension '{name}'",
            hint="give the least, the most and, where they are not all allowed, a step that divides both",
        )
    return low, high, step


def _rounds(name: str, most: int) -> int:
    if most < 1:
        raise UsageError(f"a loop of {most} rounds", hint="give how many there are at most", where=name)
    return most


def _ram(given: int | None) -> int | None:
    if given is not None and given < 1:
        raise UsageError(f"{given} bytes of RAM hold nothing", hint="give 1 or more")
    return given


def _tile(name: str, rows: int, vectors: int) -> tuple[int, int]:
    if rows < 1 or vectors < 1:
        raise UsageError(f"{rows}x{vectors} is no tile", hint="give rows and vectors, 1 or more of each", where=name)
    return rows, vectors


def _threads(threads: int) -> int:
    if not 1 <= threads <= MAX_THREADS:
        raise UsageError(f"{threads} is no number of threads", hint=f"give 1 to {MAX_THREADS}")
    return threads


def _name(name: str) -> str:
    # The same rule that makes names out of files: what it leaves alone is a name C takes.
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name) and identifier(name) == name and not name.startswith("ec_"):
        return name
    raise UsageError(
        f"'{name}' cannot be the prefix of names in C",
        hint="use a letter, then letters, digits and single underscores; no word of C, nothing that begins with ec_",
    )


def _precision(wanted: str | None, quantize: str) -> tuple[str | None, str, float]:
    """(precision of the device, what products are made of, error of mixed precision) behind a name of them all."""
    name, colon, number = (wanted or "").partition(":")
    if name == "int8" and not colon:
        return "fp16", "int8", 0.0
    if name != "mixed":
        return wanted, quantize, 0.0
    try:
        error = float(number) if colon else MIXED_ERROR
    except ValueError:
        error = 0.0
    if not 0 < error < 1:
        raise UsageError(f"'{number}' is no error", hint=f"write mixed:{MIXED_ERROR}, of the largest value")
    return "fp16", quantize, error


def _with_precision(device: Device, wanted: str | None) -> Device:
    """The device, to be used in the precision that was asked for."""
    for precision in get_args(Precision):
        if wanted is None or wanted == device.precision:
            return device
        if wanted == precision:
            if wanted == ("bf16" if device.is_gpu else "tf32"):
                others = "fp16 and tf32" if device.is_gpu else "fp16 and bf16"
                raise UsageError(f"there are no kernels in {wanted} for '{device.name}'", hint=f"there are {others}")
            return replace(device, precision=precision)
    raise UsageError(
        f"there is no precision '{wanted}'",
        hint=f"it is one of {', '.join(get_args(Precision))}, int8, mixed and mixed:ERROR",
    )


def _placed(device: Device, place: str | None, folders: tuple[Path, ...]) -> tuple[Device, Device | None]:
    """(device to build for, GPU that may take blocks of it) behind a way to place them."""
    if place is None:
        return device, None
    _one_of("way to place kernels", place, PLACES)
    if place != "cpu" and not device.gpu:
        hint = (
            f"'{device.name}' is one: leave out --place"
            if device.is_gpu
            else 'a device file says it: gpu = "mali_g710"'
        )
        raise UsageError(f"no GPU is known beside '{device.name}'", hint=hint)
    if place == "cpu":
        return device, None
    gpu = load_device(device.gpu, folders)
    if gpu.language != "opencl":
        raise UsageError(f"'{gpu.name}' is not programmed in OpenCL", hint="--place goes with OpenCL devices")
    return (gpu, None) if place == "gpu" else (device, gpu)


def _mode(fuse: bool | str) -> ModeName:
    try:
        return mode_of(fuse)
    except KeyError:
        raise UsageError(f"there is no way to fuse called '{fuse}'", hint=f"it is one of {', '.join(MODES)}") from None


def _pruning(settings: Settings, device: Device) -> tuple[Scheme | None, float | None]:
    """The scheme and the share of zeros; without a share it is what the budget allows."""
    text, given = settings.get("prune"), settings.get("sparsity")
    if text is None and settings.get("masks") is not None:
        text = "vector"
    if text is None:
        if given is not None:
            raise UsageError("zeros of no kind are asked for", hint="give --prune vector with --sparsity")
        return None, None
    if text == "vector" and device.language == "cuda":  # a panel, and 16 bytes of what it is multiplied with
        text = f"block=32x{8 if device.precision == 'fp16' else 4}"
    scheme = scheme_of(text, device.vector_lanes)
    if given in (None, "auto"):
        return scheme, scheme.share if scheme.of and settings.get("loss_budget") is None else None
    try:
        share = float(given)
    except ValueError:
        share = 1.0
    if not 0 < share < 1:
        raise UsageError(f"'{given}' is no share of zeros", hint="give one between 0 and 1, or auto with --budget")
    if share < scheme.share - 0.01 or (scheme.kind == "nm" and share > scheme.share + 0.01):
        raise UsageError(f"'{scheme}' makes {scheme.share:.0%} zeros, not {share:.0%}", hint="leave out --sparsity")
    return scheme, share


def _masks(given: str | Path | None, scheme: Scheme | None) -> Path | None:
    if given is None:
        return None
    if scheme is not None and scheme.kind == "channel":
        raise UsageError("masks say which weights stay, not which channels", hint="leave out --prune channel")
    if not Path(given).is_file():
        hint = "give an .npz file as --write-masks writes it"
        raise UsageError("cannot be read: there is no such file of masks", hint=hint, where=str(given))
    return Path(given)


def _budget(text: str | None, precision: str, prune: Scheme | None) -> str | None:
    if text is None:
        return None
    if precision not in ("int8", "mixed") and prune is None:
        hint = "give --quantize mixed, or int8, or --prune with it"
        raise UsageError("there is nothing a budget could bound", hint=hint)
    return str(budget_of(text))


def _corrections(text: str) -> tuple[str, ...] | None:
    """Names, or None for all that real data allow."""
    if text == "auto":
        return None
    return () if text == "none" else tuple(_one_of("correction", name, CORRECTIONS) for name in text.split(","))


def _one_of(what: str, chosen: str, known: Iterable[str]) -> str:
    if chosen not in known:
        raise UsageError(f"there is no {what} '{chosen}'", hint=f"it is one of {', '.join(known)}")
    return chosen


def _numeric(numeric: str) -> Numeric:
    for level in NUMERIC:
        if _LEVELS.get(numeric) == level:
            return level
    raise UsageError(f"there is no numeric level '{numeric}'", hint=f"it is one of {', '.join(_LEVELS)}")
