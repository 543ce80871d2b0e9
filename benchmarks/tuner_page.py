"""The page of the tuner's results, computed from stored times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.tune.ranking import Ranking, Sample, fitted
from edgec.tune.search import Search, Trial

#: Trials after which the gap to the quickest variant is told.
TRIALS = (8, 16, 32, 64)
#: The bars: Kendall's tau, and the gap after the most trials.
TAU, GAP = 0.8, 0.05
#: Runs with seeds of their own, whose median counts.
SEEDS = 1
_HEAD = """# Results: the order of trials in tuning

`edgec tune` measures variants of matmuls and convolutions in the order of a ranking that it learns from measured times
([fusion](../design/fusion.md#costs)). This page tells how well that ranks products which it has not seen.

    python -m benchmarks.tuner times --times times.json
    python -m benchmarks.tuner networks --networks networks.json
    python -m benchmarks.tuner page --times times.json --networks networks.json --write docs/results/tuner.md

"""


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's tau-b of two rankings of the same things: 1 for the same order, 0 for none, -1 for the reverse."""
    one, two = (np.sign(v[:, None] - v[None, :]) for v in (np.asarray(a), np.asarray(b)))
    norm = float(np.sqrt((one * one).sum() * (two * two).sum()))
    return float((one * two).sum()) / norm if norm else 0.0


def samples_of(key: str, variants: Sequence[Mapping[str, Any]]) -> list[Sample]:
    return [Sample(key, v["features"], min(v["seconds"])) for v in variants]


def gaps(entry: Mapping[str, Any], learned: Sequence[Sample], seed: int, learn: bool = True) -> dict[int, float]:
    """By numbers of trials: the quickest variant among them over the quickest there is, minus 1.

    Without ``learn``, in the order of the formulas.
    """
    key = entry["key"]
    times = {f"{key}/{v['variant']}": min(v["seconds"]) for v in entry["variants"]}
    found = {v["variant"]: Trial(f"{key}/{v['variant']}", v["features"]) for v in entry["variants"]}
    order = [entry["usual"], *(v for v in found if v != entry["usual"])]
    trials = [found[v] for v in order if v in found]
    best, made, gap = float("inf"), 0, dict[int, float]()
    if not learn:
        by_formula = sorted(trials[1:], key=lambda t: (t.features or {})["cycles"])
        asked = [t.name for t in (trials[0], *by_formula)]
    else:
        search, asked = Search({key: trials}, {}, learned, seed), []
        while batch := search.next(8):
            search.tell({t.name: times[t.name] for t in batch})
            asked += [t.name for t in batch]
    for name in asked:
        best, made = min(best, times[name]), made + 1
        gap[made] = best / min(times.values()) - 1
    return {n: gap[min(n, made)] for n in TRIALS}


def page(times: Mapping[str, Any], networks: Mapping[str, Any]) -> str:
    """The page in Markdown, of the files that the benchmark stored."""
    return _HEAD + (_of_products(times) if times else "") + (_of_networks(networks) if networks else "")


def _of_products(times: Mapping[str, Any]) -> str:
    others = {n: e for n, e in times.items() if not e["held_out"]}
    left_out = {n: e for n, e in times.items() if e["held_out"]}
    learned = [s for e in others.values() for s in samples_of(e["key"], e["variants"])]
    rankings = {
        "formula": Ranking("formula"), "ridge": fitted(learned, trees=False), "trees": fitted(learned),
    }  # fmt: skip
    rows, taus = list[str](), {name: list[float]() for name in (*rankings, "repeated")}
    by_trials = {learn: {n: list[float]() for n in TRIALS} for learn in (True, False)}
    for name, e in left_out.items():
        measured = np.array([min(v["seconds"]) for v in e["variants"]])
        for kind, ranking in rankings.items():
            taus[kind].append(kendall(ranking.scores([v["features"] for v in e["variants"]]), measured))
        both = np.array([v["seconds"] for v in e["variants"]])
        taus["repeated"].append(kendall(both[:, 0], both[:, 1]))
        of_seeds = [gaps(e, learned, seed) for seed in range(SEEDS)]
        for n in TRIALS:
            by_trials[True][n].append(float(np.median([g[n] for g in of_seeds])))
            by_trials[False][n].append(gaps(e, learned, 0, learn=False)[n])
        cells = [
            f"{len(e['variants'])} of {e['space']}", *(f"{taus[k][-1]:.2f}" for k in taus),
            *(f"{100 * by_trials[True][n][-1]:.1f}" for n in TRIALS[:3]),
            f"{100 * by_trials[False][TRIALS[1]][-1]:.1f}",
        ]  # fmt: skip
        rows.append(f"| {name} | {' | '.join(cells)} |\n")
    complete = sum(len(e["variants"]) == e["space"] for e in left_out.values())
    partly = "" if complete == len(left_out) else (
        f"**A reduced run**: all variants were measured of {complete} of the {len(left_out)} products, of the others a "
        "random part (column variants), on two cores that other work kept busy. Gaps are to the quickest of those "
        "measured: they tell little where trials are nearly as many. Networks were not measured unless a table "
        "follows.\n\n"
    )  # fmt: skip
    mean = {k: float(np.mean(v)) for k, v in taus.items()}
    best = max(mean["trees"], mean["ridge"])
    within = {n: sum(g <= GAP for g in by_trials[True][n]) for n in TRIALS}
    formula = {n: sum(g <= GAP for g in by_trials[False][n]) for n in TRIALS}
    counts = ", ".join(f"{within[n]} after {n} ({formula[n]} in the order of the formulas)" for n in TRIALS)
    return (
        f"## {len(left_out)} products that are left out\n\n{partly}"
        f"{len(learned)} times of {len(others)} other products teach the ranking, none of those left out.\n\n"
        f"* Kendall's tau with measured times, mean: formulas {mean['formula']:.2f}, ridge {mean['ridge']:.2f}, trees "
        f"{mean['trees']:.2f}; of a second measurement with the first {mean['repeated']:.2f}, which bounds what any "
        f"ranking can reach. The bar of {TAU} is {'reached' if best >= TAU else 'missed'}.\n"
        f"* Within {100 * GAP:.0f} % of the quickest variant measured, of {len(left_out)}: {counts}.\n\n"
        "| product | variants | tau: formulas | ridge | trees | repeated | gap after 8 trials, % | 16 | 32 "
        "| 16 by the formulas |\n|---|---|---|---|---|---|---|---|---|---|\n" + "".join(rows) + "\n"
    )


def _of_networks(networks: Mapping[str, Any]) -> str:
    threads = list(dict.fromkeys(t for e in networks.values() for t in e["ms"]))
    head = "".join(f" | {t} thread{'s' * (t != '1')}: before, ms | after" for t in threads)
    rows = []
    for name, e in sorted(networks.items()):
        cells = [f"{ms:.4g}" for t in threads for ms in e["ms"][t]]
        rest = f"{e['changed']} | {e['measured']} | {e['skipped']} | {e['seconds']:.1f} of {e['limit']:.0f}"
        rows.append(f"| {name} | {' | '.join(cells)} | {rest} |\n")
    ratios = {t: np.exp(np.mean([np.log(e["ms"][t][1] / e["ms"][t][0]) for e in networks.values()])) for t in threads}
    told = ", ".join(f"{r:.3f} on {t} thread{'s' * (t != '1')}" for t, r in ratios.items())
    kept = sum(e["seconds"] <= 1.1 * e["limit"] for e in networks.values())
    same = sum(e["lock_repeats"] for e in networks.values())
    return (
        f"## {len(networks)} networks\n\nMedian milliseconds with the variants of the model and with those that tuning "
        f"found, in turns. After over before, geometric mean: {told}. The budget is kept to within 10 % for {kept} of "
        f"{len(networks)}; for {same}, a build with the lock has the same files.\n\n"
        f"| network{head} | products changed | measured | skipped | seconds |\n|---{'|---|---' * len(threads)}"
        "|---|---|---|---|\n" + "".join(rows) + "\n"
    )
