"""Pictures: reading text at many sizes, faces, optical flow."""

from __future__ import annotations

import csv
from math import ceil

import numpy as np

from benchmarks.accuracy.cover import Beside, Row, case, from_wheel, picture, trained

#: Above this, a pixel belongs to text.
TEXT = 0.3


def centered(pixels: np.ndarray) -> np.ndarray:
    """u8 RGB [H, W, 3] as f32 BGR [3, H, W] in -1 .. 1, as the wheel of PP-OCR has it."""
    return np.ascontiguousarray((pixels[..., ::-1].astype(np.float32) / 255 - 0.5).transpose(2, 0, 1) / 0.5)


@case("ch_PP-OCRv4_det")
def detection() -> Row:
    """Pages at ten sizes from one artefact.

    On noise this network turns rounding into other results (onnxruntime differs from itself there): pictures only.
    """
    pair = Beside(
        from_wheel("ch_PP-OCRv4_det_infer"),
        dims={"x.0": (1, 1, 1), **{f"p2o.DynamicDimension.{k}": (32, 960, 32) for k in (1, 2)}},
    )
    pages = [("text_det.jpg", s) for s in (736, 480, 320, 224)] + [("ch_en_num.jpg", s) for s in (640, 416)]
    pages += [("return_word_debug.jpg", s) for s in (384, 288)] + [("en.jpg", 128), ("test_without_det.jpg", 64)]
    same, total, sizes = 0, 0, set()
    for name, short in pages:
        whole = picture(trained(f"ocr_lines/imgs/{name}"))
        scale = min(short / min(whole.shape[:2]), 960 / max(whole.shape[:2]))
        rows, columns = (max(round(n * scale / 32), 1) * 32 for n in whole.shape[:2])
        sizes.add((rows, columns))
        got, want = pair({"x": centered(picture(trained(f"ocr_lines/imgs/{name}"), (columns, rows)))[None]})
        (mine,), (theirs,) = got.values(), want.values()
        same += int(((mine > TEXT) == (theirs > TEXT)).sum())
        total += theirs.size
    what = f"pictures of {len(sizes)} sizes from {min(sizes)} to {max(sizes)}, probability of text"
    return Row("ch_PP-OCRv4_det", what, pair.relative, same=same, decisions=total, what="text or not, by pixel")


def line(pixels_of: tuple[str, int], width: int) -> np.ndarray:
    """A line of text 48 pixels high, turned around where it stands on its head, with zeros up to a width."""
    name, turns = pixels_of
    whole = np.rot90(picture(trained(f"ocr_lines/imgs/{name}")), turns)
    own = min(ceil(48 * whole.shape[1] / whole.shape[0]), width)
    sized = np.rot90(picture(trained(f"ocr_lines/imgs/{name}"), (own, 48)), turns)
    return np.pad(centered(np.ascontiguousarray(sized)), ((0, 0), (0, 0), (0, width - own)))


def natural(name: str) -> int:
    rows, columns = picture(trained(f"ocr_lines/imgs/{name}")).shape[:2]
    return max(int(48 * max(columns / rows, 320 / 48)), 320)


@case("ch_PP-OCRv4_rec")
def recognition() -> Row:
    """Lines at ten widths from one artefact, alone and together; the labelled ones are read right."""
    pair = Beside(
        from_wheel("ch_PP-OCRv4_rec_infer"),
        dims={"p2o.DynamicDimension.0": (1, 6, 1), "p2o.DynamicDimension.1": (32, 1280, 1), "x.2": (48, 48, 1)},
    )
    alphabet = ["", *pair.session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
    with trained("ocr_lines/imgs/labels.csv").open(encoding="utf-8") as file:
        truth = {row["file"]: row["truth"] for row in csv.DictReader(file) if row["kind"].startswith("line")}
    lines = [(name, 0) for name in truth] + [("text_cls.jpg", 2)]
    same = total = right = 0
    widths = set()
    for name, turns in lines:
        for width in (natural(name), natural(name) // 2 + len(widths)):
            widths.add(width)
            got, want = pair({"x": line((name, turns), width)[None]})
            mine, theirs = (read(next(iter(found.values()))[0], alphabet) for found in (got, want))
            same += mine == theirs
            total += 1
            right += width == natural(name) and mine == truth.get(name)
    for width in (401, 644):
        widths.add(width)
        got, want = pair({"x": np.stack([line(each, width) for each in lines])})
        for mine, theirs in zip(next(iter(got.values())), next(iter(want.values()))):
            same += read(mine, alphabet) == read(theirs, alphabet)
            total += 1
    what = f"{len(widths)} widths from {min(widths)} to {max(widths)}, 1 and {len(lines)} lines at a time"
    what += f"; {right} of {len(truth)} labels read right"
    return Row("ch_PP-OCRv4_rec", what, pair.relative, same=same, decisions=total, what="text of a line")


def read(scores: np.ndarray, alphabet: list[str]) -> str:
    """The most likely symbol of every step; what repeats counts once, blanks not at all."""
    best = scores.argmax(1)
    return "".join(alphabet[s] for k, s in enumerate(best) if s and (k == 0 or s != best[k - 1]))


@case("ch_ppocr_mobile_v2.0_cls")
def orientation() -> Row:
    pair = Beside(
        from_wheel("ch_ppocr_mobile_v2.0_cls_infer"),
        dims={"x.0": (1, 6, 1), "x.2": (48, 48, 1), "x.3": (192, 192, 1)},
    )
    names = ("text_rec.jpg", "test_without_det.jpg", "en_rec.jpg", "text_cls.jpg", "short.png")
    lines = np.stack([line((name, turns), 192) for name in names for turns in (0, 2)])
    same, at = 0, 0
    for batch in (1, 2, 3, 4):
        got, want = pair({"x": lines[at : at + batch]})
        same += int((next(iter(got.values())).argmax(1) == next(iter(want.values())).argmax(1)).sum())
        at += batch
    return Row(
        "ch_ppocr_mobile_v2.0_cls",
        "10 lines, 1 to 4 at a time",
        pair.relative,
        same=same,
        decisions=at,
        what="turned or not",
    )


def faces(number: int, size: tuple[int, int] | None = None) -> np.ndarray:
    return picture(trained(f"face_ultralight/imgs/{number}.jpg"), size)


@case("mtcnn pnet")
def proposals() -> Row:
    """A picture at five scales, as the wheel makes its pyramid (columns before rows)."""
    pair = Beside(from_wheel("pnet"), dims={"N": (1, 1, 1), "M1": (12, 480, 1), "M2": (12, 480, 1)})
    rows, columns = faces(1).shape[:2]
    same = total = 0
    sizes = []
    for scale in (480, 341, 242, 172, 59):
        width, height = (ceil(n * scale / max(rows, columns)) for n in (columns, rows))
        sizes.append((width, height))
        pixels = (faces(1, (width, height)).astype(np.float32) - 127.5) / 128
        got, want = pair({"input_1": np.ascontiguousarray(pixels.transpose(1, 0, 2))[None]})
        same += int(((got["softmax"][..., 1] > 0.6) == (want["softmax"][..., 1] > 0.6)).sum())
        total += want["softmax"][..., 1].size
    what = f"sizes {', '.join(f'{w}x{h}' for w, h in sizes)}"
    return Row("mtcnn pnet", what, pair.relative, same=same, decisions=total, what="face or not")


def crops(name: str, port: str, size: int) -> Row:
    """Windows of a picture, some of them faces; five numbers of them."""
    pair = Beside(from_wheel(name), dims={"N": (1, 64, 1)})
    whole, random = faces(1), np.random.default_rng(6)
    same = total = 0
    for count in (1, 2, 17, 40, 64):
        batch = []
        for _ in range(count):
            side = int(random.integers(24, min(whole.shape[:2]) // 2))
            r, c = (int(random.integers(0, n - side)) for n in whole.shape[:2])
            places = np.arange(size) * side // size
            batch.append(whole[r + places][:, c + places])
        pixels = (np.stack(batch).astype(np.float32) - 127.5) / 128
        got, want = pair({port: np.ascontiguousarray(pixels.transpose(0, 2, 1, 3))})
        score = next(n for n in want if n.startswith("softmax"))
        same += int(((got[score][:, 1] > 0.7) == (want[score][:, 1] > 0.7)).sum())
        total += count
    return Row(
        f"mtcnn {name}", "1, 2, 17, 40 and 64 windows", pair.relative, same=same, decisions=total, what="face or not"
    )


@case("mtcnn rnet")
def refinement() -> Row:
    return crops("rnet", "input_2", 24)


@case("mtcnn onet")
def landmarks() -> Row:
    return crops("onet", "input_3", 48)


@case("version-RFB-320")
def ultralight() -> Row:
    pair = Beside(trained("face_ultralight/version-RFB-320.onnx"))
    same = total = found = 0
    for path in sorted(trained("face_ultralight/imgs").glob("*.jpg")):
        pixels = (picture(path, (320, 240)).astype(np.float32) - 127) / 128
        got, want = pair({"input": np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]})
        mine, theirs = (f["scores"][0, :, 1] > 0.7 for f in (got, want))
        same, total, found = same + int((mine == theirs).sum()), total + theirs.size, found + int(theirs.sum())
    return Row(
        "version-RFB-320", f"5 pictures, {found} boxes", pair.relative, same=same, decisions=total, what="face or not"
    )


@case("raft_small")
def flow() -> Row:
    """Two frames of a drive; the weights are random, so the flow means nothing, but every number of it counts."""
    pair = Beside(trained("flow_raft_small_untrained/raft_small_seed0_6it_128x192.onnx"))
    frames = sorted(trained("flow_frames").glob("*.jpg"))[:2]
    first, second = (picture(f, (192, 128)).astype(np.float32).transpose(2, 0, 1)[None] for f in frames)
    for a, b in ((first, second), (second, first)):
        pair({"image1": np.ascontiguousarray(a), "image2": np.ascontiguousarray(b)})
    return Row("raft_small", "2 pairs of frames, flow", pair.relative)
