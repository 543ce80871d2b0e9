"""The backend of torch.compile: equal to eager, with what edgec does not take left to PyTorch and told."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="pip install torch onnxscript")
pytest.importorskip("onnxscript", reason="pip install torch onnxscript")

from edgec.pytorch import backend  # noqa: E402


class Scaled(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A convolution, a normalization and a scale; gives sizes and its input back, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.scale = torch.nn.Parameter(torch.rand(4, 1, 1))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm(self.conv(x))) * self.scale
        return y.mean((2, 3)), x.shape[0], x


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def _same(got: Any, want: Any) -> bool:
    return bool(torch.allclose(got, want, rtol=1e-4, atol=1e-5))


def test_it_computes_what_eager_does_at_every_batch() -> None:
    module = Scaled().eval()
    run = torch.compile(module, backend=backend.compiled, options={"threads": 1})
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", backend.NotTaken)
        for size in (2, 3, 5):
            x = torch.randn(size, 3, 9, 7)
            got, want = run(x), module(x)
            assert _same(got[0], want[0]) and got[1] == size and got[2] is x


def test_changed_weights_are_read_again() -> None:
    module, x = Scaled().eval(), torch.randn(2, 3, 8, 8)
    run = torch.compile(module, backend=backend.compiled)
    with torch.no_grad():
        before = run(x)[0].clone()
        module.scale.mul_(2)
        assert _same(run(x)[0], module(x)[0]) and not _same(run(x)[0], before)


def test_gradients_are_left_to_pytorch_and_told() -> None:
    module, x = Scaled().eval(), torch.randn(2, 3, 8, 8)
    run = torch.compile(module, backend=backend.compiled)
    with pytest.warns(backend.NotTaken, match=r"no_grad"):
        y = run(x)[0]
    y.sum().backward()
    assert module.scale.grad is not None


def test_an_option_that_there_is_not_is_an_error() -> None:
    with torch.no_grad(), pytest.raises(Exception, match=r"(?s)there is no option 'thraeds'.*did you mean 'threads'"):
        torch.compile(Scaled().eval(), backend=backend.compiled, options={"thraeds": 2})(torch.randn(2, 3, 8, 8))


class Buffered(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module that adds to a buffer in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return x * self.count


def test_a_graph_that_edgec_refuses_runs_in_pytorch() -> None:
    module = Buffered().eval()
    run = torch.compile(module, backend=backend.compiled)
    x = torch.randn(3)
    with torch.no_grad():
        with pytest.warns(backend.NotTaken, match="in place|mutated"):
            assert _same(run(x), x)
        assert _same(run(x), 2 * x)
        assert float(module.count[0]) == 2
