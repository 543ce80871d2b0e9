"""Accuracy of language models: greedy tokens, perplexity and tokens of texts, beside references.

    python -m benchmarks.accuracy.language_models smollm2.gguf gemma.gguf model.onnx --peer PYTHON --write PAGE

A GGUF file is held against a plain evaluation of its weights in fp32 (`plain_decoder`), an ONNX decoder against
onnxruntime. A model writes 256 tokens (--tokens) after each of ten prompts, always the most probable; the reference is
given what was written and must find the same token most probable at every step, so that by induction it would have
written the same. Of a text, the perplexity is compared. Tokenizers of GGUF files are held against llama.cpp's, in the
Python that --peer names, on 10,000 drawn lines; a tenth as many with broken UTF-8, at which llama.cpp ends or reads
beyond, must come back from their tokens. The exit code is 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import edgec
from benchmarks.accuracy.drawn_lines import broken, lines
from benchmarks.accuracy.plain_decoder import PlainDecoder
from benchmarks.networks.catalog import models_folder
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer

#: The bounds: of the largest difference of logits, over the largest logit, and of the perplexity's difference.
MOST_LOGITS, MOST_PERPLEXITY = 1e-4, 1e-3
SHORT = (
    "The capital of France is", "def fibonacci(n):\n", "Once upon a time, there was a little girl who",
    "Three reasons why the sky is blue:\n1.", "Liebe Frau Müller,\n\nvielen Dank für",
)  # fmt: skip
#: Logits [tokens from the second argument on, vocabulary] of a text.
Logits = Callable[[Sequence[int], int], np.ndarray]


@dataclass
class Row:
    """The measurements of one model."""

    model: str
    reference: str
    prompts: int
    equal_tokens: int
    tokens: int
    logits: float
    closest: float
    perplexity: float
    perplexity_difference: float
    lines: int | None
    equal_lines: int | None
    broken_lines: int
    whole_lines: int
    seconds: float

    @property
    def misses(self) -> list[str]:
        found = [] if self.equal_tokens == self.tokens else ["greedy tokens"]
        found += ["logits"] if self.logits > MOST_LOGITS else []
        found += ["perplexity"] if self.perplexity_difference > MOST_PERPLEXITY else []
        is_same = self.lines == self.equal_lines and self.broken_lines == self.whole_lines
        return found + ([] if is_same else ["tokenizer"])


def long_prompts(text: str) -> list[str]:
    """Five pieces of a text, of about 250 tokens each."""
    step = len(text) // 5
    return [text[k * step : k * step + 1000] for k in range(5)]


def measure(path: Path, text: str, count: int, peer: str | None, line_count: int) -> Row:
    """Build one model and compare what it writes and how it reads."""
    begun = time.process_time()
    with TemporaryDirectory() as folder:
        edgec.build(path, folder, threads=1, name="lm")
        with Network(folder) as network:
            tokenizer = Tokenizer(network)
            reference, logits_of = _reference(path)
            equal, worst, closest = 0, 0.0, np.inf
            prompts = [*SHORT, *long_prompts(text)]
            for prompt in prompts:
                tokens = tokenizer.encode(prompt, begin=True)
                found = _greedy(network, tokens, count)
                written = [int(row.argmax()) for row in found]
                wanted = logits_of([*tokens, *written[:-1]], len(tokens) - 1)
                places = np.arange(len(written))
                equal += int((wanted.argmax(1) == written).sum())
                worst = max(worst, float(np.abs(found - wanted).max() / np.abs(wanted).max()))
                top = np.sort(np.partition(wanted, -2, axis=1)[:, -2:], axis=1)
                closest = min(closest, float((top[:, 1] - top[:, 0])[places].min()))
            tokens = tokenizer.encode(text, begin=True)[:600]
            mine = _loss(_following(network, tokens), tokens)
            its = _loss(logits_of(tokens[:-1], 0), tokens)
            damaged = broken(line_count // 10)
            whole = sum(_is_whole(tokenizer, raw) for raw in damaged)
            same = None if peer is None or path.suffix != ".gguf" else _same_lines(tokenizer, path, peer, line_count)
    return Row(
        path.name, reference, len(prompts), equal, count * len(prompts), worst, closest, float(np.exp(mine)),
        float(abs(np.exp(mine - its) - 1)), None if same is None else line_count, same, len(damaged),
        whole, time.process_time() - begun,
    )  # fmt: skip


def _reference(path: Path) -> tuple[str, Logits]:
    if path.suffix == ".gguf":
        return "plain fp32 in numpy", PlainDecoder(path).logits
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    heads = json.loads((path.parent / "genai_config.json").read_text())["model"]["decoder"]

    def logits(tokens: Sequence[int], first: int) -> np.ndarray:
        n = len(tokens)
        given = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, n), np.int64),
                 "position_ids": np.arange(n)[None]}  # fmt: skip
        empty = np.zeros((1, heads["num_key_value_heads"], 0, heads["head_size"]), np.float32)
        feeds = {i.name: given.get(i.name, empty) for i in session.get_inputs()}
        return np.asarray(session.run(["logits"], feeds)[0][0, first:])

    return f"onnxruntime {onnxruntime.__version__}", logits


def _greedy(network: Network, tokens: Sequence[int], count: int) -> np.ndarray:
    """The logits of ``count`` steps after a prompt, each on the most probable token of the one before."""
    session = Session(network)
    found = [session.prefill(tokens)]
    while len(found) < count:
        found.append(session.next(int(found[-1].argmax())))
    return np.stack(found)


def _following(network: Network, tokens: Sequence[int]) -> np.ndarray:
    """The logits after each token of a text but the last, token by token."""
    session = Session(network)
    return np.stack([session.next(token) for token in tokens[:-1]])


def _loss(logits: np.ndarray, tokens: Sequence[int]) -> float:
    """The mean of -log p of each token after the first."""
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    chosen = shifted[np.arange(len(shifted)), tokens[1:]]
    return float((np.log(np.exp(shifted).sum(1)) - chosen).mean())


_PEER = """
import json, sys
from llama_cpp import Llama
model = Llama(sys.argv[1], vocab_only=True, verbose=False)
for line in sys.stdin.buffer:
    print(json.dumps(model.tokenize(bytes.fromhex(line.decode().strip()), add_bos=False, special=False)))
"""


def _is_whole(tokenizer: Tokenizer, raw: bytes) -> bool:
    """Do bytes come back from their tokens, all but those for which the vocabulary has none?"""
    missing = bytes(b for b in {*raw} if b >= 0x80 and not tokenizer.encode(bytes([b])))
    return b"".join(map(tokenizer.bytes_of, tokenizer.encode(raw))) == raw.translate(None, missing)


def _same_lines(tokenizer: Tokenizer, path: Path, peer: str, count: int) -> int:
    """The lines that give the same tokens in llama.cpp."""
    drawn = lines(count)
    given = "".join(line.hex() + "\n" for line in drawn)
    done = subprocess.run([peer, "-c", _PEER, str(path)], input=given.encode(), capture_output=True, check=True)
    return sum(tokenizer.encode(a) == json.loads(b) for a, b in zip(drawn, done.stdout.splitlines(), strict=True))


def page(rows: Sequence[Row], command: str) -> str:
    """The page: one table, the method, and the command."""
    titles = ["model", "reference", "equal tokens", "logits", "closest two", "perplexity", "difference", "equal lines",
              "broken lines"]  # fmt: skip
    body = [
        [
            r.model, r.reference, f"{r.equal_tokens} of {r.tokens}", f"{r.logits:.1e}", f"{r.closest:.1e}",
            f"{r.perplexity:.3f}", f"{r.perplexity_difference:.1e}",
            "" if r.lines is None else f"{r.equal_lines} of {r.lines}", f"{r.whole_lines} of {r.broken_lines}",
        ]
        for r in rows
    ]  # fmt: skip
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in (titles, ["---"] * len(titles), *body))
    assert __doc__ is not None
    return (
        f"# Accuracy of language models\n\n    {command}\n\n{date.today().isoformat()}, edgec on one thread in its "
        f"default precision.\n\n{table}\n\n"
        "Rows may be measured one by one (--json), and with fewer tokens after each prompt (--tokens).\n\n"
        "*Equal tokens*: of those written after ten prompts, five of them of about 250 tokens, those that the "
        "reference finds most probable after the same text. *Logits*: the largest difference at any of these steps, "
        "over the largest logit. *Closest two*: how near the two most probable tokens of the reference come at any "
        "step; where that is below the difference of logits, either token is right. *Perplexity* of 600 tokens of "
        "stories, token by token, and its relative *difference*. *Equal lines*: lines of mixed scripts, emoji and "
        "blanks that give the tokens of llama.cpp. *Broken lines*: lines with bytes that are no UTF-8 whose tokens "
        "give the same bytes, but for bytes that the vocabulary has no token for; llama.cpp ends with an error on "
        "them in byte-level vocabularies, and reads past broken characters in others.\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, help="GGUF files, ONNX decoders of onnxruntime-genai's builder")
    parser.add_argument("--text", type=Path, default=None, help="the text; stories of the trained models by default")
    parser.add_argument("--tokens", type=int, default=256, help="tokens to write after each prompt")
    parser.add_argument("--lines", type=int, default=10_000, help="lines to compare tokenizers on")
    parser.add_argument("--peer", help="a Python that has llama-cpp-python")
    parser.add_argument("--json", type=Path, help="what was measured before, and what is measured now")
    parser.add_argument("--write", type=Path, help="the page to write")
    given = parser.parse_args(arguments)
    text = (given.text or models_folder() / "lm_stories260k" / "eval.txt").read_text(encoding="utf-8")
    rows = [Row(**entry) for entry in json.loads(given.json.read_text())] if given.json and given.json.exists() else []
    for path in given.models:
        if any(r.model == _shown(path) for r in rows):
            continue
        row = measure(path, text, given.tokens, given.peer, given.lines)
        row.model = _shown(path)
        rows.append(row)
        print(json.dumps(asdict(row)), flush=True)
        if given.json:
            given.json.write_text(json.dumps([asdict(r) for r in rows]))
    if given.write:
        names = [p.name for p in given.models]
        command = shlex.join(["python", "-m", "benchmarks.accuracy.language_models", *names])
        given.write.write_text(page(rows, f"{command} --peer PYTHON --write {given.write}"))
    for row in rows:
        if row.misses:
            print(f"{row.model}: {', '.join(row.misses)}", file=sys.stderr)
    return int(any(row.misses for row in rows))


def _shown(path: Path) -> str:
    return path.name if path.suffix == ".gguf" else f"{path.resolve().parent.name}/{path.name}"


if __name__ == "__main__":
    sys.exit(main())
