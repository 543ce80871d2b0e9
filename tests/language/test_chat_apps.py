"""Chat samples of language models: a program for a Raspberry Pi, run here, and a page's module, run in Node.js."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from gguf_files import llama
from needed import need
from talking_model import compiled_with_less_optimization
from test_tokenizer import metadata

import edgec
from benchmarks.boards.browser import Browser, served
from edgec.device.load import load_device
from edgec.device.toolchain import compile_shared, pick_compiler
from edgec.emit.apps import APPS
from edgec.errors import UsageError

CONTEXT = 96
PROGRAMS = Path(__file__).parents[1] / "apps" / "programs"
#: A message is sent on the page; the lines of the conversation when the answer has come.
PAGE = """
const element = (id) => document.getElementById(id);
const until = async (test) => { while (!test()) await new Promise((resume) => setTimeout(resume, 20)); };
await until(() => element("status").textContent === "ready");
element("text").value = given[0];
element("form").requestSubmit();
await until(() => element("status").textContent.startsWith("first"));
return [...document.querySelectorAll("#messages li")].map((row) => row.textContent);
"""
#: As ChatML, in a few tokens.
TEMPLATE = "{% for m in messages %}{{ '[' + m['role'][0] + m['content'] + '</s>' }}{% endfor %}{{ '[a' }}"
SAID = ("hello", "\u20ac", "and\u00a0</s>?")


def model_file(folder: Path, template: str | None = TEMPLATE) -> Path:
    path = folder / "lm.gguf"
    more = metadata() | ({} if template is None else {"tokenizer.chat_template": template})
    path.write_bytes(llama("Q4_0", 1, vocabulary=262, **more))
    return path


def answers(folder: Path, pieces: int | None, lines: tuple[str, ...] = SAID) -> list[str]:
    """The same conversation in Python; ``pieces`` are the characters after which an answer is left."""
    messages = [{"role": "system", "content": "be"}]
    with edgec.load(folder) as model:
        for line in lines:
            messages.append({"role": "user", "content": line})
            text = ""
            for piece in model.chat(messages, temperature=0):
                text += piece
                if pieces is not None and len(text) >= pieces:
                    break
            messages.append({"role": "assistant", "content": text})
    return [m["content"] for m in messages if m["role"] == "assistant"]


def test_on_a_pi(tmp_path: Path) -> None:
    """Lines in, streamed answers out; the last one runs to the end of the context, and the next line does not fit."""
    need("cmake", "cmake")
    out = tmp_path / "lm"
    with compiled_with_less_optimization():
        edgec.build(model_file(tmp_path), out, context=CONTEXT, name="lm", extras=["pi"], threads=2)
    made = ["-S", out / "pi", "-B", out / "pi" / "build", "-DCMAKE_BUILD_TYPE=Debug"]
    made.append("-DCMAKE_C_FLAGS=-Werror -fsanitize=address,undefined -fno-sanitize=null,object-size")
    subprocess.run(["cmake", *made], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", out / "pi" / "build", "--target", "lm_chat"], check=True, capture_output=True)
    program = out / "pi" / "build" / "lm_chat"
    want = answers(out, None, SAID[:1])[0]
    done = subprocess.run(
        [program, "-t", "2", "-s", "be"], input=f"{SAID[0]}\n{'x' * CONTEXT}\n", capture_output=True, text=True
    )
    # Without optimization sums are rounded otherwise, so a long text may come to another choice in the end.
    assert done.stdout[:20] == want[:20] and done.stdout.endswith("\n") and "a second]" in done.stderr
    assert done.returncode == 1 and f"longer than {CONTEXT} tokens" in done.stderr
    long = subprocess.run([program], input="x" * 9000 + "\n", capture_output=True, text=True)
    assert long.returncode == 1 and "more than 8190 bytes" in long.stderr
    empty = subprocess.run([program, "-T", "1", "-S", "3"], input="", capture_output=True, text=True)
    assert (empty.returncode, empty.stdout) == (0, "")
    assert subprocess.run([program, "-x"], capture_output=True).returncode == 2


def test_in_a_page(tmp_path: Path) -> None:
    """Three turns in Node.js, each answer left after a few characters, and one in a browser: as in Python."""
    program, out = need("node", "nodejs"), tmp_path / "lm"
    path = model_file(tmp_path)
    with compiled_with_less_optimization():
        with pytest.raises(UsageError, match="a conversation in a page has one thread"):
            edgec.build(path, out, context=CONTEXT, name="lm", device="wasm32", extras=["web"], threads=2)
        edgec.build(path, out, context=CONTEXT, name="lm", device="wasm32", extras=["web"])
    assert (out / "web" / "index.html").is_file() and (out / "web" / "page.js").is_file()
    here = tmp_path / "here"
    with compiled_with_less_optimization():
        edgec.build(path, here, context=CONTEXT, name="lm", device="generic")
    words = [program, PROGRAMS / "chat.mjs", out / "web", "lm", "be", *SAID, "x" * CONTEXT]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [*answers(here, 12), "the conversation is longer than the context"]
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    with edgec.load(here) as model:
        want = model.chat([{"role": "user", "content": SAID[0]}], temperature=0).text()
    with served(out / "web") as address, Browser() as browser:
        browser.open(address)
        said, answer = browser.run(PAGE, SAID[0])
    assert said == SAID[0] and len(want) > 5 and answer[:5] == want[:5]


def test_in_java(tmp_path: Path) -> None:
    """Three turns through JNI, each answer left after a few characters: as in Python."""
    javac, java = need("javac", "default-jdk-headless"), need("java", "default-jdk-headless")
    home, out = Path(javac).resolve().parent.parent, tmp_path / "lm"
    with compiled_with_less_optimization():
        edgec.build(model_file(tmp_path), out, context=CONTEXT, name="lm", threads=2, extras=["java"])
        device = load_device("host")
        sources = [*out.glob("lm*.c"), *out.glob("ec_*.c"), *out.glob("lm*.S"), out / "java" / "lm_jni.c"]
        include = [out, home / "include", home / "include" / "linux"]
        compile_shared(pick_compiler(device), device, sources, tmp_path / "liblm_jni.so", include=include)
    classes = [*(out / "java").rglob("*.java"), PROGRAMS / "Talk.java"]
    subprocess.run([javac, "-d", tmp_path, *classes], check=True, capture_output=True)
    command = [java, "-Xcheck:jni", "-Dfile.encoding=UTF-8", f"-Djava.library.path={tmp_path}", "-cp", tmp_path, "Talk"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run([*command, "12", "be", *SAID, "x" * CONTEXT], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode()
    assert "WARNING" not in said
    assert said.split("\0")[:-1] == [*answers(out, 12), "longer than the context"]


def test_an_android_app(tmp_path: Path) -> None:
    """A chat app beside the module, whose library is linked for a phone; a model without a template has the module."""
    java = need("java", "default-jdk-headless")
    out = tmp_path / "lm"
    with compiled_with_less_optimization():
        edgec.build(model_file(tmp_path), out, context=CONTEXT, name="lm", device="pixel_8", extras=["android"])
    with zipfile.ZipFile(out / "android" / "lm.aar") as aar:
        with zipfile.ZipFile(BytesIO(aar.read("classes.jar"))) as jar:
            assert set(jar.namelist()) == {"edgec/lm/Network.class", "edgec/lm/Conversation.class"}
        assert b"edgec.lm.Conversation" in aar.read("proguard.txt")
        assert b"edgec/lm/Conversation" in aar.read("jni/arm64-v8a/liblm_jni.so")
    sources = sorted((out / "android").rglob("*.java"))
    assert {s.name for s in sources} == {"ChatActivity.java", "NetworkTest.java"}
    subprocess.run([java, PROGRAMS / "Parse.java", *sources], check=True, capture_output=True)
    ET.parse(out / "android" / "chat" / "src" / "main" / "AndroidManifest.xml")
    scripts = sorted((out / "android").rglob("*.gradle"))
    parse = "args.each { new groovy.lang.GroovyShell().parse(new File(it)) }"
    home = {**os.environ, "JAVA_HOME": str(Path(java).resolve().parent.parent)}
    subprocess.run([need("groovy", "groovy"), "-e", parse, *scripts], check=True, capture_output=True, env=home)
    assert "include ':chat'" in (out / "android" / "settings.gradle").read_text()
    plain = tmp_path / "plain"
    edgec.build(model_file(tmp_path, None), plain, context=CONTEXT, device="pixel_8", extras=["android"], compile=False)
    assert (
        not (plain / "android" / "chat").exists() and "chat" not in (plain / "android" / "settings.gradle").read_text()
    )


def test_on_a_jetson(tmp_path: Path) -> None:
    """Two turns, kernels emulated; the first answer begins as on a processor, where sums are added in other orders."""
    out, here = tmp_path / "lm", tmp_path / "here"
    path = model_file(tmp_path)
    edgec.build(path, out, context=CONTEXT, name="lm", device="jetson", extras=["jetson"], compile=False)
    with compiled_with_less_optimization():
        edgec.build(path, here, context=CONTEXT, name="lm", device="generic")
    plain = [*out.glob("ec_*.c"), out / "lm_conversation.c", out / "jetson" / "main.c"]
    flags = ["-O0", "-Wall", "-Wextra", "-Werror", f"-I{out}"]
    for source in plain:
        command = ["gcc", "-std=c11", *flags, "-c", source, "-o", tmp_path / f"{source.stem}.o"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]
    kernels = ["-DEC_ON_CPU", "-Wno-unknown-pragmas", "-x", "c++", *out.glob("*.cu"), "-x", "none"]
    linked = [out / "lm_weights.S", out / "lm_tokens.S", *tmp_path.glob("*.o"), "-o", tmp_path / "chat"]
    done = subprocess.run(["g++", "-std=c++17", *flags, *kernels, *linked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    ran = subprocess.run(
        [tmp_path / "chat", "-s", "be"], input=f"{SAID[0]}\n{'x' * CONTEXT}\n", capture_output=True, text=True
    )
    want = answers(here, None, SAID[:1])[0]
    assert len(want) > 2 and ran.stdout[:20].rstrip("\n") == want[:20].rstrip("\n")
    assert ran.returncode == 1 and f"longer than {CONTEXT} tokens" in ran.stderr
    assert "lm_tokens.S" in (out / "CMakeLists.txt").read_text()


#: Of every app, a device that it is for, and what a model gets with a chat template and without one: a file of its
#: sample, or the words in which it is refused.
MATRIX = {
    "android": ("pixel_8", "android/chat/build.gradle", "android/lm/build.gradle"),
    "apk": ("pixel_8", "no sample for language models", "no sample for language models"),
    **dict.fromkeys(
        ("arduino", "platformio", "zephyr", "cmsis-pack"), ("mps2_an500", *["no sample for language models"] * 2)
    ),
    "esp-idf": ("esp32s3", *["no sample for language models"] * 2),
    "embedded": ("mps2_an500", "embedded/main.c", "embedded/main.c"),
    "gstreamer": ("raspberry_pi_5", *["no sample for language models"] * 2),
    "onnxruntime": ("raspberry_pi_5", *["no sample for language models"] * 2),
    "ros2": ("raspberry_pi_5", *["no sample for language models"] * 2),
    "jetson": ("jetson", "jetson/main.c", "talks by a chat template in C"),
    "pi": ("raspberry_pi_5", "pi/main.c", "talks by a chat template in C"),
    "web": ("wasm32", "web/page.js", "talks by a chat template in C"),
}


def test_every_app(tmp_path: Path) -> None:
    assert set(MATRIX) == set(APPS)
    for number, template in enumerate((TEMPLATE, None)):
        path = model_file(tmp_path, template)
        for app, cells in MATRIX.items():
            expected, out = cells[1 + number], tmp_path / f"{app}{number}"
            try:
                edgec.build(path, out, context=64, name="lm", device=cells[0], extras=[app], compile=False)
            except UsageError as error:
                assert "/" not in expected and expected in error.message and error.hint, (app, template, error)
                continue
            assert (out / expected).is_file(), (app, template)
            assert template is not None or not any("chat" in f.name.lower() for f in out.rglob("*")), app


@pytest.mark.parametrize(
    ("template", "app", "message"),
    [
        (None, "pi", "has no form for it: it has none"),
        ("{{ messages[0]['content'] | upper }}", "pi", "not constant in the order user"),
        (TEMPLATE, "jetson", "is for networks in CUDA"),
        (TEMPLATE, "embedded", "is not for"),
    ],
)
def test_refused(template: str | None, app: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        edgec.build(model_file(tmp_path, template), tmp_path / "lm", context=64, extras=[app], compile=False)
    assert not (tmp_path / "lm").exists()
