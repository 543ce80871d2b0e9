"""A network of TensorFlow Lite in int8, as LiteRT's own quantizer writes it: run where litert-torch is installed.

    python litert_int8.py FLOAT.tflite SAMPLES.npz INT8.tflite

Weights have a scale a channel, activations one a tensor, by min-max over the samples (arrays by the number of the
input, stacked along a new first dimension). Inputs and outputs stay as they are, for all engines get the same.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe
from ai_edge_quantizer.algorithm_manager import AlgorithmName


def quantize(source: Path, samples: Path, target: Path) -> None:
    with np.load(samples, allow_pickle=False) as data:
        arrays = [data[name] for name in sorted(data.files, key=int)]
    interpreter = Interpreter(str(source))
    (signature,) = interpreter.get_signature_list()
    inputs = interpreter.get_signature_runner(signature).get_input_details()
    places = {name: int(found[1]) if (found := re.search(r"args_(\d+)", name)) else 0 for name in inputs}
    runs = [
        {name: arrays[place][k].astype(inputs[name]["dtype"]) for name, place in places.items()}
        for k in range(len(arrays[0]))
    ]
    rules = recipe.static_wi8_ai8()
    for operator in ("INPUT", "OUTPUT"):
        rules.append(
            {"regex": ".*", "operation": operator, "algorithm_key": AlgorithmName.NO_QUANTIZE, "op_config": {}}
        )
    work = quantizer.Quantizer(str(source), rules)
    work.quantize(work.calibrate({signature: runs}, num_threads=1)).export_model(str(target), overwrite=True)


if __name__ == "__main__":
    quantize(*map(Path, sys.argv[1:4]))
