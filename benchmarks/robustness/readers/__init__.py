"""The readers in C under libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer.

`python -m benchmarks.robustness.readers --seconds S` builds a small language model, and for each reader a fuzzer (clang
with its run-time libraries is needed). The corpus and what is found lie in ``--folder``, so that a run goes on where
the last one was.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import ROOT
from edgec import api
from edgec.frontend.gguf import parse
from edgec.frontend.gguf.vocabulary import vocabulary_of
from edgec.frontend.language.table import table_of
from edgec.frontend.language.vocabulary import (
    BYTE,
    CONTROL,
    NORMAL,
    SPLITTERS,
    UNKNOWN,
    Vocabulary,
    sentence_pieces,
)

HERE = Path(__file__).parent
LANGUAGE = ROOT / "codegen_templates" / "language"
#: No more memory than this at a time, in MiB, nor in all (a process counts the peak of the one that started it), and
#: no longer for one case, in seconds.
MEMORY, IN_ALL, PATIENCE = 1024, 8192, 20
FLAGS = ("-std=gnu11", "-g1", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")


def model() -> bytes:
    """A GGUF file of a small llama whose tokens are bytes, a few words and control tokens."""
    for place in ("", "language"):
        sys.path.insert(0, str(ROOT / "tests" / place))
    made = __import__("talking_model").gguf(None, "F32")
    assert isinstance(made, bytes)
    return made


def bytes_and_merges() -> Vocabulary:
    found = vocabulary_of(parse(model()))
    assert found is not None
    return replace(found, splitter=SPLITTERS["llama-bpe"], whole_pieces=True)


def pieces() -> Vocabulary:
    """Tokens of SentencePiece: some bytes, a few words, and control tokens."""
    words = [
        c.encode() for c in ("\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello", "\u00e9", "x")
    ]
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % k for k in range(0, 256, 3)), *words]
    kinds = [UNKNOWN, CONTROL, CONTROL, *([BYTE] * 86), *([NORMAL] * len(words))]
    texts, pairs, bytes_of = sentence_pieces(tokens, kinds, [-float(k) for k in range(len(tokens))])
    return Vocabulary(texts, tuple(kinds), pairs, bytes_of, 0, True, False, True, 1, True, 2, 0)


def tokenizer(folder: Path, vocabulary: Callable[[], Vocabulary]) -> list[str]:
    """The arguments of the compiler for the tokenizer, with a table as a C array."""
    numbers = ",".join(map(str, table_of(vocabulary())))
    (folder / "table.c").write_text(f"_Alignas(8) const unsigned char fuzz_table[] = {{{numbers}}};\n")
    sources = [LANGUAGE / f"ec_{name}.c" for name in ("tokenizer", "stream", "chat")]
    return [str(s) for s in (HERE / "tokenizer.c", folder / "table.c", *sources)] + [f"-I{LANGUAGE}"]


def session(folder: Path) -> list[str]:
    """The arguments of the compiler for the session of a model and its file of weights."""
    out = folder / "net"
    (folder / "net.gguf").write_bytes(model())
    if out.exists():
        shutil.rmtree(out)
    api.build(folder / "net.gguf", out=out, weights="file", threads=1, compile=False)
    taken = [p for p in sorted(out.glob("*.c")) if p.name not in ("main.c", "runner.c")]
    return [str(s) for s in (HERE / "session.c", *taken)] + [f"-I{out}", "-march=native", "-lm", "-lpthread"]


READERS: dict[str, Callable[[Path], list[str]]] = {
    "bytes": partial(tokenizer, vocabulary=bytes_and_merges),
    "pieces": partial(tokenizer, vocabulary=pieces),
    "session": session,
}


def run(name: str, folder: Path, seconds: int) -> tuple[int, str]:
    """The number of cases of one reader, and what was found: empty for nothing."""
    folder = (folder / name).resolve()
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    program = folder / "fuzzer"
    subprocess.run(["clang", *FLAGS, "-o", str(program), *READERS[name](folder)], check=True, cwd=folder)
    memory = [f"-malloc_limit_mb={MEMORY}", f"-rss_limit_mb={IN_ALL}"]
    limits = [*memory, f"-max_total_time={seconds}", f"-timeout={PATIENCE}", "-max_len=600"]
    command = [str(program), str(corpus), *limits, f"-artifact_prefix={folder}/found-", "-print_final_stats=1"]
    environment = {**os.environ, "FUZZ_WEIGHTS": str(folder / "net" / "net.weights")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", cwd=folder)
    counted = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    return int(counted[1]) if counted else 0, done.stderr[-4000:] if done.returncode else ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=Path("fuzz-readers"))
    parser.add_argument("--reader", choices=READERS, action="append")
    given = parser.parse_args(arguments)
    wrong = False
    for name in given.reader or READERS:
        cases, found = run(name, given.folder, given.seconds)
        wrong = wrong or bool(found) or not cases
        print(f"| {name} | {given.seconds} | {cases:,} | {'a finding' if found else 'nothing'} |\n{found}", flush=True)
    return int(wrong)
