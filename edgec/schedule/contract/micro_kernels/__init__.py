"""The micro-kernels of edgec, one module an instruction: every module of this folder is loaded."""

from importlib import import_module
from pkgutil import iter_modules

from edgec.schedule.contract.micro_kernel import defined_in, register

for _module in iter_modules(__path__):
    for _micro in defined_in(import_module(f"{__name__}.{_module.name}")):
        register(_micro, _module.name)
