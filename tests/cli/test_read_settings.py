"""Texts of settings that are read by hand: what each means, and those that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.distribute.links import Speed
from edgec.distribute.places import MOST_WORKERS, Place, places_of, speed_of
from edgec.distribute.worker import address_of
from edgec.errors import UsageError
from edgec.options.budgets import Budget, read_budgets
from edgec.options.overrides import require_known, require_offered
from edgec.options.resolved import MAX_THREADS, MIXED_ERROR, _limits, _name, _precision, _threads, _tile


@pytest.mark.parametrize(
    "read, meaning",
    [
        (lambda: address_of("127.0.0.1:7000"), ("127.0.0.1", 7000)),
        (lambda: address_of("[::1]:0"), ("::1", 0)),
        (lambda: address_of("host:65535"), ("host", 65535)),
        (lambda: places_of(["host@local", "a@ssh:b@c"]), (Place("host", "local"), Place("a", "ssh:b@c"))),
        (lambda: len(places_of(["a@b"] * MOST_WORKERS)), MOST_WORKERS),
        (lambda: speed_of("1G"), Speed(1e9 / 8, 0.2e-3)),
        (lambda: speed_of(" 2.5m/0.5 "), Speed(2.5e6 / 8, 0.5e-3)),
        (lambda: speed_of("8/0"), Speed(1.0, 0.0)),
        (lambda: speed_of("3k"), Speed(375.0, 0.2e-3)),
        (lambda: read_budgets(["latency_ms=5", "max_error=0"]), (Budget("latency_ms", 5.0), Budget("max_error", 0.0))),
        (lambda: read_budgets([]), ()),
        (lambda: _tile("t", 1, 1), (1, 1)),
        (lambda: (_threads(1), _threads(MAX_THREADS)), (1, MAX_THREADS)),
        (lambda: _name("a" * 40), "a" * 40),
        (lambda: _precision(None, "none"), (None, "none", 0.0)),
        (lambda: _precision("bf16", "int8"), ("bf16", "int8", 0.0)),
        (lambda: _precision("int8", "none"), ("fp16", "int8", 0.0)),
        (lambda: _precision("mixed", "none"), ("fp16", "none", MIXED_ERROR)),
        (lambda: _precision("mixed:0.25", "none"), ("fp16", "none", 0.25)),
    ],
)  # fmt: skip
def test_what_a_text_means(read: Callable[[], object], meaning: object) -> None:
    assert read() == meaning


#: What reads, the words of its refusal, and values that it refuses.
REFUSED: list[tuple[Callable[[Any], object], str, tuple[Any, ...]]] = [
    (address_of, "is no HOST:PORT", ("", "7000", ":7000", "a:", "a:b", "a:65536", "a:-1")),
    (lambda text: places_of([text]), "is no DEVICE@LINK", ("", "host", "@local", "host@", "@")),
    (lambda count: places_of(["a@b"] * count), "workers", (MOST_WORKERS + 1,)),
    (speed_of, "is no speed", ("", "0", "0.5", "-1M", "1T", "1M/", "1M/x", "M")),
    (lambda text: read_budgets([f"latency_ms{text}"]), "is no budget", ("", "=", "=x", "=-1", "=inf", "=nan")),
    (lambda text: read_budgets([text]), "there is no budget", ("latency_m=1", "=1", "")),
    (lambda text: read_budgets([text]), "--max-loss top1_drop=1", ("top1_drop=1",)),
    (lambda tile: _tile("t", *tile), "is no tile", ((0, 1), (1, 0), (-1, 4))),
    (_threads, "no number of threads", (0, -1, MAX_THREADS + 1)),
    (_name, "cannot be the prefix", ("", "1a", "a" * 41, "a__b", "int", "ec_a", "a-b", "_a")),
    (lambda text: _precision(f"mixed:{text}", "none"), "is no error", ("", "x", "0", "1", "-1", "nan")),
    (lambda most: _limits({"seconds": most}), "is no limit", (0.0, -1.0, inf, nan)),
]


@pytest.mark.parametrize("read, told, values", REFUSED)
def test_texts_that_mean_nothing(read: Callable[[Any], object], told: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(UsageError) as caught:
            read(value)
        assert told in str(caught.value), value


def planned(*choices: tuple[str, str, str, tuple[str, ...]]) -> Any:
    """A plan with choices: kind, node, the variant that was taken, and others."""
    made = []
    for kind, node, *names in choices:
        taken, *others = (SimpleNamespace(name=name) for name in (names[0], *names[1]))
        made.append(SimpleNamespace(kind=kind, node=node, taken=taken, others=others))
    graph = SimpleNamespace(names=lambda node: (node, f"{node} too"))
    return SimpleNamespace(decisions=SimpleNamespace(choices=made), graph=graph)


def test_decisions_are_about_what_there_is() -> None:
    plan = planned(("stripes", "conv", "whole", ("rows",)), ("layout", "add", "last", ()))
    require_offered({"stripes conv": "whole", "stripes conv too": "whole", "layout add": "last"}, plan)
    require_offered({"layout gone": "last"}, plan)  # it was taken, and its node is another now
    for key, variant, told in (
        ("stripes conv", "columns", "'columns' is no variant of 'stripes conv'"),
        ("stripes conv", "rows", "'rows' is no variant of"),
        ("stripes add", "rows", "nothing to choose about 'stripes add'"),
        ("layout gone", "first", "asked about: layout, stripes"),
        ("tiles conv", "whole", "nothing to choose about 'tiles conv'"),
    ):
        with pytest.raises(UsageError) as caught:
            require_offered({key: variant}, plan)
        assert told in str(caught.value)
    with pytest.raises(UsageError, match="nothing is decided by price"):
        require_offered({"stripes conv": "rows"}, planned())
    require_known(["a", "a"], ["a", "b"], "--materialize", "node")
    with pytest.raises(UsageError, match="there is no node 'c' to decide about"):
        require_known(["a", "c"], ["a", "b"], "--materialize", "node")
