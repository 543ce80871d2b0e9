"""The Android module: what can be proved of it without a phone and without Android's own tools."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from needed import need

import edgec
from edgec.device.probe import host_arch
from edgec.device.toolchain import compile_shared, pick_compiler
from edgec.emit.picture import Preparation
from edgec.errors import UsageError
from edgec.resources import data_folder

DIGITS = str(data_folder("apps") / "digits" / "digits.onnx")
PROGRAMS = Path(__file__).with_name("programs")
LIBRARY = "jni/arm64-v8a/libdigits_jni.so"
LIBRARIES = {f"jni/{abi}/libdigits_jni.so" for abi in ("arm64-v8a", "armeabi-v7a", "x86_64")}
#: By ABI: qemu's program and that of the cross compiler with its packages, and the level or refusal of each processor.
EMULATED = {
    "arm64-v8a": (
        "qemu-aarch64", "aarch64-linux-gnu", ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
        {"max": "pixel_8", "cortex-a76": "galaxy_s20", "cortex-a53": None},
    ),
    "armeabi-v7a": (
        "qemu-arm", "arm-linux-gnueabi", ("gcc-arm-linux-gnueabi", "libc6-dev-armel-cross"), {"cortex-a7": ""}
    ),
    "x86_64": (
        "qemu-x86_64", "x86_64-linux-gnu", ("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"), {"Nehalem": ""}
    ),
}  # fmt: skip
WRONG_CPU = 15


@dataclass(frozen=True)
class Made:
    folder: Path
    picture: Path
    wanted: np.ndarray

    @property
    def aar(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.folder / "android" / "digits.aar")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    need("javac", "default-jdk-headless")
    folder = tmp_path_factory.mktemp("android")
    prepared = Preparation((12.0,), (48.0,), tuple("0123456789"))
    out = folder / "digits"
    edgec.build(
        DIGITS, out, name="digits", device="galaxy_s20", dispatch="pixel_8", threads=2, extras=["android"],
        abi="arm64-v8a,armeabi-v7a,x86_64", preprocessing=prepared,
    )  # fmt: skip
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    image.tofile(folder / "picture.bin")
    return Made(folder / "digits", folder / "picture.bin", edgec.build(DIGITS, device="generic")(image).reshape(-1))


def run(command: Sequence[str | Path], code: int = 0, **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_aar_holds_what_android_looks_for(made: Made) -> None:
    with made.aar as aar:
        names = {"AndroidManifest.xml", "classes.jar", "R.txt", "proguard.txt", *LIBRARIES}
        assert set(aar.namelist()) == names and aar.testzip() is None
        assert ET.fromstring(aar.read("AndroidManifest.xml")).attrib["package"] == "edgec.digits"
        with zipfile.ZipFile(BytesIO(aar.read("classes.jar"))) as jar:
            assert jar.namelist() == ["edgec/digits/Network.class"]
            assert jar.read("edgec/digits/Network.class")[:8] == b"\xca\xfe\xba\xbe\0\0\0\x34"  # Java 8
        assert b"edgec.digits.Network" in aar.read("proguard.txt")


@pytest.mark.parametrize("abi, machine", [("arm64-v8a", 183), ("x86_64", 62)])
def test_the_library_is_for_pages_of_16_kib(made: Made, abi: str, machine: int) -> None:
    with made.aar as aar:
        elf = aar.read(f"jni/{abi}/libdigits_jni.so")
    assert struct.unpack_from("<H", elf, 18) == (machine,)
    (start,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", elf, start + k * size) for k in range(count)]
    loads = [s for s in segments if s[0] == 1]
    assert loads and all(s[7] % 16384 == 0 and s[2] % 16384 == s[3] % 16384 for s in loads)
    for word in (b"libc.so\0", b"libm.so\0", b"JNI_OnLoad\0", b"digits_run\0"):
        assert word in elf
    assert b"GLIBC" not in elf


@pytest.mark.parametrize("abi", EMULATED)
def test_the_library_runs(made: Made, abi: str, tmp_path: Path) -> None:
    """On emulated processors, with a C library that goes by Android's name for its own."""
    emulator, target, packages, levels = EMULATED[abi]
    is_native = target.startswith(host_arch())
    qemu, gcc = need(emulator, "qemu-user"), need("gcc", "gcc") if is_native else need(f"{target}-gcc", *packages)
    with made.aar as aar:
        (tmp_path / "library.so").write_bytes(aar.read(f"jni/{abi}/libdigits_jni.so"))
    system = Path("/") if is_native else Path("/usr") / target
    for part in ("c", "m"):
        (tmp_path / f"lib{part}.so").symlink_to(system / "lib" / (target if is_native else "") / f"lib{part}.so.6")
    run([gcc, "-O1", "-Wall", "-Werror", PROGRAMS / "load.c", "-o", tmp_path / "load"])
    command = [qemu, "-L", system, "-E", f"LD_LIBRARY_PATH={tmp_path}"]
    for processor, level in levels.items():
        program = [*command, "-cpu", processor, tmp_path / "load", tmp_path / "library.so", made.picture]
        if level is None:
            run(program, code=WRONG_CPU)
            continue
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        np.testing.assert_allclose(np.array(done.stdout.split(), np.float32), made.wanted, atol=1e-6)
        assert done.stderr.strip() == level


def test_options_of_each_source_and_abi(made: Made, tmp_path: Path) -> None:
    """By CMake, as Gradle starts it for each ABI: every level, and every ABI, has the options of its device file."""
    need("cmake", "cmake")
    meant = {"armeabi-v7a": "-mfloat-abi=softfp", "x86_64": "-march=x86-64-v2"}
    for abi in (*meant, "arm64-v8a"):
        made_here = tmp_path / abi
        flags = [f"-DANDROID_ABI={abi}", "-DANDROID=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        run(["cmake", "-S", made.folder / "java", "-B", made_here, *flags])
        commands = json.loads((made_here / "compile_commands.json").read_text())
        options = {Path(c["file"]): c["command"].split() for c in commands if c["file"].endswith(".c")}
        for file, words in options.items():
            told = meant.get(abi) or (
                "+i8mm" if "pixel_8" in file.name else "+dotprod" if "galaxy" in file.name else ""
            )
            assert (told in " ".join(words)) and (bool(told) == any(w.startswith("-m") for w in words)), file
            assert file.name == "digits_jni.c" or (f"abi/{abi}/" in str(file)) == (abi in meant), file


def test_a_repository_of_maven(made: Made) -> None:
    place = made.folder / "android" / "repository" / "edgec" / "digits"
    library = place / "1.0.0" / "digits-1.0.0.aar"
    assert library.read_bytes() == (made.folder / "android" / "digits.aar").read_bytes()
    space = "{http://maven.apache.org/POM/4.0.0}"
    pom = ET.parse(library.with_suffix(".pom")).getroot()
    told = [pom.findtext(f"{space}{key}") for key in ("groupId", "artifactId", "version", "packaging")]
    assert told == ["edgec", "digits", "1.0.0", "aar"]
    assert ET.parse(place / "maven-metadata.xml").findtext("versioning/release") == "1.0.0"
    with zipfile.ZipFile(library.with_name("digits-1.0.0-sources.jar")) as sources:
        assert set(sources.namelist()) == {"edgec/digits/Network.java", "edgec/digits/Net.kt"}
    files = [f for f in place.rglob("*") if f.is_file() and f.suffix not in (".sha1", ".sha256")]
    assert len(files) == 4
    for file in files:
        for kind in ("sha1", "sha256"):
            assert file.with_name(f"{file.name}.{kind}").read_text() == hashlib.new(kind, file.read_bytes()).hexdigest()


def test_pictures_of_a_camera(made: Made, tmp_path: Path) -> None:
    """The sample's own code and the Java interface, on the desktop's virtual machine."""
    javac, java = need("javac", "default-jdk-headless"), need("java", "default-jdk-headless")
    home = Path(javac).resolve().parent.parent
    plain = tmp_path / "plain"
    edgec.build(DIGITS, plain, name="digits", device="generic", compile=False, extras=["java"])
    device = edgec.device.load.load_device("generic")
    sources = [
        *sorted(plain.glob("digits*.c")),
        plain / "digits_weights.S",
        plain / "ec_pool.c",
        plain / "java" / "digits_jni.c",
    ]
    include = [plain, home / "include", home / "include" / "linux"]
    compile_shared(pick_compiler(device), device, sources, tmp_path / "libdigits_jni.so", include=include)
    camera = made.folder / "android" / "camera" / "src" / "main" / "java" / "edgec" / "digits" / "camera"
    api = made.folder / "java" / "src" / "main" / "java" / "edgec" / "digits" / "Network.java"
    run([javac, "-d", tmp_path, api, camera / "Pixels.java", PROGRAMS / "Turned.java"])
    printed = run(
        [java, "-Xcheck:jni", f"-Djava.library.path={tmp_path}", "-cp", tmp_path, "edgec.digits.camera.Turned"]
    )
    assert "WARNING" not in printed
    assert sum(map(float, printed.split())) == pytest.approx(1, abs=1e-5)
    assert (camera.parents[3] / "assets" / "labels.txt").read_text() == "".join(f"{k}\n" for k in range(10))


def test_syntax_of_what_only_gradle_builds(made: Made) -> None:
    java = need("java", "default-jdk-headless")
    sources = sorted((made.folder / "android").rglob("*.java"))
    assert {s.name for s in sources} == {"CameraActivity.java", "NetworkTest.java", "Pixels.java"}
    run([java, PROGRAMS / "Parse.java", *sources])
    for manifest in (made.folder / "android").rglob("*.xml"):
        ET.parse(manifest)
    scripts = sorted((made.folder / "android").rglob("*.gradle"))
    assert len(scripts) == 4
    parse = "args.each { new groovy.lang.GroovyShell().parse(new File(it)) }"
    run([need("groovy", "groovy"), "-e", parse, *scripts], JAVA_HOME=str(Path(java).resolve().parent.parent))


def test_a_signed_app(tmp_path: Path) -> None:
    """By the distribution's tools: its library uncompressed at a page of 16 KiB, its classes as Dalvik's code."""
    need("javac", "default-jdk-headless"), need("smali", "smali"), need("aapt2", "aapt", "android-framework-res")
    signer, dump = need("apksigner", "apksigner"), need("dexdump", "dexdump")
    edgec.build(DIGITS, tmp_path / "out", name="digits", device="android_arm64", extras=["apk"])
    app = tmp_path / "out" / "android" / "digits.apk"
    assert "Verified using v3 scheme (APK Signature Scheme v3): true" in run([signer, "verify", "-v", app])
    code = run([dump, "-f", app])
    assert "'Ledgec/digits/Network;'" in code and "'Ledgec/digits/Trial;'" in code
    with zipfile.ZipFile(app) as archive, app.open("rb") as file:
        entry = archive.getinfo("lib/arm64-v8a/libdigits_jni.so")
        file.seek(entry.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        assert entry.compress_type == zipfile.ZIP_STORED
        assert (entry.header_offset + 30 + name + extra) % 16384 == 0
        with zipfile.ZipFile(tmp_path / "out" / "android" / "digits.aar") as aar:
            assert archive.read(entry) == aar.read(LIBRARY)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'android' is not for 'x86_64_sse4'") as refused:
        edgec.build(DIGITS, tmp_path / "out", device="x86_64_sse4", extras=["android"])
    assert refused.value.hint and "--abi x86_64" in refused.value.hint
    with pytest.raises(UsageError, match="Android has no ABI 'mips'"):
        edgec.build(DIGITS, tmp_path / "out", device="pixel_8", extras=["android"], abi="mips")
    with pytest.raises(UsageError, match="ABIs are those of an Android library"):
        edgec.build(DIGITS, tmp_path / "out", device="pixel_8", abi="x86_64")
    with pytest.raises(UsageError, match="2 numbers for a picture of 1 channel"):
        odd = Preparation((1.0, 2.0), (1.0,))
        edgec.build(DIGITS, tmp_path / "out", device="pixel_8", extras=["android"], preprocessing=odd)
    assert not (tmp_path / "out").exists()
