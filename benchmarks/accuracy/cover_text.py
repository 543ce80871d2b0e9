"""Text, files and gestures: a small language model, a sentence encoder, file types, classifiers with their data."""

from __future__ import annotations

import csv
import gzip

import numpy as np

from benchmarks.accuracy.cover import Arrays, Beside, Row, case, from_wheel, trained
from benchmarks.networks.catalog import ROOT

TOKENS = 64


def greedy(prefill: Beside | None, decode: Beside, prompt: list[int]) -> tuple[list[int], list[int]]:
    """The prompt and what edgec and onnxruntime each say after it, from their own caches."""
    said: tuple[list[int], list[int]] = (list(prompt), list(prompt))
    caches: list[Arrays] = [{}, {}]
    empty = np.zeros((5, 1, 4, 0, 8), np.float32)
    first = 1
    if prefill is not None:
        outputs = prefill({"tokens": np.array([prompt], np.int64)})
        first = len(prompt)
    else:
        given = {"token": np.array([prompt[:1]], np.int64), "pos": np.array([0], np.int64)}
        outputs = decode({**given, "past_k": empty, "past_v": empty})
    for k, found in enumerate(outputs):
        caches[k] = {"past_k": found["k"], "past_v": found["v"]}
        said[k].append(int(found["logits"][0, -1].argmax()))
    for place in range(first, TOKENS - 1):
        position = np.array([place], np.int64)
        mine, theirs = ({"token": np.array([[s[place]]], np.int64), "pos": position, **c} for s, c in zip(said, caches))
        for k, found in enumerate(decode(theirs, mine)):
            caches[k] = {"past_k": found["k"], "past_v": found["v"]}
            said[k].append(int(found["logits"][0, -1].argmax()))
    return said


@case("stories260K")
def stories() -> Row:
    """64 tokens: from nothing but the first token, and after prompts of several lengths."""
    prefill = Beside(trained("lm_stories260k/stories260k_prefill.onnx"), dims={"T": (1, TOKENS, 1)})
    decode = Beside(trained("lm_stories260k/stories260k_decode.onnx"), dims={"P": (0, TOKENS - 1, 1)})
    text = list((trained("lm_stories260k/eval.txt")).read_bytes()[:200])
    prompts = [[1], [1, *(3 + b for b in text[:12])], [1, *(3 + b for b in text[60:99])]]
    same = total = 0
    for k, prompt in enumerate(prompts):
        mine, theirs = greedy(prefill if k else None, decode, prompt)
        same += sum(a == b for a, b in zip(mine, theirs))
        total += len(theirs)
    worst = max(prefill.relative, decode.relative)
    what = f"prefill and decode to {TOKENS} tokens with a growing cache, {len(prompts)} prompts; logits and cache"
    return Row("stories260K", what, worst, same=same, decisions=total, what="tokens")


@case("minilm_int8")
def minilm_int8() -> Row:
    return sentences("minilm_int8", "batch", "sequence")


@case("minilm")
def minilm() -> Row:
    return sentences("minilm", "B", "S")


def sentences(name: str, rows: str, columns: str) -> Row:
    pair = Beside(from_wheel(name), dims={rows: (1, 4, 1), columns: (1, 128, 1)})
    random, same, total = np.random.default_rng(5), 0, 0
    sizes = [(1, 1), (1, 128), (4, 128), (3, 17), (2, 64), (4, 5), (1, 33), (2, 2)]
    for batch, length in sizes:
        ids = random.integers(1000, 30000, (batch, length))
        lengths = random.integers(1, length + 1, (batch, 1))
        mask = (np.arange(length) < lengths).astype(np.int64)
        given = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        got, want = (_sentences(found["last_hidden_state"], mask) for found in pair(given))
        order = [np.argsort(e @ e.T - 2 * np.eye(batch), axis=1)[:, -1] for e in (got, want)]
        same += int((order[0] == order[1]).sum())
        total += batch
    what = f"{len(sizes)} sizes from 1 x 1 to 4 x 128, hidden states"
    return Row(name, what, pair.relative, same=same, decisions=total, what="nearest sentence")


def _sentences(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    weights = mask[..., None].astype(np.float32)
    mean = (hidden * weights).sum(1) / weights.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


@case("magika")
def files() -> Row:
    """The files of this project, from one to eight at a time."""
    pair = Beside(from_wheel("magika"), dims={"bytes.0": (1, 8, 1)})
    kinds = (
        "*.md",
        "edgec/**/*.py",
        "codegen_templates/**/*.h",
        "codegen_templates/**/*.c",
        "docs/images/*.svg",
        "*.toml",
    )
    paths = [p for kind in kinds for p in sorted(ROOT.glob(kind))[:6]]
    heads = np.stack([_ends(p.read_bytes().strip()) for p in paths])
    same, at, batch = 0, 0, 1
    while at < len(heads):
        got, want = pair({"bytes": heads[at : at + batch]})
        same += int((got["target_label"].argmax(1) == want["target_label"].argmax(1)).sum())
        at, batch = at + batch, batch % 8 + 1
    what = f"{len(paths)} files, 1 to 8 at a time, scores"
    return Row("magika", what, pair.relative, same=same, decisions=len(paths), what="file type")


def _ends(content: bytes) -> np.ndarray:
    """The first and the last 1024 bytes, with 256 where there is nothing."""
    found = np.full((2, 1024), 256, np.int32)
    head, tail = np.frombuffer(content[:1024], np.uint8), np.frombuffer(content[-1024:], np.uint8)
    found[0, : len(head)] = head
    found[1, 1024 - len(tail) :] = tail
    return found.reshape(-1)


@case("mnist_lstm")
def mnist() -> Row:
    images = np.frombuffer(
        gzip.decompress(trained("mnist/t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16
    )
    labels = np.frombuffer(gzip.decompress(trained("mnist/t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    pair = Beside(trained("mnist/mnist_lstm.onnx"))
    found: list[tuple[int, int]] = []
    for image in images.reshape(-1, 1, 28, 28).astype(np.float32) / 255:
        got, want = pair({"image": image})
        found.append((int(got["probs"].argmax()), int(want["probs"].argmax())))
    return _accuracy("mnist_lstm", pair, found, labels.tolist(), "digit")


def _accuracy(name: str, pair: Beside, found: list[tuple[int, int]], labels: list[int], what: str) -> Row:
    mine, theirs = (float(np.mean([f[k] == label for f, label in zip(found, labels)])) for k in (0, 1))
    compared = f"{len(labels)} examples, accuracy {mine:.4f} (onnxruntime {theirs:.4f})"
    return Row(name, compared, pair.relative, same=sum(a == b for a, b in found), decisions=len(found), what=what)


def gestures(name: str, table: str, extra: Arrays) -> Row:
    """The network on all of its data, up to 64 rows at a time."""
    with trained(f"gesture/{table}.csv").open() as file:
        rows = [[float(v) for v in row] for row in csv.reader(file)]
    labels, features = [int(r[0]) for r in rows], np.array([r[1:] for r in rows], np.float32)
    pair = Beside(trained(f"gesture/{name}.onnx"), dims={"batch": (1, 64, 1)})
    found: list[tuple[int, int]] = []
    at, batch = 0, 1
    while at < len(features):
        got, want = pair({"input": features[at : at + batch], **extra})
        found += zip(got["class_ids"].reshape(-1).tolist(), want["class_ids"].reshape(-1).tolist())
        at, batch = at + batch, batch % 64 + 1
    return _accuracy(name, pair, found, labels, "gesture")


@case("point_history_classifier_lstm")
def history_lstm() -> Row:
    return gestures("point_history_classifier_lstm", "point_history", {"score_threshold": np.array(0.5, np.float32)})


@case("point_history_classifier")
def history() -> Row:
    return gestures("point_history_classifier", "point_history", {"score_threshold": np.array(0.5, np.float32)})


@case("keypoint_classifier")
def keypoints() -> Row:
    return gestures("keypoint_classifier", "keypoint", {})
