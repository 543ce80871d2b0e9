"""Low-rank adapters as PEFT saves them: adapter_config.json and matrices in safetensors."""

from __future__ import annotations

import re
from pathlib import Path

from edgec.errors import ModelError, UsageError
from edgec.frontend.hugging import safetensors
from edgec.frontend.hugging.document import Document, opened
from edgec.frontend.language.adapter import Adapter, Pair
from edgec.text import printable

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_MATRIX = re.compile(r"(.+)\.lora_([AB])(?:\.[A-Za-z0-9_-]+)?\.weight")
#: Ways to begin a training that leave the weights of the model as they are.
_STARTS = (True, False, "gaussian", "eva", "orthogonal")
#: Settings that change what an adapter means.
_REFUSED = (
    "use_dora", "use_qalora", "lora_bias", "layer_replication", "modules_to_save", "alora_invocation_tokens",
    "trainable_token_indices", "target_parameters", "exclude_from_scaling", "megatron_config", "arrow_config",
)  # fmt: skip


def read_adapter(path: Path) -> Adapter:
    """The adapter in a folder, or in a file of matrices with the description beside it.

    Raises ModelError for what is damaged or not supported, UsageError for what cannot be read.
    """
    folder, file = (path, path / WEIGHTS) if path.is_dir() else (path.parent, path)
    if not (folder / CONFIG).is_file():
        raise UsageError(
            f"the adapter has no {CONFIG}", hint="save it with PEFT's save_pretrained(FOLDER)", where=str(path)
        )
    config, where = opened(folder / CONFIG), printable(str(file))
    _check(config)
    matrices: dict[str, dict[str, safetensors.Stored]] = {}
    for name, stored in safetensors.read(file).items():
        found = _MATRIX.fullmatch(name)
        if found is None:
            raise ModelError(
                f"tensor '{printable(name)}' is no matrix of a low-rank adapter", hint="train without it", where=where
            )
        module = found[1].removeprefix(_PREFIX)
        if found[2] in matrices.setdefault(module, {}):
            raise ModelError(f"the adapter has two matrices {found[2]} of '{printable(module)}'", where=where)
        matrices[module][found[2]] = stored
    pairs = {}
    for module, both in matrices.items():
        if len(both) < 2:
            raise ModelError(f"the adapter has one matrix of '{printable(module)}' alone", where=where)
        down, up = both["A"].array(), both["B"].array()
        pairs[module] = Pair(down, up, _scale(config, module, len(down) if down.ndim else 0))
    return Adapter(where, pairs, by_module=True)


def _check(d: Document) -> None:
    """Raises ModelError for adapters of another kind than low-rank products beside those of the model."""
    kind = d.text("peft_type")
    if kind != "LORA":
        raise ModelError(f"the adapter is of type {printable(kind)}, which is not supported", where=d.where)
    start = d.values.get("init_lora_weights", True)
    if start is not None and not any(start is s or (isinstance(s, str) and start == s) for s in _STARTS):
        raise ModelError(
            f"the adapter began with '{printable(str(start))}', which changes the weights of the model",
            hint="convert it with PEFT's path_initial_model_for_weight_conversion",
            where=d.where,
        )
    for name in _REFUSED:
        if d.values.get(name):
            raise ModelError(f"'{name}' is set, which is not supported", where=d.where)


def _scale(d: Document, module: str, rank: int) -> float:
    """The factor of a product: alpha over the rank, or over its root."""
    wanted = _chosen(d, "rank_pattern", module, d.number("r"))
    if wanted != rank:
        raise ModelError(f"'{printable(module)}' has rank {rank}, and the description says {wanted:g}", where=d.where)
    alpha = _chosen(d, "alpha_pattern", module, d.number("lora_alpha", 8.0))
    divisor = float(max(rank, 1))
    return alpha / (divisor**0.5 if d.flag("use_rslora") else divisor)


def _chosen(d: Document, patterns: str, module: str, usual: float) -> float:
    """The number for a module: that of the first name in ``patterns`` which the module's name ends in."""
    given = d.part(patterns)
    for name in given.values:
        if not re.fullmatch(r"\^?[\w.]+\$?", name):  # others are regular expressions, of any cost
            raise ModelError(f"'{patterns}' has '{printable(name)}', which is no name of a module", where=d.where)
        plain = name.removeprefix("^").removesuffix("$")
        if module == plain or (module.endswith("." + plain) and not name.startswith("^")):
            return given.number(name)
    return usual
