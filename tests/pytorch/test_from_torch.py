"""Modules of PyTorch as networks: shapes, ranges of open sizes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edgec
from edgec.errors import EdgecError, ModelError, UsageError

torch = pytest.importorskip("torch", reason="pip install torch onnxscript")
pytest.importorskip("onnxscript", reason="pip install torch onnxscript")
Dim = torch.export.Dim


class Layers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A convolution with a batch normalization, and a bias [W] that may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.norm.running_mean += torch.rand(8)

    def forward(self, x: Any, bias: Any = None) -> Any:
        y = torch.relu(self.norm(self.conv(x))).mean(1)
        return y if bias is None else (y + bias, bias)


def _close(got: np.ndarray, want: Any) -> bool:
    wanted = want.detach().numpy()
    return got.shape == wanted.shape and float(np.abs(got - wanted).max()) <= 1e-4 * float(np.abs(wanted).max())


def test_a_module_is_built_in_evaluation_and_left_as_it_was() -> None:
    module, x = Layers().train(), torch.randn(2, 3, 16, 12)
    net = edgec.from_torch(module, x)
    assert module.training and module.norm.training
    assert _close(net(x.numpy()), module.eval()(x))
    assert edgec.check(net).verdict == "ok"


def test_dimensions_keep_their_names_and_ranges() -> None:
    module = Layers().eval()
    shapes = ({0: Dim("batch", min=1, max=4), 2: 8 * Dim("h", min=1, max=4)},)
    net = edgec.from_torch(module, (torch.randn(2, 3, 16, 12),), dynamic_shapes=shapes)
    assert "batch" in str(net.network)
    for size in (2, 4):  # PyTorch takes a derived size of 1 for a fixed one
        x = torch.randn(size, 3, 8 * size, 12)
        assert _close(net(x.numpy()), module(x))
    with pytest.raises(EdgecError):
        net(np.zeros((5, 3, 8, 12), np.float32))


def test_inputs_by_name_and_shapes_by_name() -> None:
    module, x, bias = Layers().eval(), torch.randn(2, 3, 8, 12), torch.randn(12)
    shapes = {"x": {0: Dim("n", min=1, max=3)}, "bias": None}
    net = edgec.from_torch(module, (x,), kwargs={"bias": bias}, dynamic_shapes=shapes)
    first, second = net(x[:1].numpy(), bias.numpy()).values()
    wanted = module(x[:1], bias)
    assert _close(first, wanted[0]) and _close(second, wanted[1])


def test_an_exported_program_and_ranges_as_an_option() -> None:
    module, x = Layers().eval(), torch.randn(2, 3, 8, 12)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: Dim("n")},))
    with pytest.raises(UsageError, match="no largest value") as refused:
        edgec.from_torch(program)
    name = str(refused.value.hint).split("dims={'")[1].split("'")[0]
    net = edgec.from_torch(program, dims={name: (1, 3, 1)})
    assert _close(net(x.numpy()), module(x))


class Counting(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module that changes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return x + self.count


class Branching(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module whose Python looks at the data."""

    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("module", "given", "words"),
    [
        (Counting(), (torch.randn(2),), "changes count in place"),
        (Branching(), (torch.randn(2),), "cannot export"),
        (Layers(), None, "example inputs are missing"),
        (len, (torch.randn(2),), "no module of PyTorch"),
    ],
)
def test_what_cannot_be_a_network_is_refused(module: Any, given: Any, words: str) -> None:
    with pytest.raises((ModelError, UsageError), match=words):
        edgec.from_torch(module, given)
