"""The backend of torch.compile: `torch.compile(module, backend="edgec")` runs graphs of a module by edgec.

A graph is built for the shapes that it is called with, once for each, with the weights of that moment as constants.
What edgec does not take (gradients, devices other than the processor, operators) runs as PyTorch runs it, with a
warning that says why. Source of the interface: PyTorch's documentation of custom backends.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec import api
from edgec.errors import EdgecError, ModelError
from edgec.options import resolve
from edgec.pytorch.export import exported, torch_or_refuse

#: Graphs of other shapes that are kept built; the one that was built first goes.
MOST_BUILT = 8
#: How Dynamo marks inputs that are parameters and buffers of the module.
_STATIC = "_dynamo_static_input_type"
#: Keywords of `edgec.build` beside the options.
_OWN = frozenset(inspect.signature(api.build).parameters)


class NotTaken(UserWarning):
    """A warning that a graph runs in PyTorch, and the reason."""


def compiled(graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A function that computes what the torch.fx.GraphModule ``graph`` does, on the tensors that it takes.

    ``options`` are keywords of `edgec.build`; ``threads`` is that of PyTorch by default. The weights are those of the
    first call, and read again when PyTorch says that they changed. Raises UsageError for an option that there is not.
    """
    given: Any = {name: value for name, value in (options or {}).items() if name not in _OWN}
    resolve(given)
    return _Graph(graph, {"threads": torch_or_refuse().get_num_threads(), **(options or {})})


class _Graph:
    """A graph of Dynamo's and the networks that were built of it, by shapes of its inputs."""

    def __init__(self, module: Any, settings: dict[str, Any]) -> None:
        self.torch = torch_or_refuse()
        self.module = module
        self.settings = settings
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.weights = [k for k, n in enumerate(placeholders) if _STATIC in (n.meta.get("tensor_dict") or {})]
        self.inputs = [k for k in range(len(placeholders)) if k not in self.weights]
        self.networks: dict[tuple[Any, ...], Any] = {}
        self.versions: tuple[tuple[int, int], ...] = ()
        self.refused = ""

    def __call__(self, *given: Any) -> Any:
        reason = self.refused or self._reason(given)
        if not reason:
            try:
                return self._run(given)
            except EdgecError as error:
                reason = self.refused = error.message
        self._tell(reason)
        return self.module(*given)

    def _reason(self, given: Sequence[Any]) -> str:
        """Why this call is PyTorch's; empty where it is edgec's."""
        tensors = [g for g in given if isinstance(g, self.torch.Tensor)]
        if self.torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return "gradients are wanted: call it under torch.no_grad() or torch.inference_mode()"
        elsewhere = next((t.device.type for t in tensors if t.device.type != "cpu"), None)
        return f"tensors are on {elsewhere}, and the network is for the processor" if elsewhere else ""

    def _tell(self, reason: str) -> None:
        warnings.warn(f"edgec leaves a graph to PyTorch: {reason}", NotTaken, stacklevel=4)

    def _run(self, given: Sequence[Any]) -> Any:
        versions = tuple((given[k].data_ptr(), given[k]._version) for k in self.weights)
        if versions != self.versions:
            self.networks.clear()
            self.versions = versions
        variable = [given[k] for k in self.inputs]
        key = tuple((g.dtype, tuple(g.shape)) if isinstance(g, self.torch.Tensor) else g for g in variable)
        if key not in self.networks:
            if len(self.networks) >= MOST_BUILT:
                del self.networks[next(iter(self.networks))]
            self.networks[key] = self._built(given)
        network, places, shape = self.networks[key]
        arrays = {
            port.onnx_name: np.ascontiguousarray(given[k].detach().numpy())
            for port, k in zip(network.inputs, places)
        }  # fmt: skip
        results = iter(network.run(arrays).values())
        return type(shape)(self.torch.from_numpy(np.asarray(next(results))) if s is None else s for s in shape)

    def _built(self, given: Sequence[Any]) -> tuple[Any, list[int], Any]:
        """A network of these shapes, the places of its inputs among those given, and a pattern of the results.

        A None in the pattern is a tensor of the network's, anything else a number that the shapes decide.
        """
        torch = self.torch
        places = [k for k in self.inputs if isinstance(given[k], torch.Tensor)]
        unusual = next((str(given[k].dtype) for k in places if given[k].dtype == torch.bfloat16), None)
        if unusual:
            raise ModelError(f"numpy has no {unusual}")
        fixed = _Fixed(torch, self.module, given, places)
        with torch.no_grad():
            shape = fixed.pattern()
            proto, _ = exported(fixed.module(), tuple(fixed.given[k] for k in places))
        network = api.build(proto, **self.settings).network
        if len(network.inputs) != len(places):
            raise ModelError(f"{len(places) - len(network.inputs)} inputs are lost on the way to ONNX")
        return network, places, shape


class _Fixed:
    """A graph with all that is no tensor of the call fixed: weights, and numbers that are sizes."""

    def __init__(self, torch: Any, graph: Any, given: Sequence[Any], places: Sequence[int]) -> None:
        self.torch, self.graph, self.places = torch, graph, list(places)
        # Copies: a graph that changes its tensors in place is refused, after a run that shows it.
        self.given = [g.detach().clone() if isinstance(g, torch.Tensor) else g for g in given]
        self.kept: list[int] = []

    def pattern(self) -> Any:
        """The results by kind, of one run: None for a tensor, the number itself otherwise."""
        results = self._run([self.given[k] for k in self.places])
        held = [r if not isinstance(r, self.torch.Tensor) else None for r in results]
        self.kept = [k for k, r in enumerate(results) if isinstance(r, self.torch.Tensor)]
        if not self.kept:
            raise ModelError("it computes no tensor")
        return type(results)(held) if isinstance(results, (tuple, list)) else tuple(held)

    def _run(self, tensors: Sequence[Any]) -> Any:
        call = list(self.given)
        for k, tensor in zip(self.places, tensors):
            call[k] = tensor
        return self.graph(*call)

    def module(self) -> Any:
        """A torch.nn.Module of the tensors alone."""
        fixed = self

        class Module(self.torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, *tensors: Any) -> Any:
                results = fixed._run(tensors)
                return tuple(results[k] for k in fixed.kept)

        return Module()
