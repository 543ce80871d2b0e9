"""Help: a short one and a long one, types only where an option takes a value; suggestions for devices."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from edgec.cli.main import app
from edgec.device.load import list_devices, load_device
from edgec.emit.apps import EXTRAS
from edgec.emit.extras import chosen
from edgec.errors import DeviceError, UsageError
from edgec.options import OPTIONS, resolve

RUN = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["build", "check", "bench", "inspect", "device check", "device list", "doctor", "profiles export"]


def flags(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


@pytest.mark.parametrize("words", COMMANDS)
def test_the_short_help_is_a_part_of_the_long_one(words: str) -> None:
    short, long = (RUN.invoke(app, [*words.split(), flag]) for flag in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert flags(short.output) <= flags(long.output) and "--json" in flags(short.output)
    told = re.search(r"--help lists all (\d+) options", short.output)
    assert told is not None
    if words == "build":
        assert len(flags(short.output)) < 0.5 * len(flags(long.output))
        assert {option.long for option in OPTIONS.values()} <= flags(long.output)


@pytest.mark.parametrize("words", ["", "device", "rules", "profiles", *COMMANDS])
def test_flags_have_no_type(words: str) -> None:
    assert "<bool>" not in RUN.invoke(app, [*words.split(), "--help"]).output


def test_completion_is_offered() -> None:
    assert "--install-completion" in RUN.invoke(app, ["--help"]).output


@pytest.mark.parametrize(
    ("word", "meant"),
    [("rpi5", "raspberry_pi_5"), ("pi4", "raspberry_pi_4"), ("m7", "cortex_m7"), ("jetsonnano", "jetson_nano"),
     ("rasberry_pi_5", "raspberry_pi_5"), ("stm32h7", "stm32h743"), ("orin", "jetson_orin_nx")],
)  # fmt: skip
def test_a_device_by_another_name(word: str, meant: str) -> None:
    with pytest.raises(DeviceError, match=f"did you mean .*'{meant}'"):
        load_device(word)


def test_a_device_like_none_is_answered_with_all() -> None:
    with pytest.raises(DeviceError) as refusal:
        load_device("qqq")
    assert all(device.name in str(refusal.value) for device in list_devices())


@pytest.mark.parametrize(
    ("option", "word", "meant"),
    [("precision", "fp23", "fp32"), ("quantize", "itn8", "int8"), ("weights", "incbn", "incbin"),
     ("numeric", "exat", "exact"), ("fuse", "plannr", "planner"), ("observer", "minmx", "minmax"),
     ("corrections", "gtpq", "gptq"), ("place", "atuo", "auto"), ("cache", "int9", "int8"),
     ("prune", "vectr=16", "vector"), ("optimizer", "sdg:lr=0.1", "sgd"), ("loss", "mce", "mse")],
)  # fmt: skip
def test_a_choice_by_another_name(option: str, word: str, meant: str) -> None:
    with pytest.raises(UsageError) as refusal:
        beside = {"quantize": "int8", "calibrate": "random"} if option in ("observer", "corrections") else {}
        resolve({**beside, option: word})
    assert f"did you mean '{meant}'" in str(refusal.value.hint)


def test_every_choice_has_the_same_hint() -> None:
    """Names that are near are found in one place, and no list of choices is printed without them."""
    for file in (ROOT / "edgec").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "get_close_matches" not in text or file.name in ("text.py", "files.py"), file
        assert file.name == "text.py" or "it is one of {', '" not in text, file


@pytest.mark.parametrize(
    ("word", "meant"), [("embeded", "embedded"), ("andriod", "android"), ("pyton", "python"), ("qqq", None)]
)
def test_an_app_or_binding_by_another_name(word: str, meant: str | None) -> None:
    with pytest.raises(UsageError) as refusal:
        chosen([word], load_device("generic"), "net")
    assert refusal.value.hint is not None
    if meant is None:
        assert all(name in refusal.value.hint for name in EXTRAS)
    else:
        assert f"did you mean '{meant}'?" == refusal.value.hint


def test_one_of_a_kind_is_told_without_an_s(tmp_path: Path) -> None:
    """No command speaks of 1 kernels, 1 operators or 1 thread(s): the smallest network, by every text command."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", ports[:1], ports[1:])
    one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(one, tmp_path / "one.onnx")
    model, out = str(tmp_path / "one.onnx"), str(tmp_path / "net")
    for words in (
        ["inspect", model], ["build", model, "-o", out], ["check", model], ["check", model, "--blocks"], ["check", out],
        ["bench", out], ["explain", model, "y"], ["profile", model], ["inspect", out],
    ):  # fmt: skip
        found = RUN.invoke(app, words)
        assert found.exit_code == 0, (words, found.output)
        assert not re.search(r"(?<![\w.,-])1 [a-z]+s\b(?<!pass)|\(s\)", found.output), (words, found.output)
