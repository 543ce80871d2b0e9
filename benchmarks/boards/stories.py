"""A language model on microcontrollers: stories260K from flash, on boards that qemu emulates.

    python -m benchmarks.boards.stories --write docs/results/language-models-boards.md

The model is the ONNX decoder of the trained models (EDGEC_MODELS, or ../shared/models), its reference onnxruntime over
the whole text at once. The exit code is 1 where the perplexity is more than 1 % off, or the text another one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import edgec
from benchmarks.networks.catalog import models_folder
from benchmarks.table import markdown
from edgec.artifact.network import Network
from edgec.artifact.tokenizer import Tokenizer

#: Boards by core, characters of the text, new tokens, and the bound of the perplexity's difference.
BOARDS = {"M7": "mps2_an500", "M55": "mps3_an547_qspi"}
CONTEXT, CHARACTERS, COUNT, MOST = 512, 700, 80, 0.01


@dataclass
class Row:
    """The run on one board."""

    core: str
    context: int
    tokens: int
    perplexity: float
    reference: float
    is_same_text: bool
    instructions: int
    stack: int
    cache: int
    arena: int
    weights: int

    @property
    def difference(self) -> float:
        return abs(self.perplexity / self.reference - 1)


def expected(path: Path, tokens: list[int]) -> tuple[float, list[int]]:
    """The perplexity of onnxruntime over all tokens at once, and the tokens that it writes after them."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path.parent / "stories260k_prefill.onnx"))
    written: list[int] = []
    losses = None
    while len(written) < COUNT:
        logits = session.run(["logits"], {"tokens": np.array([[*tokens, *written]])})[0][0].astype(np.float64)
        if losses is None:
            chosen = logits[np.arange(len(tokens) - 1), tokens[1:]]
            losses = np.log(np.exp(logits[:-1]).sum(1)) - chosen
        written.append(int(logits[-1].argmax()))
        if written[-1] in (1, 2):
            written.pop()
            break
    assert losses is not None
    return float(np.exp(losses.mean())), written


def measured(core: str, path: Path, text: str, folder: Path) -> Row:
    """Build for a board, make and run its program."""
    edgec.build(path, folder / "host", context=CONTEXT, name="lm")
    with Network(folder / "host") as network:
        tokenizer = Tokenizer(network)
        tokens = tokenizer.encode(text, begin=True)
        reference, written = expected(path, tokens)
        story = tokenizer.decode(written)
    out = folder / core
    edgec.build(path, out, context=CONTEXT, name="lm", device=BOARDS[core], extras=["embedded"], compile=False)
    (out / "embedded" / "text.txt").write_text(text)
    subprocess.run(["make", "-s", "-C", out / "embedded"], check=True, capture_output=True)
    command = ["make", "-s", "-C", str(out / "embedded"), "run", "FILE=text.txt", f"COUNT={COUNT}"]
    said, told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip().rsplit("\n", 1)
    words = told.replace(",", "").split()
    header = (out / "lm.h").read_text()
    sizes = {name: _defined(header, name) for name in ("ARENA_BYTES", "WEIGHTS_BYTES")}
    cache = _defined((out / "lm_session.h").read_text(), "CACHE_BYTES")
    return Row(
        core, CONTEXT, len(tokens), float(words[1]), reference, said == story, int(words[5]), int(words[9]), cache,
        sizes["ARENA_BYTES"], sizes["WEIGHTS_BYTES"],
    )  # fmt: skip


def _defined(header: str, name: str) -> int:
    """A size in a header."""
    return int(header.split(f"LM_{name} ((size_t)")[1].split(")")[0])


def page(rows: list[Row]) -> str:
    """The page: what is measured, and one table."""
    titles = ["core", "tokens read", "perplexity", "onnxruntime", "difference", "same text after it",
              "instructions a token", "cache", "arena", "weights", "stack"]  # fmt: skip
    body = [
        [
            r.core, str(r.tokens), f"{r.perplexity:.3f}", f"{r.reference:.3f}", f"{100 * r.difference:.2f} %",
            "yes" if r.is_same_text else "no", f"{r.instructions / 1e6:.2f} M", f"{r.cache:,}", f"{r.arena:,}",
            f"{r.weights:,}", f"{r.stack:,}",
        ]
        for r in rows
    ]  # fmt: skip
    return (
        "# Language models on boards\n\n"
        "Written by `python -m benchmarks.boards.stories --write docs/results/language-models-boards.md`.\n\n"
        "stories260K (a Llama of five layers and 64 features, in fp32) as a program for a Cortex-M without an\n"
        f"operating system (`--app embedded --context {CONTEXT}`), run by qemu: it reads {CHARACTERS} characters of a "
        f"story,\ntells their perplexity, and writes at most {COUNT} tokens more, always the most probable. "
        "*Instructions* are means\nover all tokens, and are not cycles. The weights stay in flash, on the M55's board "
        "in a second one; nothing is\nallocated. The M55 uses Helium, compiled by clang (zig); the M7 is compiled by "
        "gcc. Sizes are in bytes.\n\n" + markdown(titles, body) + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    folder = models_folder() / "lm_stories260k"
    text = (folder / "eval.txt").read_text(encoding="utf-8")[:CHARACTERS]
    rows = []
    for core in BOARDS:
        with TemporaryDirectory() as scratch:
            rows.append(measured(core, folder / "stories260k_decode.onnx", text, Path(scratch)))
        print(rows[-1], flush=True)
    print(page(rows))
    if chosen.write:
        chosen.write.write_text(page(rows), encoding="utf-8")
    sys.exit(any(r.difference > MOST or not r.is_same_text for r in rows))


if __name__ == "__main__":
    main()
