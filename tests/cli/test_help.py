"""Help: a short one and a long one, types only where an option takes a value; suggestions for devices."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from edgec.cli.main import app
from edgec.device.load import list_devices, load_device
from edgec.emit.extras import EXTRAS, chosen
from edgec.errors import DeviceError, UsageError
from edgec.options import OPTIONS

RUN = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
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
