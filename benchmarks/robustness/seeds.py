"""The files that mutations of the fuzzer start from: small, and one of each kind that a reader tells apart."""

from __future__ import annotations

import io
import json
import struct
import sys
import tempfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks import ROOT
from benchmarks.robustness.families import FAMILIES
from benchmarks.robustness.structure import packed
from edgec import api, pipeline
from edgec.artifact import stages
from edgec.errors import EdgecError
from edgec.frontend.language.chat import Chat
from edgec.frontend.language.chat_form import ChatForm
from edgec.frontend.language.chat_template import ChatTemplate
from edgec.frontend.language.lora import layout_in
from edgec.fuse.text import write_plan
from edgec.ir.records.writer import Written
from edgec.options import resolve
from edgec.pipeline.context import Context

#: Tokens of the language models here, and the rank of adapters.
VOCABULARY, RANK = 264, 2


def from_tests(folder: str, module: str) -> Any:
    """A module that makes files for tests."""
    for place in (ROOT / "tests" / folder, ROOT / "tests"):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))
    return import_module(module)


def onnx_models() -> list[bytes]:
    sizes = {"nested functions": 3, "rounds of nested loops": 3}
    made = [make(sizes.get(name, 4)) for name, make in FAMILIES.items()]
    digits = onnx.load(ROOT / "apps" / "digits" / "digits.onnx")
    return [m.SerializeToString() for m in (*made, digits, _losses(), _mixed())]


def operators() -> list[bytes]:
    """A model of one node for every operator that random models are made of."""
    graphs = from_tests("random", "onnx_graphs")
    from_tests("random", "test_random_onnx")  # which knows all recipes
    found = []
    for key in sorted(graphs.RECIPES):
        maker = graphs.Maker(np.random.default_rng(zlib.crc32(key[1].encode())))
        maker.recipes = tuple(k for k in maker.recipes if k == key)
        for _ in range(8 if maker.recipes else 0):
            if maker.steps:
                break
            maker.step()
        found += [maker.finish().proto().SerializeToString()] if maker.steps else []
    return [content for content in found if _is_planned(content)]


def _is_planned(content: bytes) -> bool:
    try:
        pipeline.run(content, Context(resolve({"profiles": False, "device": "generic"})), until="schedule")
    except EdgecError:
        return False  # such as one whose sizes its data decide
    return True


def _losses() -> onnx.ModelProto:
    """Every operator of ONNX that is a loss, and what it begins with."""
    nodes = [
        helper.make_node("LogSoftmax", ["x"], ["l"], axis=1),
        helper.make_node("NegativeLogLikelihoodLoss", ["l", "t", "w"], ["a"], reduction="mean", ignore_index=1),
        helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["b", "p"], reduction="none"),
        helper.make_node("ReduceSum", ["b"], ["s"], keepdims=0),
        helper.make_node("Add", ["a", "s"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3]),
        helper.make_tensor_value_info("t", TensorProto.INT64, [4]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "p")]
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 0.5])]
    graph = helper.make_graph(nodes, "losses", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def tflite_models() -> list[bytes]:
    cases = from_tests("tflite", "tflite_cases").CASES
    return [cases[name] if isinstance(cases[name], bytes) else cases[name].content for name in list(cases)[::12]]


def gguf_models() -> list[bytes]:
    """Decoders of one layer with tokens and a chat template; the formats of their weights differ."""
    more = from_tests("language", "test_tokenizer").metadata()
    more |= {"tokenizer.chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}
    made, plain = from_tests("language", "gguf_files"), from_tests("language", "plain")
    small = [plain.gguf(name, plain.draw(name)) for name in ("llama", "qwen2", "gemma2")]
    return [*small, made.llama("Q4_K", layers=1, vocabulary=len(more["tokenizer.ggml.tokens"]), **more)]


def hugging_folders() -> list[bytes]:
    """Folders of Hugging Face's, with tokenizers; one has its weights in two files."""
    plain = from_tests("language", "plain")
    found = []
    for kind, files in (("llama", 1), ("qwen3", 2), ("gemma3", 1)):
        name = f"{kind} of one layer"
        plain.CONFIGS[name] = {**plain.CONFIGS[kind], "num_hidden_layers": 1}
        with tempfile.TemporaryDirectory() as place:
            folder = plain.write_folder(Path(place) / "lm", name, plain.draw(name), files)
            parts = {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
        parts |= {"tokenizer.json": json.dumps(tokenizer()).encode(), "tokenizer_config.json": _TOKENIZER_CONFIG}
        found.append(packed({**parts, "generation_config.json": b'{"eos_token_id": [1, 2], "bos_token_id": 0}'}))
    return found


_TOKENIZER_CONFIG = (
    b'{"bos_token": "<s>", "eos_token": {"content": "<e>"}, "add_bos_token": true,'
    b" \"chat_template\": \"{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}{% endfor %}\"}"
)


def tokenizer() -> dict[str, Any]:
    """A tokenizer of bytes and a few merges, as the library `tokenizers` writes it."""
    signs = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in signs]
    letters = sorted([*map(chr, signs), *(chr(256 + k) for k in range(len(others)))])[64:94]  # of 40 tokens
    merges = [["a", "b"], ["ab", "c"], ["t", "h"], ["th", "e"]]
    tokens = ["<s>", "<e>", *letters, *("".join(pair) for pair in merges)]
    added = [
        {"id": k, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True} for k, text in enumerate(tokens[:2])
    ]  # fmt: skip
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "byte_fallback": False,
        "end_of_word_suffix": None, "fuse_unk": False, "ignore_merges": False,
        "vocab": {text: k for k, text in enumerate(tokens)}, "merges": merges,
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model,
    }  # fmt: skip


def adapters() -> list[bytes]:
    """Adapters of PEFT's and of GGUF, for the model of `layout`."""
    plain, lora = from_tests("language", "plain"), from_tests("language", "lora_files")
    found = lora.matrices(plain.draw("llama"), RANK, ("q_proj", "down_proj"))
    with tempfile.TemporaryDirectory() as place:
        folder = lora.peft_folder(Path(place) / "a", found)
        parts = {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
    return [packed(parts), packed({"a.gguf": lora.gguf_adapter("llama", found)})]


def saved_stages() -> list[bytes]:
    """A small network after import, compression, fusion and scheduling, as texts behind a line with their kind."""
    context = Context(resolve({"profiles": False, "device": "generic"}))
    steps = pipeline.run(_mixed(), context, until="schedule")
    texts: dict[str, Written] = {
        "graph": stages.show_graph(steps["import"]), "compressed": stages.show_compressed(steps["compress"]),
        "plan": write_plan(steps["fuse"]), "program": stages.show_program(steps["schedule"], context.options.device),
    }  # fmt: skip
    return [f"{name}\n{written.text}".encode() for name, written in texts.items()]


def _mixed() -> onnx.ModelProto:
    """A convolution, a pool, a product, a softmax and a sort."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
        helper.make_node("TopK", ["g", "k"], ["t", "i"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "t")]
    weights = [
        helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 3, 3], [0.25] * 9),
        helper.make_tensor("v", TensorProto.FLOAT, [4, 3], [0.5] * 12),
        helper.make_tensor("k", TensorProto.INT64, [1], [2]),
    ]
    graph = helper.make_graph(nodes, "mixed", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def arrays() -> list[bytes]:
    """Samples with classes, the state of a training, and one array."""
    files = []
    images, labels = np.zeros((4, 1, 8, 8), np.float32), np.arange(4)
    for given in ({"image": images, "labels": labels}, {"w": np.ones((3, 3), np.float32), "step": np.int64(3)}):
        file = io.BytesIO()
        np.savez_compressed(file, **given)  # type: ignore[arg-type]
        files.append(file.getvalue())
    file = io.BytesIO()
    np.save(file, images)
    return [*files, file.getvalue()]


def chats() -> list[bytes]:
    """A chat template with its form, and one without, as they stand in a built folder."""
    template = ChatTemplate("{{ messages }}", "<s>", "<e>")
    form = ChatForm({("", "user"): "<s>", ("user", "assistant"): "<a>"}, {"user": 3})
    return [Chat(template, form).written().encode(), Chat(template, None, "no form").written().encode()]


def layout() -> Any:
    """The room for adapters of the model that `adapters` are of."""
    plain, lora = from_tests("language", "plain"), from_tests("language", "lora_files")
    with tempfile.TemporaryDirectory() as place:
        file = lora.model_file(Path(place), "llama", plain.draw("llama"), False)
        return layout_in(api.load(file, context=8, lora=f"{RANK}:q,down").graph)


def pieces() -> list[bytes]:
    """A vocabulary of llama2.c: unknown, begin, end, bytes, and a few pieces with their scores."""
    texts = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % b for b in range(256)), b"a", b"b", b"ab", "\u00e9".encode()]
    return [struct.pack("<I", 7) + b"".join(struct.pack("<fI", -k, len(t)) + t for k, t in enumerate(texts))]
