"""The table of extras: bindings for other languages, and apps around the network.

Each is a set of files by path (``{name}`` is the prefix) and the templates that they are rendered from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgec.device.names import ABI_DEVICES


@dataclass(frozen=True)
class Extra:
    """One of them: the files, the architectures it is for (none: all), and the extras that have to be there too."""

    pages: Mapping[str, str]
    with_system: bool = True  # only where there is an operating system
    with_board: bool = False  # only where the device file says where the memory of a board lies
    arches: Sequence[str] = ()
    families: Sequence[str] = ()  # devices of other architectures that it is for, and those based on them
    needs: Sequence[str] = ()
    of_pictures: Mapping[str, str] = field(default_factory=dict)  # more pages, for networks that look at pictures
    of_flow: Mapping[str, str] = field(default_factory=dict)  # and for those that look at two
    of_conversations: Mapping[str, str] = field(default_factory=dict)  # in their place, for language models
    of_texts: Mapping[str, str] = field(default_factory=dict)  # in their place, for those without a chat template too
    only_pictures: bool = False  # or conversations, where there are pages for them
    language: str = "c"
    others: Mapping[str, Extra] = field(default_factory=dict)  # in its place, by the language of a device
    of_keywords: Mapping[str, str] = field(default_factory=dict)  # more pages, for networks that listen to a word
    of_others: Mapping[str, str] = field(default_factory=dict)  # more pages, for networks that look at no picture
    of_threads: Mapping[str, str] = field(default_factory=dict)  # more pages, for networks of more than one thread
    of_sounds: Mapping[str, str] = field(default_factory=dict)  # and for those of them that hear a sound
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

_PICTURE_PAGE = {**_below("web", "apps/web", "index.html", "page.js"), **_below("web", "apps", "labels.txt")}
_ARRAYS_PAGE = {
    "web/index.html": "apps/web/arrays.html.jinja",
    "web/page.js": "apps/web/arrays.js.jinja",
    **_below("web", "apps", "labels.txt"),
}
_SOUND = _below("web", "apps/web", "sound.js")
_WEBGPU = Extra(
    _below("web", "project/wgsl", "package.json"),
    language="wgsl",
    with_system=False,
    such="webgpu",
    steps=("python -m http.server -d {folder}/web",),
    of_pictures=_PICTURE_PAGE,
    of_others=_ARRAYS_PAGE,
    of_sounds=_SOUND,
)

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
        {**_JAVA, **_below("java/src/main/kotlin/edgec/{name}", "bindings/java", "Net.kt")},
        of_conversations={**_JAVA, **_below("java/src/main/java/edgec/{name}", "bindings/java", "Conversation.java")},
        steps=("cmake -S {folder}/java -B {folder}/java/build && cmake --build {folder}/java/build",),
    ),
}

APPS: Mapping[str, Extra] = {
    "android": Extra(
        _ANDROID,
        arches=("aarch64",),
        families=tuple(ABI_DEVICES.values()),
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
        arches=("aarch64",),
        families=tuple(ABI_DEVICES.values()),
        needs=("java", "android"),
        fixed=True,
        such="android_arm64",
        steps=("adb install {folder}/android/{name}.apk",),
    ),
    "web": Extra(
        {
            "web/{name}.js": "apps/web/network.js.jinja",
            "web/{name}.d.ts": "apps/web/network.d.ts.jinja",
            **_below("web", "apps/web", "package.json", "worker.js", "remote.js", "remote.d.ts", "serve.py"),
        },
        with_system=False,
        arches=("wasm32",),
        of_arrays=True,
        such="wasm32",
        steps=("python {folder}/web/serve.py",),
        of_pictures=_PICTURE_PAGE,
        of_others=_ARRAYS_PAGE,
        of_sounds=_SOUND,
        of_threads=_below("web", "apps/web", "thread.js"),
        of_conversations={
            "web/{name}.js": "apps/web/model.js.jinja",
            "web/index.html": "apps/web/chat.html.jinja",
            "web/page.js": "apps/web/chat.js.jinja",
            **_below("web", "apps/web", "serve.py"),
        },
        others={"wgsl": _WEBGPU},
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
