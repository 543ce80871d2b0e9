"""`Options`: settings resolved and validated, with the device that is built for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import Any, get_args

from edgec import files
from edgec.compress import CORRECTIONS, OBSERVERS, PRECISIONS
from edgec.compress.prune import METHODS
from edgec.compress.prune.scheme import Scheme
from edgec.compress.retrain import Retraining
from edgec.device.device import Device, Precision
from edgec.device.load import load_device
from edgec.emit.weights import PLACES as WEIGHT_PLACES
from edgec.errors import UsageError
from edgec.frontend.language.cache import KINDS, Kind
from edgec.frontend.language.lora import LoraOption, option_of
from edgec.fuse.modes import MODES, ModeName, mode_of
from edgec.limits import Limits
from edgec.media import pictures, sounds
from edgec.media.before import Before, asked
from edgec.media.way import Data, Way
from edgec.options.bounds import bounds_of
from edgec.options.compression import calibration_of, masks_of, max_loss_of, pruning_of
from edgec.options.cores import asked_cores
from edgec.options.dispatch import levels_of, names_of
from edgec.options.keywords import unknown
from edgec.options.language import check_device, context_of
from edgec.options.retraining import retraining_of
from edgec.options.table import OPTIONS, Folders, Settings
from edgec.options.texts import DimensionRange, dimension_range
from edgec.options.training import Training, training_of
from edgec.options.types import expected, value_fits
from edgec.options.webgpu import check_words
from edgec.rewrite.rule import Numeric
from edgec.text import identifier, one_of, printable

#: How much a rule may change numbers, from the least to the most; each level includes those before it.
NUMERIC: tuple[Numeric, ...] = ("exact", "reassociates", "approximates")
#: Other names of levels.
_LEVELS: dict[str, Numeric] = {**{level: level for level in NUMERIC}, "fast": "approximates"}
#: Where kernels run on a device with a GPU beside its processor: on the cheaper of the two, or all on one.
PLACES = ("auto", "gpu", "cpu")
#: More threads than this are a slip of the finger.
MAX_THREADS = 256

#: What mixed precision may be off by, of the largest value, when nothing is said.
MIXED_ERROR = 0.01


@dataclass(frozen=True)
class Options:
    """Everything that decides what a build makes of a model; `resolve` makes it. Defaults are in the table."""

    device: Device
    levels: tuple[Device, ...]  # whose kernels one library has, ``device`` first; none where it is the only one
    threads: int
    cores: tuple[int, ...]  # that threads are kept on; none for any
    placed_by: str  # "sweep" or "asked" where threads or cores are no defaults; else empty
    name: str
    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, DimensionRange]
    values: Mapping[str, Any]
    states: Mapping[str, str]
    loops: Mapping[str, int]
    context: int | None
    chat_template: Path | None
    cache: Kind | None
    lora: LoraOption | None
    numeric: Numeric
    error: float  # of mixed precision: at most, over the largest value; 0 where precision is not mixed
    pre: Before | None  # in front of the network
    picture: pictures.Preparation | None
    sound: sounds.Preparation | None
    quantize: str
    calibrate: Data
    observer: str
    max_loss: str | None
    corrections: tuple[str, ...] | None
    prune: Scheme | None
    sparsity: float | None
    prune_by: str
    masks: Path | None
    fuse: ModeName
    profiles: bool
    compiler: str | None
    gpu: Device | None  # next to the device, where blocks go to the cheaper of the two
    ram: int | None
    weights: str  # where they are (`edgec.emit.weights`)
    bounds: bool  # are bounds of the outputs emitted?
    rules: tuple[Path, ...]
    templates: tuple[Path, ...]
    micro_kernels: tuple[Path, ...]
    operators: tuple[Path, ...]
    disable_rules: frozenset[str]
    materialize: frozenset[str]
    overrides: Mapping[str, str]
    tiles: Mapping[str, tuple[int, int]]
    limits: Limits
    training: Training | None
    retraining: Retraining | None

    @property
    def way(self) -> Way:
        """The way from files of pictures or sounds to inputs."""
        return Way(self.picture, self.sound, self.pre)

    @property
    def room(self) -> int:
        """Bytes for arena, inputs and outputs, beyond which the head is computed in stripes; 0: as many as it takes."""
        if self.ram is not None:
            return self.ram
        return 0 if self.device.hosted else self.device.ram_bytes


def resolve(settings: Settings) -> Options:
    """Options from keywords; raises UsageError for a value that makes no sense, DeviceError for an unknown device."""
    for key in sorted(set(settings) - set(OPTIONS)):
        raise unknown(key)
    for key, value in settings.items():
        if not value_fits(key, value):
            raise _misfit(key, value)
    given: dict[str, Any] = {key: settings.get(key, option.default) for key, option in OPTIONS.items()}
    device, gpu, quantize, error = _target(given)
    threads = _threads(1 if given["threads"] is None else given["threads"])
    if threads > 1 and not device.has_threads:
        raise UsageError(f"'{device.name}' has no operating system and so no threads", hint="leave out --threads")
    levels = _levels(given, device, gpu)
    device = levels[0] if levels else device
    check_device(given, device, gpu)
    cores = asked_cores(given, device, gpu, threads)
    prune, sparsity = pruning_of(given, device)
    way = Way(*(_read(key, given[key]) for key in ("picture", "sound", "pre")))
    return Options(
        device=device,
        levels=levels,
        gpu=gpu,
        error=error,
        quantize=_one_of("precision", quantize, PRECISIONS),
        threads=threads,
        cores=cores,
        placed_by="asked" if cores else "",
        prune=prune,
        sparsity=sparsity,
        masks=masks_of(given["masks"], prune),
        max_loss=max_loss_of(given["max_loss"], given["quantize"], prune),
        calibrate=calibration_of(given, way, quantize, error),
        compiler=given["compiler"],
        bounds=bounds_of(given, device, gpu),
        training=training_of(given, device),
        retraining=retraining_of(given, quantize, prune),
        **{key: _read(key, given[key]) for key in _CHECKS},
        rules=_folders(given["rules"], "rules"),
        templates=_folders(given["templates"], "templates"),
        micro_kernels=_folders(given["micro_kernels"], "micro-kernels"),
        operators=_folders(given["operators"], "operators"),
    )


def _read(key: str, value: Any) -> Any:
    """An option of its own, resolved; a value that is built in another way than the option's is an error."""
    try:
        return _CHECKS[key](value)
    except (TypeError, ValueError, AttributeError):
        raise _misfit(key, value) from None


def _misfit(key: str, value: Any) -> UsageError:
    option, text = OPTIONS[key], repr(value)
    hint = f"{option.help} It takes {expected(key)}"
    if option.pair is not None:
        name, value = option.pair.parse(option.pair.example.strip("'"))
        hint += f", as {{{name!r}: {value!r}}}"
    hint += f"; on the command line, {option.long} {option.metavar}" if option.metavar else ""
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    return UsageError(f"'{key}' cannot be {shown}", hint=hint)


def _target(given: Mapping[str, Any]) -> tuple[Device, Device | None, str, float]:
    """(device, GPU next to it or None, quantization, error of mixed precision) that settings ask for."""
    folders = _folders(given["devices"], "devices")
    wanted, quantize, error = _precision(given["precision"], given["quantize"])
    device = given["device"] if isinstance(given["device"], Device) else load_device(given["device"], folders)
    device, gpu = _placed(device, given["place"], folders)
    check_words(given, device, wanted, quantize)
    return _with_precision(device, wanted), _with_precision(gpu, wanted) if gpu is not None else None, quantize, error


def _levels(given: Mapping[str, Any], device: Device, gpu: Device | None) -> tuple[Device, ...]:
    """The devices of a library for several, all in the precision of ``device``."""
    folders = _folders(given["devices"], "devices")
    others = [_with_precision(load_device(name, folders), device.precision) for name in names_of(given["dispatch"])]
    return tuple(levels_of(device, others, gpu, given))


def _folders(folders: Folders | None, what: str) -> tuple[Path, ...]:
    if isinstance(folders, (str, Path)):
        folders = (folders,)
    return tuple(files.folder(f, what) for f in folders or ())


def _range(name: str, given: int | tuple[int, ...] | range) -> DimensionRange:
    """A range of sizes as (least, most, step)."""
    low, high, step = dimension_range(given)
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


def _ram(given: int | str | None) -> int | None:
    return None if given is None else bytes_of(given, "--ram")


def bytes_of(given: int | str, where: str) -> int:
    """Bytes of a number, or of a text such as 300M; ``where`` is the option. Raises UsageError for others."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)B?", str(given).upper())
    if found is None or isinstance(given, bool):
        raise UsageError(f"'{printable(str(given))}' is no size", hint="write 300M, 64K, 1.5G or bytes", where=where)
    size = int(float(found[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2]])
    if size < 1:
        raise UsageError(f"{size} bytes of RAM hold nothing", hint="give 1 or more", where=where)
    return size


def _limits(given: Mapping[str, float] | None) -> Limits:
    known = [f.name for f in fields(Limits)]
    for name, most in (given or {}).items():
        _one_of("limit", name, known)
        if not 0 < most < inf:
            raise UsageError(f"{most} is no limit", hint="give a number above 0", where=f"--limits {name}")
    return Limits.of(given or {})


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
            has_bf16 = not device.is_gpu or (device.language == "cuda" and device.gpu.compute_capability >= 80)
            if (wanted == "bf16" and not has_bf16) or (wanted == "tf32" and not device.is_gpu):
                others = "is fp16" if device.is_gpu else "are fp16 and bf16"
                raise UsageError(f"there are no kernels in {wanted} for '{device.name}'", hint=f"there {others}")
            return replace(device, precision=precision)
    raise UsageError(
        f"there is no precision '{wanted}'",
        hint=one_of(str(wanted), [*get_args(Precision), "int8", "mixed"], " and mixed:ERROR"),
    )


def _placed(device: Device, place: str | None, folders: tuple[Path, ...]) -> tuple[Device, Device | None]:
    """(device to build for, GPU that may take blocks of it) behind a way to place them."""
    if place is None:
        return device, None
    _one_of("way to place kernels", place, PLACES)
    if place != "cpu" and not device.gpu_device:
        hint = (
            f"'{device.name}' is one: leave out --place"
            if device.is_gpu
            else 'a device file says it: gpu_device = "mali_g710"'
        )
        raise UsageError(f"no GPU is known beside '{device.name}'", hint=hint)
    if place == "cpu":
        return device, None
    gpu = load_device(device.gpu_device, folders)
    if gpu.language != "opencl":
        raise UsageError(f"'{gpu.name}' is not programmed in OpenCL", hint="--place goes with OpenCL devices")
    return (gpu, None) if place == "gpu" else (device, gpu)


def _mode(fuse: bool | str) -> ModeName:
    try:
        return mode_of(fuse)
    except KeyError:
        raise UsageError(f"there is no way to fuse called '{fuse}'", hint=one_of(str(fuse), MODES)) from None


def _corrections(text: str) -> tuple[str, ...] | None:
    """Names, or None for all that real data allow."""
    if text == "auto":
        return None
    return () if text == "none" else tuple(_one_of("correction", name, CORRECTIONS) for name in text.split(","))


def _one_of(what: str, chosen: str, known: Iterable[str]) -> str:
    if chosen not in known:
        raise UsageError(f"there is no {what} '{chosen}'", hint=one_of(chosen, known))
    return chosen


def _numeric(numeric: str) -> Numeric:
    for level in NUMERIC:
        if _LEVELS.get(numeric) == level:
            return level
    raise UsageError(f"there is no numeric level '{numeric}'", hint=one_of(numeric, _LEVELS))


#: Options of their own: each value is checked and resolved without regard to the others.
_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": _name,
    "shapes": lambda shapes: {n: tuple(int(d) for d in s) for n, s in (shapes or {}).items()},
    "dims": lambda dims: {n: _range(n, r) for n, r in (dims or {}).items()},
    "values": lambda values: dict(values or {}),
    "states": lambda states: dict(states or {}),
    "loops": lambda loops: {n: _rounds(n, k) for n, k in (loops or {}).items()},
    "context": context_of,
    "chat_template": lambda given: None if given is None else Path(given),
    "cache": lambda kind: None if kind is None else _one_of("cache", kind, KINDS),
    "lora": lambda given: None if given is None else option_of(given),
    "pre": lambda text: None if text is None else asked(text),
    "picture": lambda text: None if text is None else pictures.Preparation.parse(text),
    "sound": lambda text: None if text is None else sounds.Preparation.parse(text),
    "numeric": _numeric,
    "observer": lambda name: _one_of("observer", name, OBSERVERS),
    "corrections": _corrections,
    "prune_by": lambda name: _one_of("way to choose zeros", name, METHODS),
    "fuse": _mode,
    "profiles": bool,
    "ram": _ram,
    "weights": lambda place: _one_of("place of weights", place, WEIGHT_PLACES),
    "disable_rules": lambda names: frozenset(names or ()),
    "materialize": lambda names: frozenset(names or ()),
    "overrides": lambda overrides: dict(overrides or {}),
    "limits": _limits,
    "tiles": lambda tiles: {n: _tile(n, *t) for n, t in (tiles or {}).items()},
}
