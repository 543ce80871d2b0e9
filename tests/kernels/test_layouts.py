"""Dimensions that lanes run along: layouts where reductions leave a choice, and the loops of products and maps."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import conv, graph, layernorm, number, pad, pool, relu, softmax, total, transpose, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir.graph import Graph, Node, constant
from edgec.ops import contraction
from edgec.rewrite import simplify
from edgec.schedule.build import schedule
from edgec.schedule.layout import innermost_dimensions
from edgec.schedule.program import Kernel


def convolved(channels: int) -> Node:
    return conv(pad(value("x", 1, 16, 12, 12), 1, 1), weights(channels, 16, 3, 3))


def scaled_by_range(x: Node) -> Node:
    """What dynamic quantization does: the least and the greatest of all elements."""
    low, high = total(x, 0, 1, 2, 3, combine="min"), total(x, 0, 1, 2, 3, combine="max")
    return ops.node("div", ops.node("sub", x, low), ops.node("add", ops.node("sub", high, low), number(1e-3)))


def group_norm(x: Node, groups: int) -> Node:
    n, c, h, w = x.type.shape
    flat = ops.node("reshape", x, shape=(n, groups, c // groups * h * w))
    y = ops.node("reshape", layernorm(flat, 2) if groups == 1 else scaled(flat), shape=x.type.shape)
    return ops.node("add", ops.node("mul", y, weights(c, 1, 1)), weights(c, 1, 1))


def scaled(x: Node) -> Node:
    return ops.node("div", x, ops.node("add", total(ops.node("abs", x), 2), number(1.0)))


def kernels_of(one: Graph) -> tuple[Kernel, ...]:
    return schedule(plan(one), load_device("x86_64_avx2")).kernels


def described(one: Graph) -> list[str]:
    return [s.describe for k in kernels_of(one) for s in k.steps if s.block is not None]


def test_lanes_are_all_keys_of_a_window() -> None:
    """Rows and columns of a window that memory holds as one are one loop."""
    keys = transpose(ops.node("reshape", value("k", 3, 7, 5, 24), shape=(3, 35, 24)), 0, 2, 1)
    (text,) = described(graph(ops.node("matmul", value("q", 3, 21, 24), keys)))
    assert text.startswith("contract M=21 N=35 K=24")


def test_rows_by_a_vector_are_not_gathered() -> None:
    assert described(graph(ops.node("matmul", value("x", 51, 70), weights(70, 1)))) == ["rows of 70, 7 at once"]
    (few,) = described(graph(ops.node("matmul", value("x", 51, 3), weights(3, 1))))
    assert few.startswith("window")


def test_columns_are_reduced_along_what_is_contiguous() -> None:
    """Not along the result, whose lanes would be gathered one by one."""
    turned = transpose(value("x", 2, 21, 40), 0, 2, 1)
    size = total(ops.node("mul", turned, turned), 2)
    (text,) = described(graph(ops.node("div", turned, ops.node("sqrt", size))))
    assert text == "map over [2], lanes along 40"


def heads(x: Node, width: int) -> Node:
    """Features of each head as rows over all tokens."""
    _, tokens, features = x.type.shape
    parts = ops.node("reshape", x, shape=(1, tokens, features // width, width))
    return transpose(parts, 0, 2, 3, 1)


def unit(x: Node) -> Node:
    """Rows of length 1."""
    size = ops.node("sqrt", total(ops.node("mul", x, x), x.type.rank - 1))
    return ops.node("div", x, ops.node("max", size, number(1e-3)))


@pytest.mark.parametrize("width", (12, 22))
def test_norms_over_tokens_keep_the_features_contiguous(width: int) -> None:
    """Of rows that lie across what a product stores, lanes run along its columns, and no result is scattered."""
    made = ops.node("matmul", value("x", 1, 100, 16), weights(16, 4 * width))
    q, k = (unit(heads(ops.node(op, made, number(2.0)), width)) for op in ("add", "mul"))
    one = graph(ops.node("matmul", q, transpose(k, 0, 1, 3, 2)))
    found = [text for text in described(one) if text.startswith(("map", "row"))]
    assert found == [f"map over [4], lanes along {width}"] * 2


def test_features_across_rows_of_a_result_are_lanes_all_the_same() -> None:
    """A caller's array has tokens in its rows: lanes run along features, in runs of which heads are one."""
    made = ops.node("exp", value("x", 1, 100, 48))
    (text,) = described(graph(unit(heads(made, 12))))
    assert text == "map over [], lanes along 48"


def test_mixed_heads_have_lanes_along_their_keys() -> None:
    """Products of few columns store rows along what their neighbors have contiguous, on both sides of a softmax."""
    scores = ops.node("matmul", value("q", 1, 4, 40, 16), value("k", 1, 4, 16, 40))
    mixed = ops.node("matmul", transpose(scores, 0, 2, 3, 1), weights(4, 4))
    shares = softmax(transpose(mixed, 0, 3, 1, 2), 3)
    again = transpose(ops.node("matmul", transpose(shares, 0, 2, 3, 1), weights(4, 4)), 0, 3, 1, 2)
    first, before, row, after, last = described(graph(ops.node("matmul", again, value("v", 1, 4, 40, 16))))
    assert before.startswith("contract M=4 N=40 K=4") and after.startswith("contract M=4 N=40 K=4")
    assert row.startswith("row of 40") and first.startswith("contract M=40") and last.startswith("contract M=40")


def test_channels_that_data_choose_places_of_are_lanes() -> None:
    """Of every place that data choose the channels lie side by side, though the result has places so."""
    image, weights = transpose(value("x", 40, 32), 1, 0), value("w", 24, 4)
    left, right = (ops.node("gather", image, value(p, 24, 4, dtype="i32"), axis=1) for p in "pq")
    (text,) = described(graph(total(ops.node("add", left, ops.node("mul", weights, right)), 2)))
    assert text == "map over [24], lanes along 32"


def test_means_over_pixels_and_single_rows_are_shared_by_threads() -> None:
    """Tasks of a mean are as short as its sums are long, and one row by weights is no task alone."""
    pixels = transpose(value("x", 1, 3136, 256), 0, 2, 1)
    (mean,) = kernels_of(graph(total(pixels, 2)))
    assert (mean.schedule.describe, mean.schedule.lane_block) == ("map over [], lanes along 256", 16)
    (row,) = described(graph(ops.node("matmul", value("r", 1, 2048), weights(2048, 64))))
    assert row.startswith("contract M=1 N=64 K=2048, tile 1 rows x 4 vectors of 8")


def test_tasks_of_interleaving_are_whole_rows() -> None:
    (text,) = described(graph(transpose(value("x", 70, 2, 61), 0, 2, 1)))
    assert text == "map over [70, 61], scalar"
    (text,) = described(graph(transpose(value("x", 2, 6100), 1, 0)))  # one loop of tasks is left
    assert text == "map over [6100, 2], scalar"


def test_depthwise_convolution_of_channels_last_keeps_them() -> None:
    """Written as tf2onnx and PyTorch's channels-last blocks do: transposed before it and after it."""
    x = relu(ops.node("mul", value("x", 1, 14, 14, 48), value("y", 1, 14, 14, 48)))
    y = conv(pad(transpose(x, 0, 3, 1, 2), 1, 1), weights(48, 1, 3, 3), groups=48)
    found = plan(graph(relu(ops.node("matmul", transpose(y, 0, 2, 3, 1), weights(48, 20)))))
    channels = {n: n.type.shape.index(48) for n in innermost_dimensions(found) if 48 in n.type.shape}
    assert {innermost_dimensions(found)[n] == d for n, d in channels.items()} == {True}


def test_rows_that_are_gathered_leave_the_layout_to_their_reader() -> None:
    """Resized images, of which columns are gathered: rows are no better to have contiguous than channels."""
    x = conv(value("x", 1, 16, 7, 7), weights(32, 16, 1, 1))
    wide = ops.node("gather", ops.node("tanh", x), constant(np.arange(14) // 2), axis=3)
    found = plan(graph(conv(ops.node("exp", wide), weights(9, 32, 1, 1))))
    inner = innermost_dimensions(found)
    assert {d for n, d in inner.items() if n.type.shape[1:2] == (32,)} == {1}


def test_windows_run_along_rows_or_channels_as_their_neighbors_do() -> None:
    """Alone, a caller's rows are read and written; the padded copy between them is no reason for channels last."""
    image = pad(value("x", 1, 32, 20, 20), 1, 1)
    wide = pad(conv(image, weights(32, 1, 5, 5), groups=32), 1, 1)
    alone = plan(graph(pool(pool(wide, "max", (3, 3)), "add", (2, 2))))
    assert set(innermost_dimensions(alone).values()) <= {3}
    between = plan(graph(conv(pool(relu(conv(image, weights(32, 32, 3, 3))), "max", (3, 3)), weights(8, 32, 1, 1))))
    pooled = next(b.output for b in between.blocks if any(n.op == "pool" for n in b.nodes))
    assert innermost_dimensions(between)[between.root_of(pooled)[0]] == 1


def test_range_of_a_convolution_leaves_its_channels_contiguous() -> None:
    one = graph(conv(relu(scaled_by_range(convolved(32))), weights(8, 32, 1, 1)))
    found = plan(one)
    convolution = next(n for n in innermost_dimensions(found) if n.op == "conv" and n.type.shape[1] == 32)
    assert innermost_dimensions(found)[convolution] == 1


def test_reduction_alone_reads_along_its_last_dimension() -> None:
    made = relu(ops.node("mul", value("a", 6, 5, 7), value("b", 6, 5, 7)))
    found = plan(graph(total(made, 1, 2), relu(made)), "none")
    assert {d for n, d in innermost_dimensions(found).items() if n.type.shape == (6, 5, 7)} == {2}


def test_normalized_groups_are_stored_as_their_reader_wants_them() -> None:
    """With the element-wise work that follows, in one kernel; not in the shape in which the groups are rows."""
    for groups in (1, 4):
        normed = group_norm(convolved(32), groups)
        one = graph(conv(pad(ops.node("mul", normed, ops.node("sigmoid", normed)), 1, 1), weights(8, 32, 3, 3)))
        blocks = plan(one).blocks
        (row,) = [b for b in blocks if b.kind == "row"]
        assert row.output.type.shape == (1, 32, 12, 12) and row.output.op == "mul"
        assert not [b for b in blocks if b.kind == "map" and len(b.nodes) > 1]
        assert any(text.startswith("row of") for text in described(one))


def test_groups_that_two_shapes_read_stay_rows() -> None:
    normed = layernorm(ops.node("reshape", convolved(32), shape=(1, 1, 32 * 144)), 2)
    image = ops.node("reshape", normed, shape=(1, 32, 12, 12))
    rows = ops.node("reshape", normed, shape=(1, 144, 32))
    blocks = plan(graph(conv(image, weights(8, 32, 1, 1)), ops.node("matmul", rows, weights(32, 9)))).blocks
    (row,) = [b for b in blocks if b.kind == "row"]
    assert row.output.type.shape == (1, 1, 32 * 144)


def test_vectors_are_turned_not_gathered() -> None:
    """A transpose alone, and copies around what has lanes of channels between arrays whose rows are contiguous."""
    (text,) = described(graph(transpose(value("x", 100, 70), 1, 0)))
    assert text.startswith("transpose of 70 by 100")
    x = value("x", 1, 40, 14, 14)
    for one in (conv(x, weights(40, 1, 3, 3), 2, groups=40), pool(x, "max", (2, 2), 2)):
        before, window, after = described(graph(one))
        assert (before[:9], window[:6], after[:9]) == ("transpose", "window", "transpose")
    sliding = conv(x, weights(40, 1, 3, 3), groups=40)  # whose rows are as good as channels
    assert len(described(graph(sliding))) == 1


def test_no_panel_is_packed_for_one_row() -> None:
    """Rows of a depthwise convolution share no factor: a window reads each element where it lies."""
    x, w = value("x", 1, 6, 20, 21, dtype="u8"), constant(np.ones((6, 1, 3, 3), np.int8))
    (text,) = described(graph(conv(ops.node("cast", x, to="i32"), ops.node("cast", w, to="i32"), groups=6)))
    assert text.startswith("window of 3x3")


def test_phases_side_by_side_are_written_by_channel() -> None:
    """Lanes of a transposed convolution are its channels, whoever reads them, those of both columns side by side."""
    up = contraction.transposed_conv(value("x", 1, 24, 9, 9), weights(24, 16, 2, 2), (2, 2), (1, 1), 1, (18, 18))
    simplified, *_ = simplify(graph(up))  # its weights: one constant
    texts = described(simplified)
    assert any(text.startswith("contract M=9 N=32 K=24") for text in texts), texts


def reduced_rows(x: Node) -> Node:
    return ops.node("mul", softmax(x, x.type.rank - 1), number(2))


def shifted(x: Node) -> Node:
    """Relative positions [4, n, 2n - 1] as keys of each query [4, n, n]: padded, reshaped and cut."""
    heads, n, positions = x.type.shape
    y = ops.node("reshape", pad(x, (1, 0)), shape=(heads, positions + 1, n))
    y = ops.node("slice", y, starts=(0, 1, 0), steps=(1, 1, 1), shape=(heads, positions, n))
    y = ops.node("reshape", y, shape=(heads, n, positions))
    return ops.node("slice", y, starts=(0, 0, 0), steps=(1, 1, 1), shape=(heads, n, n))


def cropped_phases(channels: int) -> Node:
    """The result of a transposed convolution of step 2: phases side by side, without the border."""
    made = conv(value("x", 1, 6, 9, 11), weights(4 * channels, 6, 1, 1))
    phases = ops.node("reshape", made, shape=(1, channels, 2, 2, 9, 11))
    whole = ops.node("reshape", transpose(phases, 0, 1, 4, 2, 5, 3), shape=(1, channels, 18, 22))
    return ops.node("slice", whole, starts=(0, 0, 1, 1), steps=(1, 1, 1, 1), shape=(1, channels, 16, 20))


@pytest.mark.parametrize("combine", ["min", "add"])
def test_elements_between_phases_are_not_reduced_one_by_one(combine: str) -> None:
    """Elements between others, at positions that are divided, are stored in order before all are reduced."""
    kept = total(cropped_phases(4), 0, 1, 2, 3, combine=combine)
    *_, stored, last = described(graph(kept))
    assert stored.startswith("map") and last.startswith("rows of 4 x 16 x 20")
    means = described(graph(total(cropped_phases(8), 2, 3, combine=combine)))
    assert len(means) == 2 and not means[-1].endswith("scalar")


def wider_by(channels: int) -> Node:
    """A convolution's result with channels of zeros behind its own, as in shortcuts without weights."""
    return pad(conv(value("x", 1, 6, 9, 9), weights(6, 6, 1, 1)), (0, channels), 0, 0)


@pytest.mark.parametrize(
    "padded",
    [
        ops.node("tanh", pad(value("x", 70, 57), (3, 4))),
        reduced_rows(ops.node("add", value("y", 3, 70, 64), pad(value("x", 1, 61), (3, 0)))),
        reduced_rows(shifted(value("x", 4, 32, 63))),
        ops.node("tanh", pad(value("x", 1, 9, 14, 21), (1, 0), (1, 2))),
        conv(relu(ops.node("add", wider_by(9), value("z", 1, 15, 9, 9))), weights(8, 15, 1, 1)),
    ],
)
def test_lanes_are_not_chosen_by_their_position(padded: Node) -> None:
    """A vector reads what is padded from memory, where lanes run along the padding."""
    assert not [text for text in described(graph(padded)) if text.endswith("scalar")]


@pytest.mark.parametrize(("channels", "is_across"), [(3, True), (24, False)])
def test_softmax_over_few_channels_has_lanes_along_pixels(channels: int, is_across: bool) -> None:
    made = relu(ops.node("mul", value("a", 1, channels, 9, 20), weights(1, channels, 1, 20)))
    wide = convolved(channels) if not is_across else made
    (last,) = [s for k in kernels_of(graph(softmax(wide, 1))) for s in k.steps[-1:]][-1:]
    assert (last.template == "map") == is_across


def test_sums_of_columns_leave_rows_as_they_are() -> None:
    """As the gradient of a bias, beside a normalization of the rows that it sums up."""
    x = value("x", 1, 197, 48)
    slopes = layernorm(ops.node("mul", x, number(2.0)), 2)
    (inner,) = (b for b in plan(graph(layernorm(slopes, 2), total(slopes, 1))).blocks if b.output is slopes)
    found = innermost_dimensions(plan(graph(layernorm(slopes, 2), total(slopes, 1))))
    assert found.get(inner.output, 2) == 2
    sums = [d for d in described(graph(layernorm(slopes, 2), total(slopes, 1))) if "lanes along 48" in d]
    assert sums, "lanes are results"
