"""One language model in one engine, timed in a process of its own: a prompt, then tokens one by one.

    PYTHON language_worker.py JOB.json RESULT.json

The job: engine, model (a path), threads, context, prompt and tokens (how many), logits (a file to write, or null). A
script that needs nothing but Python and the engine, since engines may be installed in other environments than edgec.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any


class Engine:
    """A loaded model; ``prefill`` begins a text, ``next`` appends a token to it. Both give the likeliest next token."""

    version = ""
    vocabulary = 0

    def __init__(self, model: str, threads: int, context: int) -> None:
        raise NotImplementedError

    def prefill(self, tokens: list[int]) -> int:
        raise NotImplementedError

    def next(self, token: int) -> int:
        raise NotImplementedError

    def logits(self) -> Any:
        """The logits that the last token was taken from, as an array; None where the engine does not show them."""
        return None

    def timed(self, prompt: list[int], count: int) -> tuple[float, list[float], list[int]]:
        """Seconds to the first token, seconds of every further one, and the tokens."""
        begun = time.perf_counter()
        chosen = [self.prefill(prompt)]
        first, times = time.perf_counter() - begun, []
        for _ in range(count):
            begun = time.perf_counter()
            chosen.append(self.next(chosen[-1]))
            times.append(time.perf_counter() - begun)
        return first, times, chosen


class Edgec(Engine):
    """A folder that edgec built."""

    def __init__(self, model: str, threads: int, context: int) -> None:
        from edgec.artifact.network import Network
        from edgec.artifact.session import Session
        from edgec.version import __version__

        self.version = __version__
        self._session = Session(Network(model, threads))
        self.vocabulary = self._session.vocabulary
        self._last: Any = None

    def prefill(self, tokens: list[int]) -> int:
        self._session.rewind()
        self._last = self._session.prefill(tokens)
        return int(self._last.argmax())

    def next(self, token: int) -> int:
        self._last = self._session.next(token)
        return int(self._last.argmax())

    def logits(self) -> Any:
        return self._last


class LlamaCpp(Engine):
    """llama.cpp through llama-cpp-python, by the functions of its C interface."""

    repacks = True

    def __init__(self, model: str, threads: int, context: int) -> None:
        import llama_cpp
        import numpy

        self._numpy, self._api, self.version = numpy, llama_cpp, llama_cpp.__version__
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        self._quiet = quiet  # the library keeps the address alone
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        of_model = llama_cpp.llama_model_default_params()
        of_model.use_extra_bufts = self.repacks
        loaded = llama_cpp.llama_model_load_from_file(model.encode(), of_model)
        if not loaded:
            raise RuntimeError("llama.cpp cannot load the model")
        given = llama_cpp.llama_context_default_params()
        given.n_ctx, given.n_batch, given.n_ubatch = context, context, min(512, context)
        given.n_threads = given.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(loaded, given)
        self.vocabulary = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(loaded)))

    def prefill(self, tokens: list[int]) -> int:
        self._api.llama_memory_clear(self._api.llama_get_memory(self._context), True)
        return self._run(tokens)

    def next(self, token: int) -> int:
        return self._run([token])

    def logits(self) -> Any:
        found = self._api.llama_get_logits_ith(self._context, -1)
        return self._numpy.ctypeslib.as_array(found, (self.vocabulary,))

    def _run(self, tokens: list[int]) -> int:
        given = (ctypes.c_int32 * len(tokens))(*tokens)
        status = self._api.llama_decode(self._context, self._api.llama_batch_get_one(given, len(tokens)))
        if status:
            raise RuntimeError(f"llama_decode returned {status}")
        return int(self.logits().argmax())


class PlainLlamaCpp(LlamaCpp):
    """llama.cpp with weights as the file has them: neither repacked nor for AMX."""

    repacks = False


class OnnxruntimeGenai(Engine):
    """onnxruntime-genai on a folder that its model builder wrote."""

    def __init__(self, model: str, threads: int, context: int) -> None:
        import onnxruntime_genai

        self._api, self.version = onnxruntime_genai, onnxruntime_genai.__version__
        with open(os.path.join(model, "genai_config.json"), encoding="utf-8") as file:
            self.vocabulary = int(json.load(file)["model"]["vocab_size"])
        config = onnxruntime_genai.Config(model)
        options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self._model = onnxruntime_genai.Model(config)
        self._length = context + 1
        self._generator: Any = None

    def prefill(self, tokens: list[int]) -> int:
        given = self._api.GeneratorParams(self._model)
        given.set_search_options(do_sample=False, max_length=self._length, min_length=self._length)
        self._generator = self._api.Generator(self._model, given)
        self._generator.append_tokens(tokens)
        return self._chosen()

    def next(self, token: int) -> int:
        return self._chosen()

    def logits(self) -> Any:
        return self._generator.get_logits().reshape(-1)

    def _chosen(self) -> int:
        """The token that the engine itself appends."""
        self._generator.generate_next_token()
        return int(self._generator.get_next_tokens()[0])


class OpenvinoGenai(Engine):
    """openvino-genai, which generates as a whole and tells its own times."""

    def __init__(self, model: str, threads: int, context: int) -> None:
        import numpy
        import openvino
        import openvino_genai

        self._numpy, self._openvino, self._api = numpy, openvino, openvino_genai
        self.version = openvino_genai.__version__
        self._pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
        self.vocabulary = len(self._pipeline.get_tokenizer().get_vocab())

    def timed(self, prompt: list[int], count: int) -> tuple[float, list[float], list[int]]:
        wanted = self._api.GenerationConfig()
        wanted.max_new_tokens, wanted.ignore_eos, wanted.do_sample = count + 1, True, False
        tokens = self._openvino.Tensor(self._numpy.array([prompt], self._numpy.int64))
        mask = self._openvino.Tensor(self._numpy.ones((1, len(prompt)), self._numpy.int64))
        done = self._pipeline.generate(self._api.TokenizedInputs(tokens, mask), wanted)
        metrics = done.perf_metrics
        each = metrics.get_tpot().mean * 1e-3
        return metrics.get_ttft().mean * 1e-3, [each] * count, [int(t) for t in done.tokens[0]]


ENGINES: dict[str, type[Engine]] = {
    "edgec": Edgec,
    "llama.cpp": LlamaCpp,
    "llama.cpp-plain": PlainLlamaCpp,
    "onnxruntime-genai": OnnxruntimeGenai,
    "openvino-genai": OpenvinoGenai,
}
#: Tokens of a prompt and after it that warm an engine up.
WARM_UP_PROMPT, WARM_UP = 128, 4


def prompt_of(length: int, vocabulary: int, number: int) -> list[int]:
    """Tokens drawn over the vocabulary; each ``number`` gives others, since engines remember prompts."""
    state, found = 12345 + number, []
    for _ in range(length):
        state = (state * 1103515245 + 12345) % (1 << 31)
        found.append((state >> 8) % vocabulary)
    return found


def resident_bytes() -> int:
    """Memory of this process that is in RAM, files that are mapped included."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux: the most so far
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Times of one engine: seconds to load, to the first token, and of every further one."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, set(cores[: job["threads"]]))
    begun = time.perf_counter()
    engine = ENGINES[job["engine"]](job["model"], job["threads"], job["context"])
    load = time.perf_counter() - begun
    vocabulary, length = engine.vocabulary, job["prompt"]
    engine.timed(prompt_of(min(length, WARM_UP_PROMPT), vocabulary, 1), min(WARM_UP, job["tokens"]))
    first, times, chosen = engine.timed(prompt_of(length, vocabulary, 0), job["tokens"])
    found = {"version": engine.version, "load_s": load, "first_s": first, "token_s": times, "chosen": chosen}
    found["resident_bytes"] = resident_bytes()
    if job.get("logits"):
        engine.timed(prompt_of(length, vocabulary, 0), 0)
        values = engine.logits()
        if values is not None:
            values.astype("float32").tofile(job["logits"])
    return found


def main() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != own]  # its neighbors are no modules of their own
    job_file, result_file = sys.argv[1:]
    with open(job_file, encoding="utf-8") as file:
        job = json.load(file)
    try:
        found = measured(job)
    except Exception as problem:  # whatever an engine raises is its result
        found = {"error": f"{type(problem).__name__}: {problem}".splitlines()[0]}
    with open(result_file, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
