"""edgec: ONNX and TensorFlow Lite models into readable, fast C.

Its names are imported when they are first used, so that `import edgec` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from edgec.version import __version__

if TYPE_CHECKING:
    from edgec.advise.advise import Advice, advise
    from edgec.api import bench, build, check, from_torch, load, masks, reopen, score, tune
    from edgec.artifact.language_model import LanguageModel
    from edgec.artifact.network import Network
    from edgec.artifact.sampling import Sampling
    from edgec.artifact.session import Session
    from edgec.artifact.tokenizer import Tokenizer
    from edgec.artifact.trainer import Trainer
    from edgec.build import Built, Model
    from edgec.certify.interface import certify
    from edgec.distribute.build import build_over
    from edgec.distribute.coordinator import Several
    from edgec.distribute.gpus import build_gpus
    from edgec.errors import EdgecError
    from edgec.report.look import explain, inspect, profile

__all__ = [
    "Advice", "Built", "EdgecError", "LanguageModel", "Model", "Network", "Sampling", "Session", "Several", "Tokenizer",
    "Trainer", "__version__", "advise", "bench", "build", "build_gpus", "build_over", "certify", "check", "explain",
    "from_torch", "inspect", "load", "masks", "profile", "reopen", "score", "tune",
]  # fmt: skip

#: The modules of the public names.
_MODULES = {
    **dict.fromkeys(("bench", "build", "check", "from_torch", "load", "masks", "reopen", "score", "tune"), "edgec.api"),
    **dict.fromkeys(("Built", "Model"), "edgec.build"),
    **dict.fromkeys(("explain", "inspect", "profile"), "edgec.report.look"),
    **dict.fromkeys(("Advice", "advise"), "edgec.advise.advise"),
    "build_gpus": "edgec.distribute.gpus",
    "build_over": "edgec.distribute.build",
    "certify": "edgec.certify.interface",
    "EdgecError": "edgec.errors",
    "LanguageModel": "edgec.artifact.language_model",
    "Network": "edgec.artifact.network",
    "Sampling": "edgec.artifact.sampling",
    "Session": "edgec.artifact.session",
    "Several": "edgec.distribute.coordinator",
    "Tokenizer": "edgec.artifact.tokenizer",
    "Trainer": "edgec.artifact.trainer",
}


class _Package(ModuleType):
    """The package, whose public names are imported when they are first used.

    Some submodules have the name of a function (`edgec.build`). The import system binds a submodule in its package;
    here such a name stays the function's, whatever was imported before.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_MODULES[name]), name)
        self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
