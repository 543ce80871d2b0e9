"""Prices and variants from the profile database, for the target of a build."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from edgec.device.compilers import compiler_for
from edgec.errors import ToolchainError
from edgec.fuse.choice import BlockCosts
from edgec.fuse.cost_model import CostModel
from edgec.options import Options
from edgec.schedule.variants import Variants, measurements
from edgec.tune.database import Profiles, Target, target_of


def prices_for(options: Options, frozen: Mapping[str, str] | None = None) -> BlockCosts:
    """Costs of blocks for a build: earlier choices, times in the database, the model of the device."""
    return BlockCosts(CostModel(options.device), _times(options).get, frozen or {})


def variants_for(options: Options) -> Variants:
    """Variants of products in a build, by the times in the database."""
    return Variants(measurements(_times(options)))


def _times(options: Options) -> Mapping[str, float]:
    """Times in the database for the target of a build, if they are to count."""
    if options.profiles and Profiles().path.is_file():
        with suppress(ToolchainError):  # without its compiler nothing was measured for this target
            return Profiles().known(target(options))
    return {}


def target(options: Options) -> Target:
    """The target of a build. Raises ToolchainError when there is no compiler for it.

    Kernels in OpenCL are compiled by the driver of the device, which nobody here knows.
    """
    folders = (*options.templates, *options.micro_kernels)
    if options.device.language == "opencl":
        return target_of(options.device, "its driver", folders)
    compiler = compiler_for(options.device, options.compiler)
    return target_of(options.device, str(compiler), folders)
