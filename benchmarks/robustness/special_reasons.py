"""Why results at special values differ from onnxruntime's: the differences that stay, by operator and kind."""

from __future__ import annotations

ZERO = "sign of 0"
#: A sentence, the kind of difference, and the operators it holds for; None: for all.
REASONS: tuple[tuple[str, str, tuple[str, ...] | None], ...] = (
    ("The standard does not say which zero a sum, a product of zeros or the greater of two zeros is.", ZERO, None),
    (
        "NaN is the greatest and the least of numbers, as in numpy and in the reference implementation of ONNX; "
        "onnxruntime leaves it out in some kernels, and takes the first place of all.",
        "NaN",
        (
            "MaxPool", "GlobalMaxPool", "MaxRoiPool", "MaxUnpool", "ReduceMax", "ReduceMin", "ScatterElements",
            "ScatterND",
        ),
    ),
    ("The place is that of the first NaN, as in numpy.", "integer", ("ArgMax", "ArgMin")),
    ("The place is that of the first NaN, as in numpy.", "value", ("Hardmax",)),
    ("A bound that is NaN gives NaN, as `Min(max, Max(x, min))` in the standard does.", "NaN", ("Clip",)),
    (
        "A bound that is left out leaves infinities as they are; the standard's default is the largest number.",
        "infinity",
        ("Clip",),
    ),
    (
        "The greatest of nothing but -inf is -inf; onnxruntime begins with the lowest number.",
        "infinity",
        ("MaxPool", "GlobalMaxPool"),
    ),
    ("The same, where a window is outside of the picture.", "value", ("MaxRoiPool",)),
    (
        "onnxruntime's sigmoid and tanh take NaN for a number, and its quantized forms round it to one.",
        "NaN",
        ("GRU", "LSTM", "RNN", "com.microsoft.DynamicQuantizeLSTM", "com.microsoft.DynamicQuantizeMatMul"),
    ),
    (
        "The same.",
        "value",
        ("GRU", "LSTM", "RNN", "com.microsoft.DynamicQuantizeLSTM", "com.microsoft.DynamicQuantizeMatMul"),
    ),
    ("NaN stays NaN; onnxruntime gives 0.", "NaN", ("Sign",)),
    (
        "Zero times an infinity or NaN is NaN, and whether a term that has no weight is multiplied is not in the "
        "standard: masked scores, positions between strides, taps outside of a picture.",
        "NaN",
        ("Attention", "ConvTranspose", "DeformConv", "GridSample", "Resize"),
    ),
    ("The same.", "infinity", ("Attention", "Resize", "STFT")),
    ("Coordinates that are no numbers are held at the border.", "value", ("GridSample",)),
    (
        "Sums of infinities of both signs are NaN in one order and infinite in another.",
        "NaN",
        ("DFT", "STFT", "Det", "InstanceNormalization", "LayerNormalization", "LinearAttention"),
    ),
    ("onnxruntime's running sum keeps a NaN beyond its window.", "NaN", ("LRN",)),
    (
        "A quotient by a denormal is a product with its reciprocal, which is infinite.",
        "NaN",
        ("LpNormalization",),
    ),
    ("The same.", "infinity", ("Div",)),
    (
        "What an integer becomes of NaN, of an infinity or beyond its range is not in the standard.",
        "integer",
        ("DynamicQuantizeLinear", "Pow", "QLinearMatMul", "QuantizeLinear", "ReduceL1", "ReduceLogSum", "Cast"),
    ),
    ("The same, for the scale and for positions.", "value", ("OneHot", "DynamicQuantizeLinear")),
    ("The same.", "infinity", ("DynamicQuantizeLinear",)),
    ("Extremes are those of numbers; onnxruntime's depend on where NaN is.", "NaN", ("DynamicQuantizeLinear",)),
    ("Each NaN is one value of its own or all are one: onnxruntime's order of them is none.", "shape", ("Unique",)),
    (
        "onnxruntime refuses an attribute-like operand at run time; here it is used as a number: a ratio, a threshold, "
        "a divisor of 0 (the quotient is 0), the length of what a mask shows, coordinates of regions.",
        "accepted",
        ("Attention", "Binarizer", "Div", "Dropout", "MaxRoiPool", "Mod", "NonMaxSuppression", "RoiAlign"),
    ),
)  # fmt: skip


def reason(operator: str, wrong: str) -> str | None:
    """Why an operator may differ so; None where nothing is known."""
    for text, kind, operators in REASONS:
        if kind == wrong and (operators is None or operator in operators):
            return text
    return None
