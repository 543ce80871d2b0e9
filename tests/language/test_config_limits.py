"""Numbers of a decoder at the ends of their ranges: the last that is taken, and the first that is refused."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from gguf_files import llama

from edgec.errors import ModelError
from edgec.frontend.gguf import parse
from edgec.frontend.gguf.architectures import config_of
from edgec.frontend.language.config import MOST, DecoderConfig, Layer, Rotary

ROTARY = Rotary(8, 10000.0)
CONFIG = DecoderConfig(100, 32, 4, 2, 8, 64, 1e-5, (Layer(ROTARY), Layer(None, 16)))
FACTORS = ("epsilon", "embedding_scale", "query_scale", "attention_softcap", "logits_softcap")
TAKEN: dict[str, tuple[Any, ...]] = {
    **{name: (1, MOST[name]) for name in ("width", "hidden", "vocabulary")},
    "heads": (2, 4, MOST["heads"]), "kv_heads": (1, 2, 4), "head": (8, MOST["width"]),
    "positions": (0, MOST["context"]), "layers": ((Layer(None),), (Layer(None),) * MOST["layers"]),
    **dict.fromkeys(FACTORS, (0.0, 1e12)),
}  # fmt: skip
REFUSED: dict[str, tuple[Any, ...]] = {
    **{name: (0, -1, MOST[name] + 1) for name in ("width", "hidden", "vocabulary")},
    "heads": (0, 3, MOST["heads"] + 2), "kv_heads": (0, -2, 3, 8), "head": (0, 7, MOST["width"] + 1),
    "positions": (-1, MOST["context"] + 1), "layers": ((), (Layer(None),) * (MOST["layers"] + 1)),
    **dict.fromkeys(FACTORS, (-1e-9, 2e12, inf, nan)),
}  # fmt: skip
WINDOWS = ((0, True), (MOST["context"], True), (-1, False), (MOST["context"] + 1, False))
ROTARIES = (
    ({"size": 2}, True), ({"size": 8}, True), ({"size": 0}, False), ({"size": 10}, False), ({"size": 7}, False),
    ({"size": -2}, False), ({"base": 1e-9}, True), ({"base": 0.0}, False), ({"base": 2e12}, False),
    ({"base": nan}, False), ({"scale": 1e12}, True), ({"scale": 0.0}, False), ({"scale": inf}, False),
    ({"frequency_factors": (1.0,) * 4}, True), ({"frequency_factors": (1.0, 2.0, -1.0, 0.5)}, True),
    ({"frequency_factors": (1.0,) * 3}, False), ({"frequency_factors": (1.0,) * 8}, False),
    ({"frequency_factors": (1.0, 0.0, 1.0, 1.0)}, False), ({"frequency_factors": (1.0, 1.0, inf, 1.0)}, False),
)  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_numbers(name: str) -> None:
    for value in TAKEN[name]:
        replace(CONFIG, **{name: value}).check()
    for value in REFUSED[name]:
        with pytest.raises(ModelError):
            replace(CONFIG, **{name: value}).check()


@pytest.mark.parametrize(
    ("layer", "is_taken"),
    [
        *((Layer(None, window), fits) for window, fits in WINDOWS),
        *((Layer(replace(ROTARY, **changed)), fits) for changed, fits in ROTARIES),  # type: ignore[arg-type]
    ],
)
def test_layers(layer: Layer, is_taken: bool) -> None:
    """Any of them is looked at."""
    for layers in ((layer,), (Layer(None), layer), (layer, Layer(ROTARY))):
        if is_taken:
            replace(CONFIG, layers=layers).check()
        else:
            with pytest.raises(ModelError):
                replace(CONFIG, layers=layers).check()


def test_configurations_of_files_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(config: DecoderConfig) -> None:
        raise ModelError(f"{config.heads} heads")

    model = parse(llama(layers=1))
    heads = config_of(model).heads
    monkeypatch.setattr(DecoderConfig, "check", refused)
    with pytest.raises(ModelError, match=f"{heads} heads"):
        config_of(model)
