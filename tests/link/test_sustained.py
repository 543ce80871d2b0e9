"""Networks at work for minutes: sensors as systems tell them, links that lie, the command and its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from links import DIGITS, random_picture

import edgec
from edgec.bench import sustained as work
from edgec.bench.remote import Remote
from edgec.bench.sensors import Reading, clusters, joules_between, reading
from edgec.build import Built
from edgec.cli.main import main
from edgec.errors import LinkError, UsageError
from edgec.link.local import Local
from edgec.progress import silent
from edgec.report import sustained as report

CPU = "/sys/devices/system/cpu"
PHONE = f"""\
{CPU}/cpu0/cpufreq/scaling_cur_freq 1800000
{CPU}/cpu7/cpufreq/scaling_cur_freq 2800000
/sys/class/thermal/thermal_zone0/temp 41500
/sys/class/thermal/thermal_zone9/temp 63000
/sys/class/power_supply/battery/voltage_now 4000000
/sys/class/power_supply/battery/current_now -500000
/sys/class/power_supply/battery/type Battery
{CPU}/cpu0/cpu_capacity 300
{CPU}/cpu1/cpu_capacity 300
{CPU}/cpu7/cpu_capacity 1024
"""
JETSON = """\
/sys/class/hwmon/hwmon1/name ina3221
/sys/class/hwmon/hwmon1/in1_input 5000
/sys/class/hwmon/hwmon1/in2_input 5000
/sys/class/hwmon/hwmon1/curr1_input 900
/sys/class/hwmon/hwmon1/curr2_input 100
/sys/class/hwmon/hwmon0/name thermal-fan-est
/sys/class/hwmon/hwmon0/temp1_input 51000
"""
LAPTOP = """\
/sys/class/powercap/intel-rapl:0/energy_uj 5000000
/sys/class/powercap/intel-rapl:0/max_energy_range_uj 262143328850
cpu MHz\t\t: 2100.000
cpu MHz\t\t: 3400.500
"""


def test_sensors_of_systems() -> None:
    phone, jetson, laptop = reading(PHONE), reading(JETSON), reading(LAPTOP)
    assert phone == Reading(2800.0, 63.0, 2.0, None, None, "battery")
    assert jetson == Reading(None, 51.0, 5.0, None, None, "ina3221")
    assert (laptop.mhz, laptop.joules, laptop.source, laptop.celsius) == (3400.5, 5.0, "RAPL", None)
    direct = reading("/sys/class/hwmon/hwmon2/name ina226\n/sys/class/hwmon/hwmon2/power1_input 1500000\n")
    assert (direct.watts, direct.source) == (1.5, "ina226")


@pytest.mark.parametrize(
    "said",
    [
        "", "\0\xff", "/sys/class/thermal/thermal_zone0/temp", "/sys/class/thermal/thermal_zone0/temp nan",
        "/sys/class/thermal/thermal_zone0/temp 999999999", f"{CPU}/cpu0/cpufreq/scaling_cur_freq -5",
        "/etc/passwd 5", "/sys/class/powercap/intel-rapl:0/energy_uj 1e9", "cpu MHz : inf", "x" * 100_000,
        "/sys/class/power_supply/battery/type Battery\n/sys/class/power_supply/battery/current_now 5",
    ],
)  # fmt: skip
def test_what_no_sensor_means_is_left_out(said: str) -> None:
    assert reading(said) == Reading()


def test_energy_between_two_readings() -> None:
    assert joules_between(Reading(joules=3.0), Reading(joules=8.0), 1.0) == 5.0
    assert joules_between(Reading(joules=90.0), Reading(joules=10.0, wraps=100.0), 1.0) == 20.0
    assert joules_between(Reading(joules=90.0), Reading(joules=10.0), 1.0) is None
    assert joules_between(Reading(watts=2.0), Reading(watts=4.0), 2.0) == 6.0
    assert joules_between(Reading(), Reading(), 2.0) is None


class Told(Local):
    """This machine, with the sensors of another."""

    said = PHONE

    def shell(self, line: str) -> str | None:
        return self.said


@pytest.fixture(scope="module")
def built() -> Built:
    return edgec.build(DIGITS, device="generic", threads=2, compile=False)


def remote(built: Built) -> Remote:
    return Remote(built, Told("fake"), progress=silent)


def test_minutes(built: Built) -> None:
    found = work.sustained(remote(built), random_picture(), 2.0, silent, minute_s=0.3)
    assert len(found.minutes) == 2 and found.hidden == [] and found.power_source == "battery"
    for m in found.minutes:
        assert m.runs > 3 and 0 < m.median_ms <= m.p99_ms and (m.mhz, m.celsius, m.watts) == (2800.0, 63.0, 2.0)
        assert m.joules is not None and m.joules >= 2.0 * m.median_ms / 1e3 * 0.5
    assert found.slowdown == pytest.approx(found.minutes[1].median_ms / found.minutes[0].median_ms)


def test_a_sweep_takes_the_quickest(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "TRIAL", 0.05)
    on = remote(built)
    assert clusters(on.link) == [(7,), (0, 1)]
    found = work.sustained(on, random_picture(), 1.0, silent, sweep=True, minute_s=0.1)
    tried = {(p.threads, p.cores) for p in found.placements}
    # Core 7 is not there: the placement on it is left out, those on cores of this machine are timed.
    assert {(1, ()), (1, (0,))} <= tried and (1, (7,)) not in tried
    best = min(found.placements, key=lambda p: p.median_ms)
    assert (found.threads, found.cores) == (best.threads, best.cores)


def test_hidden_sensors_are_said(built: Built) -> None:
    on = remote(built)
    on.link.said = None  # type: ignore[attr-defined]
    found = work.sustained(on, random_picture(), 0.01, silent)
    assert found.hidden == ["the clock", "the temperature", "power"] and found.minutes[0].joules is None


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), 1e6])
def test_no_time_is_refused(minutes: float) -> None:
    with pytest.raises(UsageError, match="more than 0 minutes"):
        work.bench_for_minutes(DIGITS, minutes, device="generic")


def test_impossible_times(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    on = remote(built)
    ran: Any = type("Ran", (), {"nanoseconds": np.zeros(3, np.int64)})
    monkeypatch.setattr(on, "run", lambda *_: [ran])
    with pytest.raises(LinkError, match="no time"):
        work.sustained(on, random_picture(), 0.001, silent)


def test_the_command_and_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "work.html"
    words = ["device", "bench", str(DIGITS), "--device", "generic", "--minutes", "0.005", "-o", str(page)]
    with pytest.raises(SystemExit) as end:
        main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert end.value.code == 0 and found["command"] == "device bench" and len(found["minutes"]) == 1
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text and "median latency" in text and "Minute by minute" in text
    for wrong in ([*words], ["device", "bench", str(DIGITS), "--sweep"]):
        with pytest.raises(SystemExit) as end:
            main(wrong)
        assert end.value.code == 2
    capsys.readouterr()


def test_charts_hold_what_is_known_of_every_minute() -> None:
    minute = {"median_ms": 2.0, "p99_ms": 3.0, "mhz": None, "celsius": 50.0, "watts": None, "joules": None}
    made = report.charts([minute, {**minute, "median_ms": 4.0, "celsius": None}])
    assert [c["name"] for c in made] == ["median latency, ms", "99th percentile, ms"]
    low, high = made[0]["points"]
    assert high["y"] < low["y"] and high["x"] > low["x"]
