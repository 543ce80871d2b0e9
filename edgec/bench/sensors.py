"""Sensors of a device, where its system tells them: clock, temperature, power and energy, read by a line of its shell.

Sources, the best first: energy counters of the processor (RAPL, below /sys/class/powercap), power meters (hwmon, which
has INA sensors of boards too), and a battery's voltage times its current (Android). What a device prints is text from
a stranger: lines of another form, and numbers that no sensor can mean, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from edgec.link.base import Link

_FILES = (
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", "/sys/class/thermal/thermal_zone*/temp",
    "/sys/class/hwmon/hwmon*/temp*_input", "/sys/class/hwmon/hwmon*/power*_input",
    "/sys/class/hwmon/hwmon*/in*_input", "/sys/class/hwmon/hwmon*/curr*_input", "/sys/class/hwmon/hwmon*/name",
    "/sys/class/powercap/intel-rapl:[0-9]/energy_uj", "/sys/class/powercap/intel-rapl:[0-9]/max_energy_range_uj",
    "/sys/class/power_supply/*/voltage_now", "/sys/class/power_supply/*/current_now",
    "/sys/class/power_supply/*/type", "/sys/devices/system/cpu/cpu[0-9]*/cpu_capacity",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq",
)  # fmt: skip
#: Prints a line "PATH VALUE" for every sensor that may be read, and the clocks of /proc/cpuinfo.
LINE = (
    f'for f in {" ".join(_FILES)}; do [ -r $f ] && echo "$f $(cat $f 2>/dev/null)"; done; '
    "grep MHz /proc/cpuinfo 2>/dev/null; true"
)
_PATH = re.compile(r"(/sys/[\w/:.\[\]-]{1,200}) ([\w.+-]{1,40})")
_CPUINFO = re.compile(r"cpu MHz\s*:\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)")
#: Power meters that measure a board or a processor: chips of INA, and meters of whole systems.
_METERS = re.compile(r"ina\d+|ina\d+x?|power_meter|amdgpu|scmi_sensors|fam15h_power|macsmc_hwmon|rpi_volt", re.ASCII)


@dataclass(frozen=True)
class Reading:
    """Sensors at one moment; None where the system tells nothing. ``joules`` counts on, anew at ``wraps``."""

    mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    joules: float | None = None
    wraps: float | None = None
    source: str = ""


def read(link: Link) -> Reading:
    """The sensors of a device now. Raises LinkError where it is gone."""
    said = link.shell(LINE)
    return reading(said) if said is not None else Reading()


def reading(said: str) -> Reading:
    """Sensors from what the line of the shell printed."""
    found = _values(said)
    clocks = [k / 1e3 for k in _numbers(found, "/scaling_cur_freq", 1e4, 1e8)]
    clocks = clocks or [float(m[1]) for m in _CPUINFO.finditer(said) if 10 <= float(m[1]) <= 1e5]
    degrees = [
        d / 1e3 for d in (*_numbers(found, "/temp", -5e4, 1.5e5), *_numbers(found, "_input", -5e4, 1.5e5, "/temp"))
    ]
    energy = _numbers(found, "/energy_uj", 0, 1e16)
    wraps = _numbers(found, "/max_energy_range_uj", 1, 1e16)
    watts, source = _power(found)
    return Reading(
        max(clocks) if clocks else None,
        max(degrees) if degrees else None,
        watts,
        sum(energy) / 1e6 if energy else None,
        sum(wraps) / 1e6 if len(wraps) == len(energy) == 1 else None,
        "RAPL" if energy else source,
    )


def _values(said: str) -> dict[str, str]:
    """Values by the paths of their files."""
    lines = map(_PATH.fullmatch, map(str.strip, said.splitlines()))
    return {m[1]: m[2] for m in lines if m is not None}


def _power(found: dict[str, str]) -> tuple[float | None, str]:
    """Watts and their source: a power meter, voltage times current of one, or of the battery."""
    meters = {p.rpartition("/")[0]: n for p, n in found.items() if p.endswith("/name") and _METERS.fullmatch(n)}
    for folder, name in meters.items():
        own = {p: v for p, v in found.items() if p.startswith(f"{folder}/")}
        if direct := _numbers(own, "_input", 1, 1e9, "/power"):
            return sum(direct) / 1e6, name
        volts, amperes = _numbers(own, "_input", 1, 1e5, "/in"), _numbers(own, "_input", 0, 1e6, "/curr")
        if volts and len(volts) >= len(amperes) > 0:
            return sum(v * a for v, a in zip(volts, amperes)) / 1e6, name
    for path, kind in found.items():
        folder = path.rpartition("/")[0]
        if path.endswith("/type") and kind == "Battery":
            own = {p: v for p, v in found.items() if p.startswith(f"{folder}/")}
            volts, amperes = _numbers(own, "/voltage_now", 1e5, 1e8), _numbers(own, "/current_now", -1e8, 1e8)
            if volts and amperes and amperes[0]:
                return volts[0] * abs(amperes[0]) / 1e12, "battery"
    return None, ""


def _numbers(found: dict[str, str], end: str, low: float, high: float, inside: str = "") -> list[float]:
    """Values of the files whose path ends so, in the order of their names, as far as a sensor can mean them."""
    names = sorted(p for p in found if p.endswith(end) and (inside in p.rpartition("hwmon")[2]))
    values = (float(found[p]) for p in names if re.fullmatch(r"-?[0-9]{1,18}", found[p]))
    return [v for v in values if low <= v <= high]


def clusters(link: Link) -> list[tuple[int, ...]]:
    """Cores of a device by their speed, the fastest first: one group where all are equal or nothing is told."""
    said = link.shell(LINE) or ""
    found = _values(said)
    for end in ("/cpu_capacity", "/cpufreq/cpuinfo_max_freq"):
        groups: dict[int, list[int]] = {}
        for path, value in found.items():
            core = re.fullmatch(rf"/sys/devices/system/cpu/cpu([0-9]{{1,4}}){end}", path)
            if core is not None and re.fullmatch("[0-9]{1,12}", value):
                groups.setdefault(int(value), []).append(int(core[1]))
        if groups:
            return [tuple(sorted(cores)) for _, cores in sorted(groups.items(), reverse=True)]
    return []


def joules_between(before: Reading, after: Reading, seconds: float) -> float | None:
    """Energy of a time from counters, else from the mean of the power at both ends; None where nothing is told."""
    if before.joules is not None and after.joules is not None:
        spent = after.joules - before.joules
        if spent < 0 and after.wraps is not None:
            spent += after.wraps
        return spent if 0 <= spent < 1e5 * max(seconds, 1e-3) else None
    watts = [r.watts for r in (before, after) if r.watts is not None]
    return mean(watts) * seconds if watts else None


def hidden(readings: Sequence[Reading]) -> list[str]:
    """Figures that the system does not tell, in words."""
    names = {"the clock": "mhz", "the temperature": "celsius"}
    found = [what for what, key in names.items() if all(getattr(r, key) is None for r in readings)]
    if all(r.watts is None and r.joules is None for r in readings):
        found.append("power")
    return found
