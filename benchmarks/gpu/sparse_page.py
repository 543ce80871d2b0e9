"""The page of products by 2:4 weights on a GPU, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from textwrap import fill

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# Products by 2:4 weights on a GPU

Written by `python -m benchmarks.gpu.sparse --write docs/results/sparse-gpu.md`.

Products of networks at batch 1 whose weights have two of each four elements along k, by edgec's dense kernel and by the
one for [2:4](../guide/pruning.md#two-of-four-on-tensor-cores), beside PyTorch's dense product (cuBLAS) and its
semi-structured one, by the quickest of its libraries that run: cuSPARSELt, by its default algorithm or the one that its
search finds, and CUTLASS. Microseconds are of a CUDA graph of many calls, one behind the other. edgec's are the fastest
of a few tiles that the model puts first; *chosen* is the gain between the first of each form, which the scheduler takes
without `edgec tune`. Convolutions are convolutions for edgec; for PyTorch they are the product by the matrix of
windows, which is there already. Results of edgec's int8 are rescaled, PyTorch's stay integers. Errors are relative to
the largest value, against float64.
"""
ATTENTION = """## Attention with masks in blocks

Sixteen heads of 64 in fp16. A constant mask shows a share of the blocks of 64 x 64, and always the first keys and a
query's own block. *listed* is the kernel that computes the tiles of keys that its queries see anything of, *all* the
same without the list; PyTorch's is scaled_dot_product_attention with the mask, and without one. Microseconds.
"""
#: A gain that makes the form the default.
ENOUGH = 1.15
#: An error of results that are of another product, or of another type.
WRONG = 0.05
LIBRARIES = {"cusparselt": "cuSPARSELt", "searched": "cuSPARSELt, searched", "cutlass": "CUTLASS"}


def best(row: Row, sparse: bool, chosen: bool = False) -> Row:
    """The fastest tile of a kind, or the one that the scheduler takes."""
    found = [t for t in row["tiles"] if t["two_of_four"] == sparse]
    return dict(found[0] if chosen else min(found, key=lambda t: t["us"]))


def semi_structured(row: Row) -> tuple[str, Row] | None:
    """The fastest of PyTorch's libraries whose results are right, with its name."""
    told = [(name, row.get(key, {})) for key, name in LIBRARIES.items()]
    found = [(name, one) for name, one in told if one.get("us") and one["error"] <= WRONG]
    return min(found, key=lambda pair: pair[1]["us"]) if found else None


def gain(row: Row, chosen: bool = False) -> float:
    return float(best(row, False, chosen)["us"] / best(row, True, chosen)["us"])


def line(row: Row) -> str:
    """A case in one line, for the terminal."""
    if "failed" in row:
        return f"{row['name']}: {row['failed']}"
    if "listed" in row:
        times = [row["listed"]["us"], row["all"]["us"], row.get("masked"), row.get("unmasked")]
        return (
            f"{row['name']}: listed, all, PyTorch's with the mask and without {times} us, {row['listed']['error']:.1e}"
        )
    worst = max(t["error"] for t in row["tiles"])
    if row["tiles"][0]["us"] is None:
        return f"{row['name']}: {len(row['tiles'])} tiles, largest error {worst:.1e}"
    other = semi_structured(row)
    theirs = f"{other[0]} {other[1]['us']:.2f}" if other else "no semi-structured product"
    return (
        f"{row['name']}: dense {best(row, False)['us']:.2f} us, 2:4 {best(row, True)['us']:.2f} us ({gain(row):.2f}x), "
        f"cuBLAS {row['cublas'].get('us')}, {theirs}; largest error {worst:.1e}"
    )


def write(page: Path, rows: Sequence[Row]) -> None:
    page.write_text(text(rows), encoding="utf-8")


def text(rows: Sequence[Row]) -> str:
    """The page: a table and its sums for each precision."""
    timed = [r for r in rows if "failed" not in r and _us(r) is not None]
    masked, timed = [r for r in timed if "listed" in r], [r for r in timed if "listed" not in r]
    parts = [HEAD]
    for kind in dict.fromkeys(r["name"].split(" ", 1)[0] for r in timed):
        mine = [r for r in timed if r["name"].split(" ", 1)[0] == kind]
        parts.append(f"## {kind}\n\n{_table(mine)}\n\n{_summary(mine)}")
    if masked:
        parts.append(f"{ATTENTION}\n{_attention(masked)}")
    timed += masked
    missing = [[r["name"], r.get("failed", "a dry run")] for r in rows if r not in timed]
    if missing:
        parts.append("## Not timed\n\n" + markdown(["product", "reason"], missing))
    known = sorted({f"{r['date']}, {r['gpu']}, PyTorch {r['torch']}" for r in timed})
    parts += [f"{'; '.join(known)}."] if known else []
    return "\n\n".join(p.strip() for p in parts) + "\n"


def _us(row: Row) -> float | None:
    found: float | None = row["listed"]["us"] if "listed" in row else row["tiles"][0]["us"]
    return found


def _attention(rows: Sequence[Row]) -> str:
    table = [
        [
            row["name"].removeprefix("attention of "), f"{row['share']:.2f}", f"{row['listed']['us']:.1f}",
            f"{row['all']['us']:.1f}", f"{row['all']['us'] / row['listed']['us']:.2f}",
            *("-" if row.get(k) is None else f"{row[k]:.1f}" for k in ("masked", "unmasked")),
            f"{row['listed']['error']:.1e}",
        ]
        for row in rows
    ]  # fmt: skip
    head = ["tokens", "keys seen", "listed", "all", "gain", "PyTorch, masked", "PyTorch, no mask", "error"]
    return markdown(head, table)


def _table(rows: Sequence[Row]) -> str:
    table = []
    for row in rows:
        other = semi_structured(row)
        dense, sparse, cublas = best(row, False), best(row, True), row["cublas"]
        table.append([
            row["name"].split(" ", 1)[1], "x".join(map(str, row["size"])), f"{dense['us']:.1f}", f"{sparse['us']:.1f}",
            f"{gain(row):.2f}", f"{gain(row, True):.2f}", f"{cublas['us']:.1f}" if "us" in cublas else "-",
            f"{other[1]['us']:.1f} {other[0]}" if other else "-",
            f"{cublas['us'] / other[1]['us']:.2f}" if other and "us" in cublas else "-", sparse["tile"],
        ])  # fmt: skip
    head = [
        "product", "rows x columns x depth", "dense", "2:4", "gain", "chosen", "cuBLAS", "semi-structured",
        "its gain", "tile of 2:4",
    ]  # fmt: skip
    return markdown(head, table)


def _summary(rows: Sequence[Row]) -> str:
    gains = [gain(r) for r in rows]
    parts = [
        f"The gain of 2:4 is {_mean(gains):.2f} in geometric mean ({_mean([gain(r, True) for r in rows]):.2f} between "
        f"the tiles chosen); it is above 1 in {sum(g > 1 for g in gains)} and at least {ENOUGH} in "
        f"{sum(g >= ENOUGH for g in gains)} of {len(gains)} products."
    ]
    pays = [r for r in rows if gain(r) >= ENOUGH]
    if pays:
        least = min(pays, key=_size)
        parts.append(f"The smallest product with that gain has {_size(least) / 1e6:.0f} million multiply-adds.")
    both = [r for r in rows if "us" in r["cublas"]]
    if both:
        parts.append(
            f"Over cuBLAS, the dense kernel has {_mean([r['cublas']['us'] / best(r, False)['us'] for r in both]):.2f} "
            f"and the one for 2:4 {_mean([r['cublas']['us'] / best(r, True)['us'] for r in both]):.2f}."
        )
    theirs = [(r, o[1]) for r in both if (o := semi_structured(r)) is not None]
    if theirs:
        mean = _mean([r["cublas"]["us"] / o["us"] for r, o in theirs])
        parts.append(f"PyTorch's semi-structured product has {mean:.2f} of its dense one's speed.")
    errors = {
        "dense": [best(r, False)["error"] for r in rows], "2:4": [best(r, True)["error"] for r in rows],
        "cuBLAS": [r["cublas"]["error"] for r in both], "semi-structured": [o["error"] for _, o in theirs],
    }  # fmt: skip
    parts.append("Largest errors: " + ", ".join(f"{name} {max(e):.1e}" for name, e in errors.items() if e) + ".")
    failed = {f"{LIBRARIES[k]} ({r[k]['failed']})" for r in rows for k in LIBRARIES if "failed" in r.get(k, {})}
    failed |= {
        f"{LIBRARIES[k]} (its results are wrong, or do not fit into their type)"
        for r in rows
        for k in LIBRARIES
        if r.get(k, {}).get("error", 0.0) > WRONG
    }
    if failed:
        parts.append("Left out: " + "; ".join(sorted(failed)) + ".")
    return fill(" ".join(parts), 120, break_long_words=False, break_on_hyphens=False)


def _size(row: Row) -> float:
    rows, columns, depth = row["size"]
    return float(rows * columns * depth)


def _mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))
