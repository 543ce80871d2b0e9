"""Panels: the values and bits of the undivided tensors, nothing computed twice, and taken where they are faster."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from divided_cases import divided, image, tower
from emitted_programs import KEY, addresses, compiled, environment, host_command, workers, written
from small_graphs import arrays
from small_models import model, node, tensor_input, weights
from test_sharded import GRAPHS, run, ways_of
from typer.testing import CliRunner

import edgec
from edgec.artifact.finals import Finals
from edgec.build import build
from edgec.cli.main import app
from edgec.distribute.build import build_over
from edgec.distribute.choose import priced
from edgec.distribute.ilp import solve
from edgec.distribute.links import HANDLING, Links
from edgec.distribute.manifest import read_manifest
from edgec.distribute.panel_parts import Cut, cut_up, is_once
from edgec.distribute.panels import chain_of, panelled
from edgec.distribute.parts import Division
from edgec.distribute.places import Speed
from edgec.distribute.prices import Prices
from edgec.distribute.shards import work
from edgec.distribute.start import start
from edgec.emit.finals import KEY as TELLS
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, topological
from edgec.progress import silent


def cuts_at_random(division: Division, prices: Prices, draw: random.Random) -> dict[str, Cut]:
    """Cuts of everything that can be cut, along drawn dimensions at drawn places; terms of one sum are cut alike."""
    found: dict[str, Cut] = {}
    terms = {n: own for own in division.sums.values() for n in own}
    taken = {r.tensor for p in division.parts for r in p.reads} | {*terms}
    for part in division.parts:
        names = [n for n in part.writes if n in taken and n not in division.outputs]
        if not names:
            continue
        value = part.writes[names[-1]]
        plan = prices.planned(part.graph, part.worker)
        chain = chain_of(plan, prices.of_blocks(plan)[part.worker], value)
        axes = [d for d, e in enumerate(value.type.shape) if e > 1]
        for axis in draw.sample(axes, len(axes)):
            extent = int(value.type.shape[axis])
            inner = sorted(draw.sample(range(1, extent), min(draw.randint(1, 3), extent - 1)))
            cut = Cut(axis, (0, *inner, extent), chain.divided(draw.randint(1, max(len(chain.nodes), 1))))
            if is_once(part.graph, value, cut):
                found[names[-1]] = cut
                break
    for own in division.sums.values():
        if not all(n in found for n in own):
            for n in own:
                found.pop(n, None)
        for n in own[1:] if own[0] in found else ():
            found[n] = Cut(found[own[0]].axis, found[own[0]].bounds, found[n].divided)
    return found


def operations(g: Graph) -> int:
    there = frozenset(g.inputs)
    nodes = [n for n in topological((n for _, n in g.outputs), known=there) if n.op not in ("const", "slice", "concat")]
    return sum(work(n, {*n.args, *there})[0] for n in nodes if n.op != "input")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_cut_up_divisions_give_the_same_values(name: str, workers: int, seed: int) -> None:
    draw = random.Random(f"{name} {workers} {seed}")
    g = GRAPHS[name]()
    ways, prices = ways_of(g, workers)
    problem = ways.problem(None if seed else 3 * sum(n.type.bytes for n in g.nodes() if n.is_const) // 4)
    solution = solve(problem, 5.0) or solve(ways.problem(None), 5.0)
    assert solution is not None
    division = ways.divided(problem, solution, prices.of_graph)
    cuts = cuts_at_random(division, prices, draw)
    made = cut_up(division, cuts, prices)
    given = arrays(g, 3)
    want = run_graph(g, given)
    got = run(made, given)
    for output, value in want.items():
        np.testing.assert_allclose(got[output], value, rtol=0, atol=1e-5 * np.abs(value).max())
    for new, old in zip(made.parts, division.parts):
        assert operations(new.graph) <= operations(old.graph)
        assert list(new.finals) == sorted(new.finals) and all(0 <= s <= 1 for s in new.finals)
        turns = [made.panels[t].index(r.tensor) if t else -1 for r in new.reads for t in [_whole(made, r.tensor)]]
        assert turns == sorted(turns), "panels are not taken in the order in which they come"
        assert {str(n.attributes["name"]) for n in new.graph.inputs} == {r.port for r in new.reads}
    assert {*made.panels} == {*cuts, *(n for n, own in division.sums.items() if own[0] in cuts)}


def _whole(division: Division, tensor: str) -> str:
    return next((t for t, own in division.panels.items() if tensor in own), "")


def tall(rows: int = 96, wide: int = 64) -> onnx.ModelProto:
    """x [rows, 48] -> y [rows, 48]: products that can be divided by rows and by columns, and what is carried past."""
    draw = np.random.default_rng(4)

    def drawn(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    nodes, made = [], []
    for k, (x, y) in enumerate((("x", "m"), ("m", "n"), ("n", "y"))):
        nodes += [
            node("MatMul", [x, f"u{k}"], [f"a{k}"], f"up{k}"),
            node("Relu", [f"a{k}"], [f"b{k}"], f"relu{k}"),
            node("MatMul", [f"b{k}", f"d{k}"], [f"c{k}"], f"down{k}"),
            node("Add", [x, f"c{k}"], [y], f"carried{k}"),
        ]
        made += [weights(f"u{k}", drawn(48, wide)), weights(f"d{k}", drawn(wide, 48))]
    return model(nodes, [tensor_input("x", [rows, 48])], ["y"], made)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A network in sums over a link so slow that panels pay, with them and without."""
    folder = tmp_path_factory.mktemp("panels")
    path = folder / "tall.onnx"
    onnx.save(tall(), str(path))
    for overlap in (True, False):
        build_over(
            path, folder / str(overlap), over=["host@local"] * 2, split="tensor", goal="latency", force=True,
            shard=["up0=1", "up1=1", "up2=1"], link_speed="20M/0.01", overlap=overlap, progress=silent, threads=2,
        )  # fmt: skip
    return {overlap: folder / str(overlap) for overlap in (True, False)}


def frames() -> Iterator[dict[str, np.ndarray]]:
    for seed in range(6):
        yield {"x": np.random.default_rng(seed).standard_normal((96, 48)).astype(np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_panels_have_the_bits_of_the_whole(folders: dict[bool, Path], threads: int) -> None:
    found = {}
    for overlap, folder in folders.items():
        manifest = read_manifest(folder)
        assert bool(manifest.panels) == overlap == ("panels" in manifest.verdict)
        with edgec.Several(folder, threads) as network:
            alone = [network.run(f)["y"] for f in frames()]
            together = [f["y"] for f in network.stream(frames(), 3)]
            moved = sum(map(sum, network.moved))
        assert moved == 12 * manifest.bytes_a_frame
        assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
        found[overlap] = alone
    assert all(np.array_equal(a, b) for a, b in zip(found[True], found[False], strict=True))
    assert read_manifest(folders[True]).bytes_a_frame == read_manifest(folders[False]).bytes_a_frame
    assert read_manifest(folders[True]).latency_s < read_manifest(folders[False]).latency_s


@pytest.mark.parametrize(("split", "workers"), [("pipeline", 3), ("rows", 2)])
def test_rows_and_pipelines_in_panels_have_the_bits_of_one_device(split: str, workers: int, tmp_path: Path) -> None:
    made = tower(channels=64)  # panels of fewer are computed by other kernels where vectors are long
    whole = edgec.build(made.SerializeToString())
    built = divided(tmp_path, workers, split, made, goal="latency", link_speed="3M/0.01")
    assert built.manifest.split == split and built.manifest.panels
    with edgec.Several(built.folder) as network:
        for seed in range(2):
            given = {"image": image(seed)}
            assert np.array_equal(network.run(given)["scores"], whole.run(given)["scores"])


def test_c_and_python_speak_of_panels(folders: dict[bool, Path], tmp_path: Path) -> None:
    """Workers in C, which answer at once, serve the coordinator, and those in Python, which do not, a host in C."""
    folder = folders[True]
    with edgec.Several(folder) as network:
        want = [network.run(f)["y"] for f in frames()]
    with workers(folder, None, "--once") as found, edgec.Several(folder, addresses=addresses(found), secret=KEY) as own:
        assert all(np.array_equal(got["y"], w) for got, w in zip(own.stream(frames()), want, strict=True))
    manifest = read_manifest(folder)
    started = []
    try:
        for k in range(2):
            parts = [folder / p.folder for p in manifest.parts if p.worker == k]
            started.append(start(parts, KEY.encode(), 1, None, f"worker {k}"))
        given = written(tmp_path / "in", folder, list(frames()))
        compiled(folder)
        command = host_command(
            folder, "tcp", "--frames", str(given), str(tmp_path / "out"), *(s.address for s in started)
        )
        subprocess.run(command, env=environment(), timeout=60, check=True)
        assert (tmp_path / "out").read_bytes() == b"".join(w.tobytes() for w in want)
    finally:
        for worker in started:
            worker.end()


@pytest.mark.parametrize("threads", [1, 2])
def test_outputs_are_told_when_they_are_final(threads: int, tmp_path: Path) -> None:
    """At every call the outputs that are said to be final are what they are at the end."""
    g = GRAPHS["two outputs"]()
    g = Graph(g.inputs, g.outputs, g.name, g.origin, {**g.metadata, TELLS: "1"})
    built = build(g, tmp_path / "told", start="fuse", threads=2)  # type: ignore[arg-type]
    with edgec.Network(built.folder, threads) as network:
        given = arrays(g, 5)
        want = network.run(given)
        results = {p.onnx_name: np.full(p.shape, np.nan, np.float32) for p in network.outputs}  # type: ignore[arg-type]
        call, _ = network.bind(given, results)
        seen: list[tuple[int, list[np.ndarray]]] = []
        finals = Finals(network, lambda count: seen.append((count, [a.copy() for a in [*results.values()][:count]])))
        call()
        assert [count for count, _ in seen] == [1]
        for _, arrays_then in seen:
            assert all(np.array_equal(a, want[n]) for a, n in zip(arrays_then, results))
        assert all(np.array_equal(results[n], want[n]) for n in results)
        del finals
        call()
        assert len(seen) == 1


def test_panels_are_for_slow_links() -> None:
    ways, prices = ways_of(GRAPHS["residual"](), 2)
    problem = ways.problem(None)
    solution = solve(problem, 5.0)
    assert solution is not None
    division = ways.divided(problem, solution, prices.of_graph)
    slow = Links((Speed(1e4, 1e-6),) * 2, (HANDLING,) * 2, HANDLING)
    found = panelled(division, prices, slow)
    assert found is not None and found.panels
    assert priced(found, slow, None).predicted.latency_s < priced(division, slow, None).predicted.latency_s
    fast = Links((Speed(1e12, 1e-6),) * 2, (HANDLING,) * 2, HANDLING)
    assert panelled(division, prices, fast) is None


def test_the_command_line_leaves_panels_out(tmp_path: Path) -> None:
    path = tmp_path / "tall.onnx"
    onnx.save(tall(24), str(path))
    over = ["--over", "x86_64_avx2@ssh:a", "--over", "x86_64_avx2@ssh:b", "--split", "tensor", "--goal", "latency"]
    over += ["--force", "--link-speed", "1M/0.01", "--no-compile"]
    for more, has in (([], True), (["--no-overlap"], False)):
        out = tmp_path / str(has)
        done = CliRunner().invoke(app, ["build", str(path), *over, *more, "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert bool(read_manifest(out).panels) == has
