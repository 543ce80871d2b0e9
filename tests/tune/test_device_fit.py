"""Fitting the costs of a device: a device whose kernels take what formulas say is found again, others are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from chance import RANDOM

from edgec.build import Built
from edgec.cli.main import main
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.errors import LinkError, UsageError
from edgec.fuse.choice import fingerprint
from edgec.fuse.cost_model import CostModel
from edgec.schedule.variants import Variants
from edgec.tune.fit import fit, timing
from edgec.tune.fit.fit import Fitted, fit_device
from edgec.tune.fit.formulas import KINDS, with_constants
from edgec.tune.fit.kernels import batches, cases_for, limits
from edgec.tune.fit.least_squares import scanned, solve
from edgec.tune.fit.record import Record

#: Constants of the machine that the tests find again.
TRUE = {
    ("kernel", "launch_s"): 5e-7, ("kernel", "cache_bytes"): 9.0, ("kernel", "memory_bytes"): 2.0,
    ("peak_share", "contract"): 0.5, ("peak_share", "attention"): 0.3, ("peak_share", "window"): 0.2,
    ("peak_share", "row"): 0.1, ("peak_share", "map"): 0.05, ("peak_share", "procedure"): 0.01,
    ("register_tile", "l2_vector"): 6.0, ("register_tile", "tile"): 60.0, ("register_tile", "store"): 9.0,
}  # fmt: skip


class Fake:
    """A device whose kernels take the time that the formulas give with constants of its own."""

    def __init__(self, device: Device) -> None:
        self.true = with_constants(device, list(TRUE), np.array(list(TRUE.values())))
        self.networks = 0
        self.lose_after = 10**6
        self.change: Any = lambda times: times

    @contextmanager
    def connect(self, built: Built, link: str, *_: object, **__: object) -> Iterator[Any]:
        self.networks += 1
        if self.networks > self.lose_after:
            raise LinkError("the cable was pulled", where="fake")
        times = self.change([round(1e9 * s) for s in self.seconds(built)])
        yield SimpleNamespace(link=SimpleNamespace(name="fake"), run=lambda *_: None, kernels=tuple(times))

    def seconds(self, built: Built) -> Iterator[float]:
        variants = built.stages.context.variants
        assert isinstance(variants, Variants)
        products = {fingerprint(p.block): p for p in variants.seen.values()}
        for kernel in built.program.kernels:
            block = kernel.main.block
            price = 1e-6 if block is None else CostModel(self.true)(block)
            product = products.get(fingerprint(block)) if block is not None else None
            cycles = product.tiles()(self.true) if product is not None else {}
            # A tile costs what its cycles are over those of the best one.
            own = cycles.get(str(kernel.main.schedule.variant))
            yield price if own is None else price * own / min(cycles.values())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake(load_device("x86_64_avx2"))
    monkeypatch.setattr(timing, "connect", made.connect)
    monkeypatch.setattr(timing, "cases_for", lambda device: cases_for(device, 64))
    return made


def fitted(folder: Path, **more: Any) -> Fitted:
    return fit_device(load_device("x86_64_avx2"), folder / "found.toml", link="local", **more)


def test_a_device_is_found_again(fake: Fake, tmp_path: Path) -> None:
    done = fitted(tmp_path)
    assert done.kernels > 80 and 8 < done.held_out < done.kernels / 3 and done.left == 0
    assert done.after.median < 0.05 < done.before.median and done.after.ninth < 0.3 < done.before.ninth
    assert done.after.tiles is not None and done.after.tiles < 0.02
    device = load_device(done.file)
    assert device.bases == ("x86_64_avx2", *load_device("x86_64_avx2").bases)
    prices, true = CostModel(device).rates, CostModel(fake.true).rates
    for kind in KINDS:
        if f"peak_share.{kind}" not in done.kept:
            assert prices.operation[kind] == pytest.approx(true.operation[kind], rel=0.15), kind
    assert (prices.launch, prices.near, prices.far) == pytest.approx((true.launch, true.near, true.far), rel=0.15)
    assert max(device.costs.peak_share.contract, device.costs.peak_share.window) == pytest.approx(0.9, rel=1e-3)


def test_no_prior_is_needed(fake: Fake, tmp_path: Path) -> None:
    """Constants that are off by anything before are the same after."""
    wrong = with_constants(load_device("x86_64_avx2"), list(TRUE), np.ones(len(TRUE)))
    wrong = replace(wrong, costs=replace(wrong.costs, kernel=replace(wrong.costs.kernel, launch_s=1e-6)))
    found = [fit_device(d, tmp_path / f"{k}.toml", link="local") for k, d in enumerate((fake.true, wrong))]
    rates = [CostModel(load_device(f.file)).rates for f in found]
    for kind in ("contract", "row", "map"):
        assert rates[0].operation[kind] == pytest.approx(rates[1].operation[kind], rel=0.1)
    assert rates[0].near == pytest.approx(rates[1].near, rel=0.1)


def test_the_file_says_when_by_what_and_how_well(fake: Fake, tmp_path: Path) -> None:
    done = fitted(tmp_path)
    text = done.file.read_text()
    assert f"Fitted by edgec 0.1.0 on {done.on} to times of {done.kernels} kernels of 'x86_64_avx2' (local)." in text
    assert f"On {done.held_out} kernels left out" in text and "\n[costs.peak_share]\n" in text


def test_it_goes_on_after_a_failure(fake: Fake, tmp_path: Path) -> None:
    fake.lose_after = 4
    with pytest.raises(LinkError, match="cable"):
        fitted(tmp_path)
    assert not (tmp_path / "found.toml").exists()
    record = tmp_path / "found.times.jsonl"
    before = record.read_text().splitlines()
    record.write_text("\n".join([*before, '{"seconds": {"cut']))  # written when the power went
    fake.lose_after, begun = 10**6, fake.networks
    done = fitted(tmp_path)
    first = fake.networks - begun
    fake.networks = 0
    (tmp_path / "found.toml").unlink()
    again = fitted(tmp_path)
    assert fake.networks == 0 < first and again.costs == done.costs


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t[:-1], "tells the times of"),
        (lambda t: [*t, 1], "tells the times of"),
        (lambda t: [-1 for _ in t], "no time that a kernel can take"),
        (lambda t: [0 for _ in t], "no time that a kernel can take"),
        (lambda t: [10**17 for _ in t], "no time that a kernel can take"),
    ],
)
def test_devices_that_lie(fake: Fake, tmp_path: Path, change: Any, said: str) -> None:
    fake.change = change
    with pytest.raises(LinkError, match=said):
        fitted(tmp_path)


def test_some_times_may_be_lost(fake: Fake, tmp_path: Path) -> None:
    fake.change = lambda times: [-5 if k % 7 == 3 else t for k, t in enumerate(times)]
    assert fitted(tmp_path).after.median < 0.05


def test_nothing_is_overwritten(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "found.toml").write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        fitted(tmp_path)
    assert (tmp_path / "found.toml").read_text() == "mine" and fake.networks == 0
    with pytest.raises(UsageError, match=r"ends in \.toml"):
        fit_device(load_device("x86_64_avx2"), tmp_path / "found.txt")


def test_too_little_time_is_said(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kernels were timed") as caught:
        fitted(tmp_path, seconds=0.0)
    assert "goes on behind" in str(caught.value)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"edgec_fit": 2}', '{"edgec_fit": 1, "target": "t"}'])
def test_other_records_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.times.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match="record"):
        Record.opened(path, "another")


def test_a_record_holds_times_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.times.jsonl"
    Record.opened(path, "t").add({"a": 1e-3})
    with path.open("a") as file:
        file.write(
            '\n{"seconds": {"b": -1, "c": "1", "d": true, "e": NaN, "f": 1e9, "g": null, "h": 2e-3}}\n{"seconds": 3}\n'
        )
    assert Record.opened(path, "t").seconds == {"a": 1e-3, "h": 2e-3}


def test_a_fit_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few kernels, compiled and timed, by the command; the second call refuses to overwrite."""
    monkeypatch.setattr(timing, "cases_for", lambda device: cases_for(device, 10))
    monkeypatch.setattr(timing, "NEAR", 1)
    monkeypatch.setattr(timing, "ANY", 0)
    monkeypatch.setattr(fit, "FEWEST", 5)
    words = ["device", "fit", "generic", "-o", str(tmp_path / "here.toml"), "--json"]
    with pytest.raises(SystemExit) as end:
        main(words)
    found = json.loads(capsys.readouterr().out)
    assert end.value.code == 0 and found["kernels"] >= 10 and found["device"] == "generic"
    assert load_device(tmp_path / "here.toml").costs != load_device("generic").costs
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "there already" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["host", "mps2_an386", "cortex_m33", "generic_opencl", "wasm32", "raspberry_pi_4"])
def test_kernels_fit_the_device(name: str) -> None:
    device = load_device(name)
    most_bytes, most_operations, room = limits(device)
    cases = cases_for(device)
    assert len(cases) == 120 == len({c.name for c in cases})
    assert [c.name for c in cases_for(device)] == [c.name for c in cases]
    assert all(c.bytes <= most_bytes and c.operations <= most_operations for c in cases)
    for batch in batches(cases, device):
        assert sum(c.bytes for c in batch) <= room
    kinds = {c.name.partition(" ")[0] for c in cases}
    assert kinds >= {"product", "convolution", "depthwise", "row", "map", "copy", "attention", "computed", "tiny"}
    assert ("procedure" in kinds) is not device.is_gpu


def test_least_squares() -> None:
    """Constants of a formula with a maximum, with outliers; one that nothing depends on stays."""
    a, b = RANDOM.uniform(1, 100, 400), RANDOM.uniform(1, 100, 400)
    true = np.array([5.0, 0.3, 7.0])
    measured = np.log(true[0] + np.maximum(true[1] * a, 0.5 * b)) + RANDOM.normal(0, 0.01, 400)
    measured[::32] += 2.0
    measured[1::32] -= 2.0

    def residuals(c: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(c[0] + np.maximum(c[1] * a, 0.5 * b)) - measured)

    near, felt = scanned(residuals, np.array([5000.0, 1e-4, 7.0]))
    assert felt.tolist() == [True, True, False]
    found, _ = solve(residuals, near)
    np.testing.assert_allclose(found, true, rtol=0.1)
