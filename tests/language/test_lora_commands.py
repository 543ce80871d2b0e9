"""Adapters where people use them: `edgec.load`, `edgec adapter`, `edgec chat`, `edgec serve-lm`, and programs in C."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chat_templates as given
import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT
from gguf_files import gguf_file
from talking_model import CONTEXT, compiled_with_less_optimization, gguf
from test_chat_command import run  # noqa: F401 # a fixture

import edgec
from edgec.artifact.language_model import LanguageModel
from edgec.errors import UsageError

#: So hot that every token is likely, whatever the drawn weights prefer: then other logits make another text.
DRAWN: dict[str, Any] = {"max_tokens": 12, "temperature": 30.0, "seed": 4}
FIXED = ("--temperature", "30", "--seed", "4", "--max-tokens", "12")
HELLO = [{"role": "user", "content": "hello"}]
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lm_session.h"
static _Alignas(LM_ALIGNMENT) unsigned char arena[LM_ARENA_BYTES], cache[LM_CACHE_BYTES];
static float logits[LM_VOCABULARY], first[LM_VOCABULARY];
int main(int argc, char **argv) {
  lm_session s = {lm_weights, arena, 0, cache, 0, 0};
  unsigned char *adapter = malloc(LM_ADAPTER_BYTES + 1); /* exactly as large: reads beyond it are found */
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : 0;
  if (!adapter || !file || fread(adapter, 1, LM_ADAPTER_BYTES, file) != LM_ADAPTER_BYTES) return 1;
  fclose(file);
  const int32_t tokens[] = {1, 2, 3, 4};
  int status = lm_prefill(&s, tokens, 4, first);
  const int refused = lm_adapter(&s, adapter + 1, LM_ADAPTER_BYTES) == LM_NOT_ADAPTER && s.past == 4 &&
      lm_adapter(&s, adapter, LM_ADAPTER_BYTES - 1) == LM_NOT_ADAPTER && s.past == 4 &&
      lm_adapter(0, adapter, LM_ADAPTER_BYTES) == LM_NULL_POINTER;
  status += lm_adapter(&s, adapter, LM_ADAPTER_BYTES) + (int)s.past;
  status += lm_prefill(&s, tokens, 3, logits) + lm_next(&s, 4, logits);
  printf("%d %d", status, refused);
  for (int i = 0; i < LM_VOCABULARY; ++i) printf(" %.9g", logits[i]);
  status = lm_adapter(&s, 0, 0) + lm_prefill(&s, tokens, 4, logits);
  printf(" %d %d", status, memcmp(logits, first, sizeof first));
  free(adapter);
  return 0;
}
"""


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The talking model with room for adapters, and two adapters in GGUF."""
    where = tmp_path_factory.mktemp("lora")
    (where / "lm.gguf").write_bytes(gguf(given.CHATML))
    with compiled_with_less_optimization():
        edgec.build(where / "lm.gguf", where / "out", context=CONTEXT, threads=1, name="lm", lora="4:q,down")
    metadata = {
        "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0, "general.architecture": "llama",
    }  # fmt: skip
    for name in ("a", "b"):
        matrices = {f"blk.0.ffn_down.weight.lora_{k}": RANDOM.standard_normal(shape).astype("<f4")
                    for k, shape in (("a", (4, 256)), ("b", (256, 4)))}  # fmt: skip
        tensors = {key: ("F32", m.shape, m.tobytes()) for key, m in matrices.items()}
        (where / f"{name}.gguf").write_bytes(gguf_file(metadata, tensors))
    return where


@pytest.fixture
def model(lora: Path) -> Iterator[LanguageModel]:
    with edgec.load(lora / "out") as opened:
        yield opened


def said(model: LanguageModel, **more: Any) -> str:
    return model.chat(HELLO, **DRAWN, **more).text()


def test_in_python(lora: Path, model: LanguageModel) -> None:
    """By file for all that follows, or by name for one generation; sessions of another adapter are not gone on from."""
    base = said(model)
    model.adapter(lora / "a.gguf")
    a = said(model)
    model.adapter(None)
    model.add_adapter("a", lora / "a.gguf")
    model.add_adapter("b", lora / "b.gguf")
    b = said(model, adapter="b")
    assert len({base, a, b}) == 3 and model.adapters == ["a", "b"]
    assert [said(model), said(model, adapter="a"), said(model, adapter="b")] == [base, a, b]
    own = model.session()
    assert said(model, session=own, adapter="a") == a and said(model, session=own) == a
    with pytest.raises(UsageError, match="no adapter 'c'") as refused:
        said(model, adapter="c")
    assert "a, b" in str(refused.value.hint)
    with pytest.raises(UsageError, match="cannot read"):
        model.add_adapter("a", lora / "none")
    assert said(model, adapter="a") == a


def test_chat_and_files(lora: Path, model: LanguageModel, run: Any, tmp_path: Path) -> None:  # noqa: F811
    model.adapter(lora / "a.gguf")
    wanted = said(model)
    words = ("chat", lora / "out", "--prompt", "hello", *FIXED, "--json", "--adapter")
    code, out, _ = run(*words, lora / "a.gguf")
    assert code == 0 and edgec_text(out) == wanted
    code, out, _ = run("adapter", lora / "out", lora / "a.gguf", "-o", tmp_path / "a.bin", "--json")
    assert code == 0 and f'"bytes": {(tmp_path / "a.bin").stat().st_size}' in out
    assert edgec_text(run(*words, tmp_path / "a.bin")[1]) == wanted
    code, _, err = run(*words, lora / "lm.gguf")
    assert code == 2 and "no low-rank adapter" in err
    code, _, err = run("adapter", lora / "out", lora / "lm.gguf", "-o", tmp_path / "b.bin")
    assert code == 2 and not (tmp_path / "b.bin").exists()
    for word, message in (("a", "no name and file"), ("lm=x", "two models"), (f"x={lora}/none", "cannot read")):
        code, _, err = run("serve-lm", lora / "out", "--port", 0, "--adapter", word)
        assert code == 2 and message in err, (code, err)


def edgec_text(out: str) -> str:
    return str(json.loads(out)["text"])


def test_served(lora: Path, model: LanguageModel) -> None:
    """Requests name an adapter as their model."""
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    from test_serve_lm import ask, serving

    model.add_adapter("a", lora / "a.gguf")
    texts = {name: said(model, adapter=name if name != "lm" else "") for name in ("lm", "a")}
    with serving(model) as port:
        _, found, _ = ask(port, "/v1/models")
        assert [(m["id"], m.get("parent")) for m in found["data"]] == [("lm", None), ("a", "lm")]
        assert ask(port, "/v1/models/a")[0] == 200
        for name in ("a", "lm", "a"):
            body = {"model": name, "messages": HELLO, **DRAWN}
            status, answer, _ = ask(port, "/v1/chat/completions", body)
            assert status == 200 and answer["model"] == name
            assert answer["choices"][0]["message"]["content"] == texts[name]
        status, answer, _ = ask(port, "/v1/completions", {"model": "c", "prompt": "x"})
        assert status == 404 and "'lm', 'a'" in answer["error"]["message"]
        assert ask(port, "/v1/completions", {"model": ["a"], "prompt": "x"})[0] == 404


def test_in_c_with_an_adapter(lora: Path, model: LanguageModel, run: Any, tmp_path: Path) -> None:  # noqa: F811
    """Strictly compiled, under the sanitizers: with an adapter, and without it as before."""
    folder = lora / "out"
    assert run("adapter", folder, lora / "a.gguf", "-o", tmp_path / "a.bin")[0] == 0
    (tmp_path / "main.c").write_text(MAIN)
    sources = [*folder.glob("lm*.c"), *folder.glob("lm_*.S"), *folder.glob("ec_*.c"), tmp_path / "main.c"]
    flags = [*STRICT, "-march=native", "-fsanitize=address,undefined", "-fno-sanitize=null,object-size"]
    command = ["gcc", *flags, f"-I{folder}", *map(str, sources), "-o", str(tmp_path / "main"), "-lm", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:3000]
    ran = subprocess.run([str(tmp_path / "main"), str(tmp_path / "a.bin")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:3000]
    status, refused, *logits, end, differs = ran.stdout.split()
    assert (status, refused, end, differs) == ("0", "1", "0", "0")
    session = model.session()
    session.use_adapter(lora / "a.gguf")
    want = session.prefill([1, 2, 3, 4])
    assert np.abs(np.array([*map(float, logits)]) - want).max() <= 1e-5 * np.abs(want).max()
