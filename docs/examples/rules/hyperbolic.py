"""A rule of your own. Use it with --rules and the folder of this file."""

from edgec.rewrite import rule, sigmoid, tanh


@rule("hyperbolic", numeric="reassociates", dtypes="float")
def recognize_tanh(x):
    """2 * sigmoid(2 * x) - 1 = tanh(x)."""
    return 2 * sigmoid(2 * x) + -1, tanh(x)
