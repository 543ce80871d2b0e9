"""Extras of a project: bindings for other languages, and apps around the network.

Each is a set of files by path (``{name}`` is the prefix) and the templates that they are rendered from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgec.device.names import ABI, MIN_SDK
from edgec.emit.foreign import JAVA, JAVASCRIPT, RUST, WIDTH, WORDS
from edgec.emit.picture import Preparation, detector_of, flow_of, is_keyword_spotter, picture_of, steps
from edgec.emit.provider import provided
from edgec.errors import UsageError
from edgec.text import did_you_mean, printable

if TYPE_CHECKING:
    from edgec.device.device import Device
    from edgec.emit.language_model import Session


@dataclass(frozen=True)
class Extra:
    """One of them: the files, the architectures it is for (none: all), and the extras that have to be there too."""

    pages: Mapping[str, str]
    with_system: bool = True  # only where there is an operating system
    with_board: bool = False  # only where the device file says where the memory of a board lies
    arches: Sequence[str] = ()
    needs: Sequence[str] = ()
    of_pictures: Mapping[str, str] = field(default_factory=dict)  # more pages, for networks that look at pictures
    of_flow: Mapping[str, str] = field(default_factory=dict)  # and for those that look at two
    of_conversations: Mapping[str, str] = field(default_factory=dict)  # in their place, for language models
    of_texts: Mapping[str, str] = field(default_factory=dict)  # in their place, for those without a chat template too
    only_pictures: bool = False  # or conversations, where there are pages for them
    language: str = "c"
    of_keywords: Mapping[str, str] = field(default_factory=dict)  # more pages, for networks that listen to a word
    one_in_one_out: bool = False
    fixed: bool = False  # only for networks without open sizes
    of_arrays: bool = False  # for networks on arrays alone, no language models
    such: str = ""  # a device that it is for
    package: str = ""  # the folder of a package, which has sources and headers of its own and weights as an array
    archive: str = ""  # the package once more, as an archive of this name
    steps: Sequence[str] = ()  # commands that use it, of words with the {folder} and the {name} of the build


def _below(folder: str, templates: str, *files: str) -> dict[str, str]:
    """Files of a folder, each from the template of its name."""
    return {f"{folder}/{file}": f"{templates}/{file}.jinja" for file in files}


#: Languages in words, and a device of each.
_PROGRAMMED = {"c": ("C", "host"), "cuda": ("CUDA", "jetson_orin_nano")}

_CAMERA = _below(
    "jetson", "apps/jetson", "CMakeLists.txt", "frames.cpp", "frames.h", "main.cu", "pictures.h", "prepare.h"
)

#: Processors of computers and boards with Linux.
_LINUX = ("aarch64", "arm", "riscv64", "x86_64")

#: Cores of the boards that packages are for: 32 bits, without an operating system.
_MICROCONTROLLERS = ("thumb", "xtensa", "riscv32")

_JAVA = {
    "java/CMakeLists.txt": "bindings/java/CMakeLists.txt.jinja",
    "java/{name}_jni.c": "bindings/java/jni.c.jinja",
    **_below("java/src/main/java/edgec/{name}", "bindings/java", "Network.java"),
}
_ANDROID = {
    **_below("android", "apps/android", "settings.gradle", "build.gradle", "gradle.properties"),
    **_below("android/{name}", "apps/android/library", "build.gradle", "consumer-rules.pro"),
    **_below("android/{name}/src/main", "apps/android/library", "AndroidManifest.xml"),
    **_below("android/{name}/src/androidTest/java/edgec/{name}", "apps/android/library", "NetworkTest.java"),
    **_below("android/aar", "apps/android/aar", "AndroidManifest.xml"),
}

BINDINGS: Mapping[str, Extra] = {
    "cpp": Extra({"{name}.hpp": "bindings/net.hpp.jinja"}, with_system=False),
    "python": Extra(
        {
            "python/pyproject.toml": "bindings/python/pyproject.toml.jinja",
            "python/build_{name}.py": "bindings/python/build.py.jinja",
        },
        steps=("pip install {folder}/python",),
    ),
    "rust": Extra(
        _below("rust", "bindings/rust", "Cargo.toml", "build.rs", "lib.rs"),
        with_system=False,
        steps=("cargo build --release --manifest-path {folder}/rust/Cargo.toml",),
    ),
    "java": Extra(
        _JAVA,
        of_conversations={**_JAVA, **_below("java/src/main/java/edgec/{name}", "bindings/java", "Conversation.java")},
        steps=("cmake -S {folder}/java -B {folder}/java/build && cmake --build {folder}/java/build",),
    ),
}

APPS: Mapping[str, Extra] = {
    "android": Extra(
        _ANDROID,
        arches=tuple(ABI),
        needs=("java",),
        such="android_arm64",
        steps=("gradle -p {folder}/android assembleRelease",),
        of_conversations={
            **_ANDROID,
            **_below("android/chat", "apps/android/chat", "build.gradle"),
            **_below("android/chat/src/main", "apps/android/chat", "AndroidManifest.xml"),
            **_below("android/chat/src/main/java/edgec/{name}/chat", "apps/android/chat", "ChatActivity.java"),
        },
        of_pictures={
            **_below("android/camera", "apps/android/camera", "build.gradle"),
            **_below("android/camera/src/main", "apps/android/camera", "AndroidManifest.xml"),
            **_below("android/camera/src/main/assets", "apps", "labels.txt"),
            **_below(
                "android/camera/src/main/java/edgec/{name}/camera",
                "apps/android/camera",
                "CameraActivity.java",
                "Pixels.java",
            ),
        },
    ),
    "apk": Extra(
        _below("android/apk", "apps/apk", "AndroidManifest.xml", "Network.smali", "Trial.smali"),
        arches=tuple(ABI),
        needs=("java", "android"),
        fixed=True,
        such="android_arm64",
        steps=("adb install {folder}/android/{name}.apk",),
    ),
    "web": Extra(
        {
            "web/{name}.js": "apps/web/network.js.jinja",
            "web/{name}.d.ts": "apps/web/network.d.ts.jinja",
            **_below("web", "apps/web", "package.json", "worker.js", "remote.js", "remote.d.ts"),
        },
        with_system=False,
        arches=("wasm32",),
        only_pictures=True,
        such="wasm32",
        steps=("python -m http.server -d {folder}/web",),
        of_pictures={**_below("web", "apps/web", "index.html", "page.js"), **_below("web", "apps", "labels.txt")},
        of_conversations={
            "web/{name}.js": "apps/web/model.js.jinja",
            "web/index.html": "apps/web/chat.html.jinja",
            "web/page.js": "apps/web/chat.js.jinja",
        },
    ),
    "embedded": Extra(
        _below("embedded", "apps/embedded", "main.c", "Makefile"),
        with_system=False,
        with_board=True,
        such="mps2_an500",
        steps=("make -C {folder}/embedded",),
        arches=("thumb",),
        of_keywords=_below("embedded", "apps/embedded", "mfcc.c", "mfcc.h"),
        of_texts={"embedded/main.c": "apps/embedded/text.c.jinja", **_below("embedded", "apps/embedded", "Makefile")},
        one_in_one_out=True,
    ),
    "pi": Extra(
        {},
        arches=_LINUX,
        of_pictures=_below("pi", "apps/pi", "main.c", "CMakeLists.txt"),
        of_conversations={"pi/main.c": "apps/pi/chat.c.jinja", **_below("pi", "apps/pi", "CMakeLists.txt")},
        only_pictures=True,
        such="raspberry_pi_5",
        steps=("cmake -S {folder}/pi -B {folder}/pi/build && cmake --build {folder}/pi/build",),
    ),
    "gstreamer": Extra(
        _below("gstreamer", "apps/gstreamer", "CMakeLists.txt", "element.c"),
        arches=_LINUX,
        fixed=True,
        such="raspberry_pi_5",
        steps=(
            "cmake -S {folder}/gstreamer -B {folder}/gstreamer/build && cmake --build {folder}/gstreamer/build",
            "env GST_PLUGIN_PATH={folder}/gstreamer/build gst-inspect-1.0 {name}infer",
        ),
    ),
    "onnxruntime": Extra(
        {
            **_below("onnxruntime", "apps/onnxruntime", "CMakeLists.txt", "provider.cpp", "network.cpp"),
            **_below("onnxruntime", "apps/onnxruntime", "abi.hpp", "network.hpp", "sha256.hpp"),
            "onnxruntime/{name}_session.hpp": "apps/onnxruntime/session.hpp.jinja",
            "onnxruntime/{name}_session.py": "apps/onnxruntime/session.py.jinja",
        },
        arches=_LINUX,
        of_arrays=True,
        such="raspberry_pi_5",
        steps=(
            "cmake -S {folder}/onnxruntime -B {folder}/onnxruntime/build && cmake --build {folder}/onnxruntime/build",
        ),
    ),
    "ros2": Extra(
        {},
        arches=_LINUX,
        of_pictures=_below("ros2", "apps/ros2", "package.xml", "CMakeLists.txt", "node.cpp"),
        only_pictures=True,
        such="raspberry_pi_5",
        steps=("colcon build --base-paths {folder}/ros2",),
    ),
    "jetson": Extra(
        {},
        language="cuda",
        of_pictures={**_CAMERA, "jetson/answer.h": "apps/jetson/{answer}.h.jinja"},
        of_flow={**_CAMERA, "jetson/answer.h": "apps/jetson/answer_flow.h.jinja"},
        of_conversations={
            "jetson/main.c": "apps/pi/chat.c.jinja",
            "jetson/CMakeLists.txt": "apps/jetson/chat.cmake.jinja",
        },
        only_pictures=True,
        steps=("cmake -S {folder}/jetson -B {folder}/jetson/build && cmake --build {folder}/jetson/build",),
    ),
    "arduino": Extra(
        {
            **_below("arduino/{name}", "apps/arduino", "library.properties", "keywords.txt"),
            "arduino/{name}/examples/{name}_run/{name}_run.ino": "apps/arduino/sketch.ino.jinja",
        },
        with_system=False,
        arches=_MICROCONTROLLERS,
        such="nrf52840",
        package="arduino/{name}",
        archive="arduino/{name}.zip",
        steps=("arduino-cli lib install --zip-path {folder}/arduino/{name}.zip",),
    ),
    "platformio": Extra(
        {
            **_below("platformio", "apps/platformio", "platformio.ini"),
            "platformio/src/main.cpp": "apps/arduino/sketch.ino.jinja",
            **_below("platformio/lib/{name}", "apps/platformio", "library.json"),
        },
        with_system=False,
        arches=_MICROCONTROLLERS,
        such="nrf52840",
        package="platformio/lib/{name}",
        steps=("pio run -d {folder}/platformio",),
    ),
    "esp-idf": Extra(
        {
            **_below("esp-idf", "apps/esp-idf", "CMakeLists.txt", "sdkconfig.defaults"),
            **_below("esp-idf/main", "apps/esp-idf/main", "CMakeLists.txt", "main.c"),
            **_below("esp-idf/components/{name}", "apps/esp-idf/component", "CMakeLists.txt", "idf_component.yml"),
        },
        with_system=False,
        arches=("xtensa", "riscv32"),
        such="esp32s3",
        package="esp-idf/components/{name}",
        steps=("idf.py -C {folder}/esp-idf build",),
    ),
    "zephyr": Extra(
        {
            **_below("zephyr/{name}/zephyr", "apps/zephyr/module", "module.yml", "CMakeLists.txt", "Kconfig"),
            **_below("zephyr/{name}/samples/run", "apps/zephyr/sample", "CMakeLists.txt", "prj.conf", "sample.yaml"),
            **_below("zephyr/{name}/samples/run/src", "apps/zephyr/sample", "main.c"),
        },
        with_system=False,
        arches=_MICROCONTROLLERS,
        such="nrf52840",
        package="zephyr/{name}",
        steps=("west build -b BOARD -d {folder}/zephyr/build {folder}/zephyr/{name}/samples/run",),
    ),
    "cmsis-pack": Extra(
        {
            "cmsis-pack/edgec.{name}.pdsc": "apps/cmsis-pack/package.pdsc.jinja",
            **_below("cmsis-pack", "apps/cmsis-pack", "example.c"),
        },
        with_system=False,
        arches=("thumb",),
        such="stm32h743",
        package="cmsis-pack",
        archive="cmsis-pack/edgec.{name}.1.0.0.pack",
        steps=("cpackget add {folder}/cmsis-pack/edgec.{name}.1.0.0.pack",),
    ),
}

EXTRAS: Mapping[str, Extra] = {**BINDINGS, **APPS}


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
    if extra.arches and device.arch not in extra.arches:
        hint = f"choose a --device of {' or '.join(extra.arches)}, such as {extra.such} (edgec device list)"
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
) -> tuple[dict[str, str], dict[str, Any]]:
    """Templates by the paths of their files, and what they see beside what those of the project see.

    Raises UsageError where a network has to look at pictures and does not.
    """
    from edgec.frontend.language.facts import KEY

    hears = is_keyword_spotter(inputs, outputs)
    picture = None if hears else picture_of(inputs, outputs, prepared)
    flow = flow_of(inputs, outputs, prepared)
    detector = detector_of(picture, outputs) if picture is not None else None
    found: dict[str, str] = {}
    for extra in wanted:
        if model is not None and extra.of_texts:
            found |= extra.of_texts
            continue
        converses = model is not None and model.converses and extra.of_conversations
        if KEY in metadata and (converses or extra.only_pictures or extra.fixed or extra.of_arrays or extra.package):
            found |= _conversation(extra, model)
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
    score_steps = steps(outputs[0].onnx_name, metadata) if outputs else None
    of_provider = provided(name, inputs, outputs, metadata) if APPS["onnxruntime"] in wanted else {}
    buffers = {JAVA[p.ctype] for p in (*inputs, *outputs)} - {"ByteBuffer"}
    answer = "answer_boxes" if detector is not None else "answer_classes"
    found = {path: page.replace("{answer}", answer) for path, page in found.items()}
    return found, {
        "rust": RUST, "java": JAVA, "javascript": JAVASCRIPT, "width": WIDTH, "word": _word,
        "java_buffers": sorted(buffers),
        "java_cast": lambda ctype: f"({JAVA[ctype].removesuffix('Buffer').lower()}) ",
        "compiled": sources, "package_version": "1.0.0", "picture": picture, "flow": flow, "detector": detector,
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
        "abi": ABI.get(device.arch), "min_sdk": MIN_SDK, **of_provider,
    }  # fmt: skip
