"""Predicted times: the coordinator handles one message at a time, and what it adds takes time as well."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from small_graphs import clip

from edgec.distribute.choose import FLYING, priced
from edgec.distribute.links import ADDED, HANDLING, Handled, Links, links_of
from edgec.distribute.parts import Division, Part, Read
from edgec.distribute.places import Speed, places_of
from edgec.distribute.timeline import Input, Job, Output, predict
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type

SIZE = 1_000_000
FREE = Speed(inf, 0.0)


def links(workers: int, hub: Speed, worker: Speed = FREE, wire: Speed | None = None, **more: object) -> Links:
    return replace(Links((wire,) * workers, (worker,) * workers, hub), **more)  # type: ignore[arg-type]


def layer(workers: int) -> list[Job]:
    """Shares of one sum, each on a worker of its own, and a part that reads it."""
    shares = [Job(w, 0.01, SIZE, SIZE, (), SIZE if w else 0) for w in range(workers)]
    return [*shares, Job(0, 0.005, SIZE, SIZE, tuple(range(workers)))]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_messages_of_all_workers_pass_the_coordinator(workers: int) -> None:
    hub = Speed(1e9, 1e-4)
    one = 1e-4 + SIZE / 1e9
    # Shares are sent one after the other, and come back so: the last one waits for the additions before it.
    expected = workers * one + 0.01 + one + (workers - 1) * SIZE / ADDED + one + 0.005 + one
    found = predict(layer(workers), links(workers, hub), 1)
    assert found.latency_s == pytest.approx(expected, rel=1e-9)
    assert found.bytes_a_frame == 2 * (workers + 1) * SIZE


def test_workers_take_time_for_messages_too() -> None:
    job = Job(0, 0.01, SIZE, SIZE, ())
    worker = Speed(2e9, 2e-4)
    found = predict([job], links(1, FREE, worker), 1)
    assert found.latency_s == pytest.approx(0.01 + 2 * (2e-4 + SIZE / 2e9))
    assert found.period_s >= found.latency_s * 0.999


def test_no_period_is_shorter_than_the_work_of_the_machine() -> None:
    jobs = [Job(w, 0.01, SIZE, SIZE, (w - 1,) if w else ()) for w in range(3)]
    hub = Speed(1e9, 0.0)
    free = predict(jobs, links(3, hub), 6).period_s
    assert free == pytest.approx(0.01, rel=0.1)
    two = predict(jobs, links(3, hub, cores=2.0), 6).period_s
    assert two == pytest.approx((3 * 0.01 + 6 * SIZE / 1e9) / 2)
    slow = Speed(1e8, 0.0)
    assert predict(jobs, links(3, slow), 6).period_s >= 6 * SIZE / 1e8


def test_a_wire_elsewhere_is_shared_in_each_direction() -> None:
    jobs = [Job(w, 0.0, SIZE, 0, ()) for w in range(3)]
    wire = Speed(1e8, 1e-3)
    far = links_of(places_of(["host@ssh:a", "host@ssh:b", "host@ssh:c"]), [wire] * 3)
    alone = predict(jobs[:1], far, 1).latency_s
    assert predict(jobs, far, 1).latency_s == pytest.approx(alone + 2 * SIZE / 1e8, rel=0.01)
    assert far.shared == wire and far.cores == inf


def test_links_here_are_those_that_were_measured() -> None:
    here = Handled(Speed(1e9, 1e-4), Speed(3e9, 4e-5))
    places = places_of(["host@local", "host@ssh:a"])
    mixed = links_of(places, [here.whole, Speed(1e8, 1e-3)], here, 2.0)
    assert mixed.wires == (None, Speed(1e8, 1e-3)) and mixed.hub == here.hub and mixed.cores == inf
    assert mixed.workers[1] == HANDLING and mixed.workers[0].latency_s == pytest.approx(6e-5)
    given = links_of(places[:1], [Speed(1e8, 1e-3)], None, 2.0)
    assert given.wires == (Speed(1e8, 1e-3),) and given.hub == HANDLING and given.cores == 2.0


def test_a_frame_costs_the_coordinator_time_beside_its_messages() -> None:
    job = Job(0, 0.001, 0, 0, ())
    free, slow = (predict([job], links(1, FREE, frame_s=s), 4) for s in (0.0, 0.002))
    assert slow.latency_s == pytest.approx(free.latency_s + 0.002)
    assert free.period_s == pytest.approx(0.001) and slow.period_s == pytest.approx(0.002)


def test_messages_to_workers_elsewhere_follow_one_another() -> None:
    wire = Speed(1e8, 0.0)
    far = links_of(places_of(["host@ssh:a", "host@ssh:b"]), [wire] * 2)
    assert far.carried({0: SIZE, 1: SIZE}) == pytest.approx(2 * SIZE / 1e8)
    assert far.carried({1: SIZE}) == pytest.approx(SIZE / 1e8)
    apart = links(2, FREE, wire=wire)
    assert apart.carried({0: SIZE, 1: 2 * SIZE}) == pytest.approx(2 * SIZE / 1e8)


def test_as_many_frames_are_in_flight_as_keep_the_slowest_at_work() -> None:
    """Two parts and their messages take six times as long as the slowest of them: one frame more than that."""
    x = placeholder("x", Type("f32", (SIZE // 4,)))
    first = Part(0, Graph((x,), (("a", clip(x)),)), (Read("x", "x"),), 0.01)
    a = placeholder("a", Type("f32", (SIZE // 4,)))
    second = Part(1, Graph((a,), (("y", clip(a)),)), (Read("a", "a"),), 0.01)
    division = Division("pipeline", (first, second), {"x": x.type}, {"y": x.type})
    quick, slow = (priced(division, links(2, FREE, wire=Speed(speed, 0.0)), None) for speed in (1e12, 1e8))
    assert quick.in_flight <= 4 and quick.predicted.period_s == pytest.approx(0.01, rel=0.01)
    assert slow.predicted.latency_s == pytest.approx(0.06) and slow.in_flight == 7
    assert slow.predicted.period_s == pytest.approx(0.01, rel=0.05)
    none = priced(division, links(2, FREE, wire=Speed(1e6, 0.0)), None)
    assert none.in_flight <= FLYING * 2


BUSY = [0.01, 0.016]


def times(jobs: list[Job]) -> tuple[float, float]:
    """Seconds of a frame alone, and of the work of the slowest worker between frames, where messages are free."""
    found = predict(jobs, links(2, FREE), 6)
    return found.latency_s, found.period_s


def test_parts_that_wait_for_one_another_are_busy_in_a_stream_alone() -> None:
    sequence = [Job(w, 0.01, 0, 0, (w - 1,) if w else (), busy_s=BUSY[w]) for w in range(2)]
    latency, period = times(sequence)
    assert latency == pytest.approx(0.02) and period == pytest.approx(0.016, rel=0.01)


def test_parts_of_one_frame_that_run_at_once_take_as_long_as_they_do_together() -> None:
    shares = [Job(w, 0.01, 0, 0, (), busy_s=BUSY[w]) for w in range(2)]
    assert times(shares)[0] == pytest.approx(0.016)
    last = Job(0, 0.005, 0, 0, (0, 1), busy_s=0.008)  # nothing runs beside it
    latency, period = times([*shares, last])
    assert latency == pytest.approx(0.016 + 0.005) and period >= 0.01 + 0.008
    beside = Job(1, 0.002, 0, 0, (1,), busy_s=0.003)  # it may run beside the last one, and beside the first
    after = Job(0, 0.005, 0, 0, (0,), busy_s=0.008)
    assert times([*shares, after, beside])[0] == pytest.approx(max(0.01 + 0.008, 0.016 + 0.003))
    one = [Job(0, 0.01, 0, 0, (), busy_s=0.02), Job(0, 0.01, 0, 0, (), busy_s=0.02)]
    assert times(one)[0] == pytest.approx(0.02), "parts of one worker do not run at the same time"


def test_panels_cross_while_others_are_computed() -> None:
    """Two parts: all but the last panel hides behind the computation, and the way back behind the way there."""
    count, wire = 4, Speed(1e9, 0.0)
    own = links(2, FREE, FREE, wire)
    whole = [Job(0, 0.01, 0, SIZE, ()), Job(1, 0.01, SIZE, 0, (0,))]
    assert predict(whole, own, 1).latency_s == pytest.approx(0.02 + 2 * SIZE / 1e9)
    panel = SIZE // count
    outputs = tuple(Output(panel, 0.5 + (k + 1) / (2 * count)) for k in range(count))
    inputs = tuple(Input(panel, frozenset({(0, k)})) for k in range(count))
    cut = [replace(whole[0], outputs=outputs), replace(whole[1], inputs=inputs)]
    found = predict(cut, own, 1)
    assert found.latency_s == pytest.approx(0.02 + 2 * panel / 1e9)
    assert found.bytes_a_frame == 2 * SIZE
    # Where the wire is slower than the computation, panels follow one another on both wires.
    slow = links(2, FREE, FREE, Speed(1e8, 0.0))
    begun = 0.01 * outputs[0].share
    assert predict(cut, slow, 1).latency_s == pytest.approx(begun + SIZE / 1e8 + panel / 1e8 + 0.01)


def test_every_panel_is_a_message() -> None:
    """Each costs the coordinator and the worker, and the first one of a request waits until all have begun."""
    hub, worker = Speed(inf, 1e-4), Speed(inf, 2e-4)
    outputs = (Output(10, 0.5), Output(10, 1.0, 10))
    inputs = (Input(5, frozenset()), Input(20, frozenset({(0, 0), (0, 1)})))
    jobs = [Job(0, 0.01, 0, 20, (), 10, None, outputs), Job(1, 0.01, 25, 0, (0,), inputs=inputs)]
    found = predict(jobs, links(2, hub, worker), 1)
    first = 1e-4 + 2e-4 + 0.01 + 2 * 2e-4  # the request, and two pieces of the answer
    second = 1e-4 + 10 / ADDED + 1e-4 + 3 * 2e-4 + 0.01 + 1e-4
    assert found.latency_s == pytest.approx(first + second)
