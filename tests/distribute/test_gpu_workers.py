"""A processor and its GPU as the workers of one network: the CUDA part runs in emulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession
from test_tensor_networks import convs, mlp

import edgec
from edgec.build import Built
from edgec.distribute import build as dividing
from edgec.distribute.timeline import Seconds
from edgec.errors import ToolchainError

HOST, GPU = "host@local", "cuda_sm90@local"


def divided(made: onnx.ModelProto, folder: Path, over: list[str], **given: Any) -> Any:
    usual = {"split": "pipeline", "force": True, "link_speed": "1G/0.01", "compiler": "emulated"}
    return edgec.build_over(made, folder, over=over, **{**usual, **given})


@pytest.mark.parametrize("over", [[HOST, GPU], [GPU, HOST]], ids=["host first", "GPU first"])
@pytest.mark.parametrize("split", ["pipeline", "tensor"])
def test_a_stream_is_that_of_onnxruntime(over: list[str], split: str, tmp_path: Path) -> None:
    made = convs(12)
    built = divided(made, tmp_path / "out", over, split=split)
    assert {p.worker for p in built.manifest.parts} == {0, 1} and built.manifest.measured
    for part in built.manifest.parts:
        assert bool(list((tmp_path / "out" / part.folder).glob("*.cu"))) == (over[part.worker] == GPU)
    session = InferenceSession(made.SerializeToString())
    (port,) = session.get_inputs()
    random = np.random.default_rng(5)
    frames = [{port.name: random.standard_normal(port.shape).astype(np.float32)} for _ in range(4)]
    with edgec.Several(tmp_path / "out") as network:
        for frame, got in zip(frames, network.stream(frames), strict=True):
            (wanted,) = session.run(None, frame)
            (found,) = got.values()
            assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_the_faster_device_is_taken_alone(tmp_path: Path) -> None:
    """Whichever of the workers it is: those without a part are not started."""
    for k, over in enumerate(([HOST, GPU], [GPU, HOST])):
        made = mlp(96)
        built = divided(made, tmp_path / str(k), over, split="auto", force=False)
        assert [str(w.place) for w in built.manifest.workers] == [HOST]
        (port,) = InferenceSession(made.SerializeToString()).get_inputs()
        with edgec.Several(tmp_path / str(k)) as network:
            assert len(network.processes) == 1 and network.run({port.name: np.ones(port.shape, np.float32)})


def test_each_device_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole network once on each device, by the clock that counts waiting for a GPU."""
    asked: list[list[bool]] = []

    def times(workers: list[list[Path]], threads: int, cores: int, on_gpu: list[bool]) -> list[list[Seconds]]:
        asked.append(list(on_gpu))
        return [[Seconds(1e-3, 1e-3) for _ in own] for own in workers]

    monkeypatch.setattr(dividing, "time_workers", times)
    divided(convs(12), tmp_path / "out", [HOST, GPU, HOST])
    assert asked[:2] == [[False], [True]]
    divided(convs(12), tmp_path / "two", [GPU, HOST])
    assert asked[-3:] == [[True], [False], [True, False]]


def test_a_compiler_is_for_those_whose_language_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str | None]] = []
    usual = dividing.build

    def build(*given: Any, **settings: Any) -> Built:
        made.append((settings["device"].name, settings["compiler"]))
        return usual(*given, **settings)

    monkeypatch.setattr(dividing, "build", build)
    divided(mlp(96), tmp_path / "out", [HOST, GPU])
    assert set(made) == {("host", None), ("cuda_sm90", "emulated")}
    with pytest.raises(ToolchainError, match="emulated"):
        divided(mlp(96), tmp_path / "hosts", [HOST, HOST])
    with pytest.raises(ToolchainError, match="nobody"):
        divided(mlp(96), tmp_path / "none", [HOST, GPU], compiler="nobody")
    assert not (tmp_path / "none").exists()
