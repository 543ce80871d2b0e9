"""Rules that have no proof for all values, and what stands in the way; their instances are tested all the same."""

from __future__ import annotations

_ZERO_POINT = (
    "its code computes with the values of zero points, scales or weights: a proof would hold for one choice of them"
)
_ROUNDED = "the constants on the right are rounded when they are computed, so that no identity of reals is left"

REASONS = {
    "add_before_scaling": "it asks whether an offset is a whole number of scales, up to rounding: no identity of reals",
    "compare_integers": "that no two bytes become one number follows from how floats round, not from a formula",
    "divide_the_weights": _ROUNDED,
    "draw_out_zero_point": _ZERO_POINT,
    "drop_taps_over_padding": "numbers decide which taps only read padding: its examples are drawn until one fits",
    "enlarge_kernel": "the taps of its kernels are constants by the dozen, and each would be a case",
    "fold_constants": "it executes the definition that a proof would compare it with",
    "join_bounds": "bounds are passed through roundings and scales as numbers, and are rounded there",
    "join_casts": "element types are not part of the formulas that are compared",
    "move_integers": _ZERO_POINT,
    "multiply_integers": _ZERO_POINT,
    "quantize_before_joining": _ZERO_POINT,
    "scale_around_gate": _ROUNDED,
    "shift_the_weights": _ZERO_POINT,
    "sink_below_constant": "its code compares products of sizes, which the ranges of open sizes leave undecided",
    "store_unsigned": _ZERO_POINT,
    "straighten_movement": "its code follows positions one by one, which needs numbers for all sizes",
    "sum_integers": _ZERO_POINT,
}  # fmt: skip
