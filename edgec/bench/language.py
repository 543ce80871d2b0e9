"""Speed of a built language model beside other engines: each in processes of its own, in turns.

A turn is a process that loads the model, takes a prompt, and then single tokens. What counts for an engine is the best
of its turns. Between turns, a C program reads as many bytes as the weights take: no engine can generate faster than
the bytes of a token are read.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from edgec.artifact.folder import library_name, read_lock
from edgec.bench import language_worker, peak
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.errors import CheckError, ToolchainError, UsageError
from edgec.progress import Progress, silent
from edgec.text import counted, one_of

#: The peers, and what each reads.
PEERS = {
    "llama.cpp": "a GGUF file",
    "llama.cpp-plain": "a GGUF file",
    "onnxruntime-genai": "a folder that `python -m onnxruntime_genai.models.builder` wrote",
    "openvino-genai": "a GGUF file, or a folder that optimum wrote",
}
#: Seconds that one turn may take.
PATIENCE = 600.0


@dataclass(frozen=True)
class Peer:
    """Another engine, and the path of the model that it is given."""

    engine: str
    model: Path


@dataclass(frozen=True)
class Speed:
    """The result of the turns of one engine: the best of each; with an ``error``, nothing else counts."""

    engine: str
    version: str = ""
    prefill_per_second: float = 0.0  # tokens of the prompt over the time to the first token
    first_token_ms: float = 0.0
    decode_per_second: float = 0.0  # tokens after the first over their time
    token_ms: float = 0.0  # the median of single tokens
    resident_bytes: int = 0  # of the process, at the end
    load_ms: float = 0.0
    error: str | None = None
    chosen: tuple[int, ...] = ()


@dataclass(frozen=True)
class Decoding:
    """Speeds of a language model and its peers, and what bounds them."""

    prompt: int
    tokens: int
    threads: int
    rounds: int
    numeric: str
    speeds: tuple[Speed, ...]  # of edgec first
    token_bytes: int  # of weights and cache that a token reads, at the middle of the tokens measured
    read_gbps: float | None  # of a buffer as large as the weights, on all threads; None without a compiler
    why_not: str | None = None  # there is no such speed

    @property
    def share(self) -> float | None:
        """The part of the speed of reading that generating tokens reaches."""
        if self.read_gbps is None or self.speeds[0].error:
            return None
        return self.token_bytes * self.speeds[0].decode_per_second / (self.read_gbps * 1e9)


def bench_language_model(
    folder: Path,
    *,
    prompt: int | None = None,
    tokens: int | None = None,
    threads: int = 1,
    rounds: int = 3,
    peers: Sequence[Peer] = (),
    python: str | None = None,
    progress: Progress = silent,
) -> Decoding:
    """Time the language model in ``folder`` as it was built; ``python`` runs the peers (this one where it is None).

    By default, a prompt of 512 tokens and 128 after it, or fewer where the context is smaller.
    Raises UsageError where the folder holds none, or the tokens do not fit it; a peer that fails is told as such.
    """
    lock = facts_of(folder)
    model = lock["language_model"]
    tokens = min(128, max(1, model["context"] // 4)) if tokens is None else tokens
    prompt = min(512, max(1, model["context"] - tokens)) if prompt is None else prompt
    _refuse(folder, lock, prompt, tokens, threads, rounds)
    jobs = [("edgec", sys.executable, folder), *((p.engine, python or sys.executable, p.model) for p in peers)]
    results: dict[str, list[dict[str, Any]]] = {engine: [] for engine, _, _ in jobs}
    reads, why = [], None
    with tempfile.TemporaryDirectory(prefix="edgec-bench-") as scratch:
        try:
            if lock.get("language", "c") != "c":
                raise ToolchainError("weights and cache are in the memory of a GPU")
            device = load_device("host")
            reader = peak.programs(device, pick_compiler(device), Path(scratch))[:1]
        except ToolchainError as problem:
            reader, why = [], str(problem)
        for turn in range(rounds):
            for k, (engine, interpreter, path) in enumerate(jobs):
                progress("bench", f"{engine}, turn {turn + 1} of {rounds}", (turn + k / len(jobs)) / rounds)
                reads += [peak.run(program, threads, lock["weights_bytes"]) for program in reader]
                if any("error" in r for r in results[engine]):
                    continue
                job = {
                    "engine": engine, "model": str(path.absolute()), "threads": threads, "context": model["context"],
                    "prompt": prompt, "tokens": tokens,
                }  # fmt: skip
                results[engine].append(one_turn(job, interpreter, Path(scratch)))
    speeds = tuple(_speed(engine, found, prompt) for engine, found in results.items())
    if speeds[0].error:
        raise CheckError(f"the model fails: {speeds[0].error}", where=str(folder))
    seen = prompt + tokens // 2
    return Decoding(
        prompt, tokens, threads, rounds, lock["numeric"], speeds,
        model.get("read_bytes", lock["weights_bytes"]) + model["cache_bytes"] * seen // model["context"],
        max(reads, default=None), why,
    )  # fmt: skip


def facts_of(folder: Path) -> dict[str, Any]:
    """The lock of a built language model; raises UsageError for any other folder."""
    lock = read_lock(folder)
    if not lock.get("language_model"):
        raise UsageError(
            "this build is no language model", hint="give bench the model's file instead", where=str(folder)
        )
    return lock


def _refuse(folder: Path, lock: Mapping[str, Any], prompt: int, tokens: int, threads: int, rounds: int) -> None:
    context = lock["language_model"]["context"]
    if min(prompt, tokens, rounds) < 1:
        raise UsageError("nothing to time", hint="give --prompt, --tokens and --rounds of 1 or more")
    if prompt + tokens > context:
        raise UsageError(
            f"{prompt} and {counted(tokens, 'token')} do not fit the context of {context}",
            hint=f"give fewer, or build it with --context {prompt + tokens}", where=str(folder),
        )  # fmt: skip
    if not 1 <= threads <= lock["threads"]:
        raise UsageError(
            f"{counted(threads, 'thread')} asked for, and it was built for 1 to {lock['threads']}",
            hint=f"build it with --threads {threads}", where=str(folder),
        )  # fmt: skip
    if not (folder / library_name(lock["name"])).is_file():
        raise UsageError("it is not compiled", hint="build it without --no-compile", where=str(folder))


def one_turn(job: Mapping[str, Any], python: str, scratch: Path) -> dict[str, Any]:
    """The findings of one process of one engine, or the ``error`` that it ended in."""
    job_file, result = scratch / "job.json", scratch / "result.json"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    result.unlink(missing_ok=True)
    command = [python, str(Path(language_worker.__file__)), str(job_file), str(result)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    except OSError as problem:
        raise UsageError(f"cannot be run: {problem.strerror or problem}", where=python) from None
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {PATIENCE:.0f} s"}
    if result.is_file():
        return dict(json.loads(result.read_text(encoding="utf-8")))
    said = done.stderr.decode(errors="replace").strip().splitlines()
    code = done.returncode
    return {"error": f"its process ended by signal {-code}" if code < 0 else (said or [f"exit code {code}"])[-1]}


def _speed(engine: str, turns: Sequence[Mapping[str, Any]], prompt: int) -> Speed:
    for turn in turns:
        if "error" in turn:
            return Speed(engine, error=str(turn["error"]))
    first = min(t["first_s"] for t in turns)
    return Speed(
        engine,
        str(turns[0]["version"]),
        prompt / first,
        first * 1e3,
        max(len(t["token_s"]) / sum(t["token_s"]) for t in turns),
        min(median(t["token_s"]) for t in turns) * 1e3,
        min(t["resident_bytes"] for t in turns),
        min(t["load_s"] for t in turns) * 1e3,
        chosen=tuple(turns[0]["chosen"]),
    )


def peers_of(text: str, folder: Path) -> tuple[Peer, ...]:
    """Peers as ``--vs`` names them: NAME or NAME=PATH, with commas.

    A GGUF file that is not named is found by its hash: that which the folder was built from, beside it or here. Raises
    UsageError for names that are not known, and paths that are not there.
    """
    found = []
    for word in filter(None, (w.strip() for w in text.split(","))):
        engine, _, path = word.partition("=")
        if engine not in PEERS:
            raise UsageError(f"'{engine}' is no known peer", hint=one_of(engine, PEERS), where="--vs")
        model = Path(path) if path else _source(folder) if "GGUF" in PEERS[engine] else None
        if model is None or not model.exists():
            what = f"{path} is not there" if path else f"no model for {engine}"
            raise UsageError(what, hint=f"--vs {engine}=PATH, {PEERS[engine]}", where="--vs")
        found.append(Peer(engine, model))
    return tuple(found)


def _source(folder: Path) -> Path | None:
    """The GGUF file that a folder was built from, if it is beside it or in the working folder."""
    wanted = (facts_of(folder).get("model") or {}).get("sha256")
    for place in dict.fromkeys((folder.absolute().parent, Path.cwd())):
        for file in sorted(place.glob("*.gguf")):
            if _sha256(file) == wanted:
                return file
    return None


def _sha256(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as content:
        while part := content.read(1 << 20):
            found.update(part)
    return found.hexdigest()
