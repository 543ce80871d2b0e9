"""Divided networks over loopback, on 1, 2 and 3 workers: pipelines and rows give the bits of one device.

What does not pay is refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from divided_cases import divided, image, in_tiles, tower

import edgec
from edgec.distribute.check import check_over
from edgec.distribute.timeline import Seconds
from edgec.errors import ModelError, UsageError

CASES = [("auto", 1), ("pipeline", 2), ("pipeline", 3), ("rows", 2), ("rows", 3)]


@pytest.mark.parametrize(("split", "workers"), CASES)
def test_gives_what_one_device_gives(split: str, workers: int, tmp_path: Path) -> None:
    whole = edgec.build(tower().SerializeToString())
    built = divided(tmp_path, workers, split)
    assert built.manifest.split == (split if workers > 1 else "one")
    assert len({p.worker for p in built.manifest.parts}) == workers
    with edgec.Several(built.folder) as network:
        for seed in range(2):
            want = whole.run({"image": image(seed)})["scores"]
            assert np.array_equal(network.run({"image": image(seed)})["scores"], want)
        before = network.moved
        stream = network.stream({"image": image(seed)} for seed in range(9))
        for seed, got in enumerate(stream):
            assert np.array_equal(got["scores"], whole.run({"image": image(seed)})["scores"])
        moved = sum(map(sum, network.moved)) - sum(map(sum, before))
        assert moved == 9 * built.manifest.bytes_a_frame
        assert all(1 << 20 < n < 1 << 30 for n in network.memory())
        checked = check_over(network)
        assert checked.ok and checked.reference.startswith("onnxruntime")


def test_a_compressed_network_is_held_against_its_compressed_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of bytes beside the floats is reported and fails nothing; wrong code fails."""
    built = divided(tmp_path, 2, "pipeline", quantize="int8-dynamic")
    with edgec.Several(built.folder) as network:
        checked = check_over(network)
        assert checked.ok and checked.reference == "the compressed graph" and checked.floats.startswith("onnxruntime")
        assert max(d.max_rel for d in checked.compression) > checked.tolerance
        assert not check_over(network, tolerance=1e-4).ok  # a tolerance of one's own is that of the floats
        right = network.run
        monkeypatch.setattr(network, "run", lambda given: {n: 1.01 * a for n, a in right(given).items()})
        assert not check_over(network).ok


def test_tiles_of_rows_are_those_of_one_device(tmp_path: Path) -> None:
    """Tiles of four outputs do not fit the 30 rows, and parts of rows are so small that other tiles are cheaper."""
    made = in_tiles()
    whole = edgec.build(made.SerializeToString())
    assert "winograd" in {k.template for k in whole.program.kernels}
    built = divided(tmp_path, 2, "rows", made)
    assert built.manifest.split == "rows" and "may differ" not in built.manifest.verdict
    with edgec.Several(built.folder) as network:
        given = {"image": image(1, 30)}
        assert np.array_equal(network.run(given)["y"], whole.run(given)["y"])


def test_a_stream_that_is_left_leaves_the_workers_idle(tmp_path: Path) -> None:
    built = divided(tmp_path, 2, "pipeline")
    with edgec.Several(built.folder) as network:
        want = network.run({"image": image()})["scores"]
        stream = network.stream({"image": image(seed)} for seed in range(50))
        next(stream)
        with pytest.raises(UsageError, match="another stream"):
            network.run({"image": image()})
        stream.close()
        assert np.array_equal(network(image()), want)
        with pytest.raises(ModelError, match="no input 'picture'"):
            network.run({"picture": image()})
        with pytest.raises(ModelError, match="expected f32"):
            network.run({"image": image()[:, :2]})
        assert np.array_equal(network(image()), want)


def test_what_does_not_pay_is_refused(tmp_path: Path) -> None:
    built = divided(tmp_path, 2, "auto", force=False, link_speed="10M/5")
    assert built.manifest.split == "one" and len(built.manifest.parts) == 1
    assert "does not pay" in built.manifest.verdict
    assert built.choice.others, "nothing was tried"


def test_what_measured_parts_show_to_be_slower_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that take longer than was predicted are built, timed and given up for one device."""
    times = {"whole": 0.2, "parts": 0.3}

    def timed(workers: list[list[Path]], threads: int, cores: int, on_gpu: list[bool]) -> list[list[Seconds]]:
        own = [[times.get(folder.name, times["parts"]) for folder in folders] for folders in workers]
        return [[Seconds(s, s) for s in mine] for mine in own]

    monkeypatch.setattr("edgec.distribute.build.time_workers", timed)
    for goal in ("throughput", "latency"):
        built = divided(tmp_path, 2, "auto", force=False, goal=goal)
        assert built.manifest.split == "one" and sorted(p.name for p in built.folder.glob("part*")) == ["part0"]
        assert "does not pay, by measured kernels" in built.manifest.verdict
    times.update(parts=0.01)
    assert divided(tmp_path, 2, "auto", force=False).manifest.split != "one"
    with edgec.Several(built.folder) as network:
        assert check_over(network).ok


def test_a_folder_of_something_else_stays(tmp_path: Path) -> None:
    (tmp_path / "over").mkdir()
    (tmp_path / "over" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        divided(tmp_path, 2, "pipeline")
    assert (tmp_path / "over" / "mine.txt").read_text() == "mine"


def test_what_is_of_one_device_is_refused(tmp_path: Path) -> None:
    for more in ({"loss": "mse"}, {"bounds": True}):
        with pytest.raises(UsageError, match="are for one device"):
            divided(tmp_path, 2, "pipeline", **more)


def test_a_network_with_preprocessing_is_checked(tmp_path: Path) -> None:
    built = divided(tmp_path, 1, "auto", pre="picture=rgb8:24x24", picture="fit=stretch")
    with edgec.Several(built.folder) as network:
        assert check_over(network, samples=1).ok
