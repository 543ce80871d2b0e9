"""Numbers as reports print them, at the ends of their units."""

from __future__ import annotations

from edgec.report.terminal import duration, error_text, number, size, verdict


def test_durations() -> None:
    found = {0.0: "0.0 us", 0.9994: "999.4 us", 1.0: "1.00 ms", 99.994: "99.99 ms", 100.0: "100 ms", 2345.6: "2346 ms"}
    assert {ms: duration(ms) for ms in found} == found


def test_sizes() -> None:
    found = {
        0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", (1 << 20) - 1: "1024.0 KiB", 1 << 20: "1.0 MiB", 3 << 19: "1.5 MiB",
        1 << 30: "1.00 GiB", 1 << 41: "2048.00 GiB",
    }  # fmt: skip
    assert {count: size(count) for count in found} == found


def test_numbers() -> None:
    found = {0: "0", 999: "999", 1000: "1.0 k", -1500: "-1.5 k", 1e6: "1.0 M", 1e9: "1.0 G", 2.5e12: "2500.0 G"}
    assert {count: number(count) for count in found} == found


def test_errors_and_verdicts() -> None:
    assert (error_text(None), error_text(0.00012345)) == ("differs", "1.2e-04")
    assert (verdict(True).plain, verdict(False).plain) == ("ok", "FAILED")
