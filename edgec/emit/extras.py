"""Extras of a project: those that are asked for (of the table `edgec.emit.apps`), and the pages they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgec.device.names import ABI, ABI_DEVICES, MIN_SDK
from edgec.device.wasm import STACK_BYTES
from edgec.emit.abi import AbiFiles
from edgec.emit.apps import APPS, BINDINGS, EXTRAS, Extra
from edgec.emit.foreign import JAVA, JAVASCRIPT, RUST, WIDTH, WORDS
from edgec.emit.kotlin import kotlin_values
from edgec.emit.picture import Preparation, detector_of, flow_of, is_keyword_spotter, picture_of, sound_of, steps
from edgec.emit.provider import provided
from edgec.errors import UsageError
from edgec.text import did_you_mean, printable

if TYPE_CHECKING:
    from edgec.device.device import Device
    from edgec.emit.language_model import Session


#: Languages in words, and a device of each.
_PROGRAMMED = {"c": ("C", "host"), "cuda": ("CUDA", "jetson_orin_nano")}


def chosen(names: Iterable[str], device: Device, prefix: str) -> list[Extra]:
    """The extras of these names, and those they need.

    Raises UsageError for one that does not fit the device, or whose language has other uses for the prefix.
    """
    found: dict[str, Extra] = {}
    for name in names:
        extra = EXTRAS.get(name)
        if extra is None:
            known = f"apps are {', '.join(APPS)}; bindings are {', '.join(BINDINGS)}"
            hint = did_you_mean(name, EXTRAS, known)
            raise UsageError(f"there is no app or binding '{printable(name)}'", hint=hint)
        extra = extra.others.get(device.language, extra)
        _refuse(name, extra, device, prefix)
        found |= {need: EXTRAS[need] for need in extra.needs} | {name: extra}
    return list(found.values())


def _refuse(name: str, extra: Extra, device: Device, prefix: str) -> None:
    from edgec.emit.language import language_of

    if language_of(device).name != extra.language:
        wanted, such = _PROGRAMMED[extra.language]
        hint = f"choose a --device in {wanted}, such as {extra.such or such} (edgec device list)"
        told = f"'{name}' is for networks in {wanted}; '{device.name}' is programmed in {device.language}"
        raise UsageError(told, hint=hint)
    if extra.arches and device.arch not in extra.arches and not {device.name, *device.bases} & set(extra.families):
        hint = f"choose a --device of {' or '.join(extra.arches)}, such as {extra.such} (edgec device list)"
        if extra.families and device.arch in ABI:
            own = ABI[device.arch]
            hint += f"; for {own}, add --abi {own} to it, or choose {ABI_DEVICES[own]}"
        raise UsageError(f"'{name}' is not for '{device.name}', whose processor is {device.arch}", hint=hint)
    if extra.with_system and not device.hosted:
        told = f"'{name}' needs an operating system, and '{device.name}' has none"
        raise UsageError(told, hint="choose a --device with one, or --bindings cpp, which needs none")
    if extra.with_board and not device.has_board:
        hint = (
            "take a --device of a board, such as mps2_an500 or stm32h743, or a device file of your own with ram_bytes, "
            "board.flash_bytes, board.flash_origin, board.ram_origin and board.clock_hz; or build without --app and "
            "add the folder's C to a project of the chip's own development kit"
        )
        raise UsageError(f"'{name}' needs the memory map of a board, which '{device.name}' does not have", hint=hint)
    for language in (name, *extra.needs):
        if prefix in WORDS.get(language, ()):
            raise UsageError(f"'{prefix}' cannot be a name in {language}", hint="choose another --name")


def _core(device: Device) -> str:
    """The core of a microcontroller as CMSIS spells it: Cortex-M0+ of -mcpu=cortex-m0plus."""
    told = next((flag for flag in device.toolchain.cflags if flag.startswith("-mcpu=")), "-mcpu=other")
    return told.removeprefix("-mcpu=").partition("+")[0].replace("plus", "+").replace("cortex-m", "Cortex-M")


def _real(steps: tuple[Any, ...] | None, number: str) -> str:
    """The expression of a score, in any of the languages: ``number`` is a step of a quantized output."""
    return number if steps is None else f"({number} - {steps[1]}) * {steps[0]}"


def _word(name: str) -> str:
    """A name of ours, out of the way of words that Rust or Java have for themselves."""
    return f"{name}_" if name in WORDS["rust"] | WORDS["java"] else name


def _conversation(extra: Extra, model: Session | None) -> Mapping[str, str]:
    """The pages of an app for a language model; raises UsageError where there are none."""
    if not extra.of_conversations or model is None:
        there = ", ".join(name for name, app in APPS.items() if app.of_conversations or app.of_texts)
        raise UsageError("this app has no sample for language models", hint=f"--app is one of {there} for them")
    if not model.converses:
        reason = model.chat.reason if model.chat is not None else "it has none"
        raise UsageError(
            f"this app talks by a chat template in C, and that of the model has no form for it: {reason}",
            hint="give another one with --chat-template FILE",
        )
    return extra.of_conversations


def pages(
    wanted: Iterable[Extra],
    device: Device,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    sources: Sequence[str],
    prepared: Preparation,
    metadata: Mapping[str, str],
    model: Session | None = None,
    name: str = "net",
    threads: int = 1,
    abis: Sequence[AbiFiles] = (),
) -> tuple[dict[str, str], dict[str, Any]]:
    """Templates by the paths of their files, and what they see beside what those of the project see.

    Raises UsageError where a network has to look at pictures and does not.
    """
    from edgec.frontend.language.facts import KEY

    hears = is_keyword_spotter(inputs, outputs)
    picture = None if hears else picture_of(inputs, outputs, prepared)
    flow = flow_of(inputs, outputs, prepared)
    sound = sound_of(inputs, outputs, prepared)
    detector = detector_of(picture, outputs) if picture is not None else None
    found: dict[str, str] = {}
    for extra in wanted:
        if model is not None and extra.of_texts:
            found |= extra.of_texts
            continue
        converses = model is not None and model.converses and extra.of_conversations
        if KEY in metadata and (converses or extra.only_pictures or extra.fixed or extra.of_arrays or extra.package):
            found |= _conversation(extra, model)
            if extra.of_threads and threads > 1:
                raise UsageError("a conversation in a page has one thread", hint="leave out --threads")
            continue
        if extra.only_pictures and picture is None and not (flow and extra.of_flow):
            hint = (
                "its one input is [1, 3, height, width] or [1, height, width, 3], of floats or bytes; or of one channel"
            )
            raise UsageError("this app is for networks that look at a picture", hint=hint)
        if extra.one_in_one_out and (len(inputs) != 1 or any(p.is_open for p in (*inputs, *outputs))):
            hint = "leave out --dim, or fix all other inputs with --value; or build without --app"
            raise UsageError("this app is for networks with one input, of fixed shape", hint=hint)
        if extra.fixed and any(p.is_open for p in (*inputs, *outputs)):
            raise UsageError("this app is for networks of fixed shapes", hint="leave out --dim")
        found |= extra.pages
        found |= extra.of_pictures if picture is not None else extra.of_keywords if hears else {}
        found |= extra.of_flow if flow is not None else {}
        found |= extra.of_threads if threads > 1 else {}
        found |= extra.of_others if picture is None else {}
        found |= extra.of_sounds if sound is not None and picture is None else {}
    score_steps = steps(outputs[0].onnx_name, metadata) if outputs else None
    of_provider = provided(name, inputs, outputs, metadata) if APPS["onnxruntime"] in wanted else {}
    buffers = {JAVA[p.ctype] for p in (*inputs, *outputs)} - {"ByteBuffer"}
    answer = "answer_boxes" if detector is not None else "answer_classes"
    found = {path: page.replace("{answer}", answer) for path, page in found.items()}
    return found, {
        "rust": RUST, "java": JAVA, "javascript": JAVASCRIPT, "width": WIDTH, "word": _word,
        "java_buffers": sorted(buffers),
        "java_cast": lambda ctype: f"({JAVA[ctype].removesuffix('Buffer').lower()}) ",
        "compiled": sources, "package_version": "1.0.0",
        "picture": picture, "flow": flow, "sound": sound, "detector": detector,
        "labels": prepared.labels,
        "kind": "text" if model is not None else "picture" if picture else "sound" if hears else "bytes",
        "ports": [*inputs, *outputs], "core": _core(device),
        "idf_target": next((known for known in (device.name, *device.bases) if known.startswith("esp32")), ""),
        "port": inputs[0] if inputs else None, "scores": outputs[0] if outputs else None,
        "steps": steps(inputs[0].onnx_name, metadata) if inputs else None,
        "score_steps": score_steps, "score": lambda number: _real(score_steps, number),
        "least": -128 if inputs and inputs[0].dtype == "i8" else 0,
        "most": 127 if inputs and inputs[0].dtype == "i8" else 255,
        "purpose": "pictures" if model is None else "chat",
        "abi": ABI.get(device.arch), "abis": abis, "min_sdk": MIN_SDK, "stack_bytes": STACK_BYTES,
        "abi_list": "".join(f", '{other.abi}'" for other in abis), **of_provider,
        **kotlin_values(inputs, outputs, _word, any(p.is_open for p in (*inputs, *outputs))),
    }  # fmt: skip
