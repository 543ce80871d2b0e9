"""The engines that edgec is measured beside, each behind the same three calls.

Every engine has a virtual environment of its own and runs in a process of its own (`worker.py`), so this module
imports numpy alone, and what belongs to one engine inside its class. All compute in fp32: OpenVINO, ncnn and MNN are
told so, because their defaults take shorter types where the processor has them.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Arrays = Mapping[str, np.ndarray]


class Engine(Protocol):
    """A network loaded for a number of threads, with its inputs bound.

    ``outputs`` are arrays of the outputs' shapes and types.
    """

    version: str

    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None: ...

    def bound(self) -> Callable[[], object]:
        """The function that is timed: it runs the network once."""

    def results(self) -> dict[str, np.ndarray]:
        """The outputs of the last run by name."""


class Edgec:
    """The generated Python module; ``model`` is the folder of an artefact."""

    version = ""

    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None:
        (path,) = model.glob("*.py")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.net = module.Net(threads=threads)
        arrays = [np.empty(shape, dtype) for _, dtype, shape in module.OUTPUTS]
        self.arrays = dict(zip(outputs, arrays))
        self.call = self.net.bind(list(inputs.values()), arrays)

    def bound(self) -> Callable[[], object]:
        return self.call  # type: ignore[no-any-return]

    def results(self) -> dict[str, np.ndarray]:
        return self.arrays


class Onnxruntime:
    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None:
        import onnxruntime

        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.arrays = {name: np.empty_like(array) for name, array in outputs.items()}
        self.binding = self.session.io_binding()
        values = onnxruntime.OrtValue.ortvalue_from_numpy
        self.kept = {name: values(array) for name, array in (*inputs.items(), *self.arrays.items())}
        for name in inputs:
            self.binding.bind_ortvalue_input(name, self.kept[name])
        for name in outputs:
            self.binding.bind_ortvalue_output(name, self.kept[name])

    def bound(self) -> Callable[[], object]:
        run, binding = self.session.run_with_iobinding, self.binding
        return lambda: run(binding)

    def results(self) -> dict[str, np.ndarray]:
        return dict(zip(self.arrays, self.binding.copy_outputs_to_cpu()))


class Openvino:
    precision = "f32"

    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None:
        import openvino

        self.version = version("openvino")
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": self.precision,
        }
        self.names = list(outputs)
        self.request = openvino.Core().compile_model(str(model), "CPU", settings).create_infer_request()
        self.inputs = dict(inputs)  # shared with the tensors
        for name, array in self.inputs.items():
            self.request.set_tensor(name, openvino.Tensor(array, shared_memory=True))

    def bound(self) -> Callable[[], object]:
        start, wait = self.request.start_async, self.request.wait

        def run() -> None:
            start()
            wait()

        return run

    def results(self) -> dict[str, np.ndarray]:
        return {name: np.array(self.request.get_tensor(name).data) for name in self.names}


class OpenvinoBf16(Openvino):
    """OpenVINO with its own choice of bf16 on a CPU that supports it."""

    precision = "bf16"


class Litert:
    """LiteRT with XNNPACK, on what litert-torch made of the same module (`make_networks.py --tflite`)."""

    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.version = version("ai-edge-litert")
        self.outputs = outputs
        self.interpreter = Interpreter(str(model), num_threads=threads)
        self.interpreter.allocate_tensors()
        arrays = list(inputs.values())
        for entry in self.interpreter.get_input_details():
            place = re.search(r"args_(\d+)", entry["name"])
            array = arrays[int(place[1]) if place else 0]
            self.interpreter.set_tensor(entry["index"], array.astype(entry["dtype"]))

    def bound(self) -> Callable[[], object]:
        return self.interpreter.invoke  # type: ignore[no-any-return]

    def results(self) -> dict[str, np.ndarray]:
        found = [self.interpreter.get_tensor(entry["index"]) for entry in self.interpreter.get_output_details()]
        return {name: next(a for a in found if a.shape == like.shape) for name, like in self.outputs.items()}


class Ncnn:
    """ncnn; ``model`` is the folder that pnnx wrote. Its sample program alone says which dimension is the batch."""

    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None:
        import ncnn

        self.version = version("ncnn")
        self.ncnn = ncnn
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = threads
        options.use_vulkan_compute = False
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(options, name, False)
        (param,) = model.glob("*.ncnn.param")
        self.net.load_param(str(param))
        self.net.load_model(str(param.with_suffix(".bin")))
        (program,) = model.glob("*_ncnn.py")
        text = program.read_text()
        batches = re.findall(r'ex\.input\("in\d+", ncnn\.Mat\(in\d+\.numpy\(\), batch_index=(\d+)\)', text)
        self.batches = [int(b) for b in re.findall(r"out\d+\.numpy\(batch_index=(\d+)\)", text)]
        narrow = [a.astype(np.int32) if a.dtype == np.int64 else a for a in inputs.values()]
        self.inputs = [ncnn.Mat(a, batch_index=int(b)).clone() for a, b in zip(narrow, batches)]
        self.outputs = outputs
        self.last: list[Any] = []

    def bound(self) -> Callable[[], object]:
        def run() -> None:
            extractor = self.net.create_extractor()
            for k, array in enumerate(self.inputs):
                extractor.input(f"in{k}", array)
            self.last = [extractor.extract(f"out{k}") for k in range(len(self.outputs))]
            if any(status for status, _ in self.last):
                raise RuntimeError(f"ncnn ended with status {[status for status, _ in self.last]}")

        return run

    def results(self) -> dict[str, np.ndarray]:
        arrays = [np.array(array.numpy(batch_index=b)) for (_, array), b in zip(self.last, self.batches)]
        return {name: array.reshape(like.shape) for (name, like), array in zip(self.outputs.items(), arrays)}


class Mnn:
    def __init__(self, model: Path, threads: int, inputs: Arrays, outputs: Arrays) -> None:
        import MNN

        self.version = version("MNN")
        self.mnn = MNN
        self.outputs = outputs
        self.interpreter = MNN.Interpreter(str(model))
        self.session = self.interpreter.createSession({"backend": "CPU", "numThread": threads, "precision": "high"})
        layout = MNN.Tensor_DimensionType_Caffe
        for name, array in inputs.items():
            is_whole = array.dtype == np.int64
            kind = MNN.Halide_Type_Int if is_whole else MNN.Halide_Type_Float
            values = array.astype(np.int32) if is_whole else array
            place = self.interpreter.getSessionInput(self.session, name)
            place.copyFrom(MNN.Tensor(array.shape, kind, values, layout))

    def bound(self) -> Callable[[], object]:
        run_session, session = self.interpreter.runSession, self.session

        def run() -> None:
            if status := run_session(session):
                raise RuntimeError(f"MNN ended with status {status}")

        return run

    def results(self) -> dict[str, np.ndarray]:
        found = {}
        for name, like in self.outputs.items():
            tensor = self.interpreter.getSessionOutput(self.session, name)
            is_whole = like.dtype.kind == "i"
            kind = self.mnn.Halide_Type_Int if is_whole else self.mnn.Halide_Type_Float
            place = np.zeros(tensor.getShape(), np.int32 if is_whole else np.float32)
            host = self.mnn.Tensor(tensor.getShape(), kind, place, self.mnn.Tensor_DimensionType_Caffe)
            tensor.copyToHostTensor(host)
            found[name] = np.array(host.getNumpyData()).reshape(like.shape)
        return found


ENGINES: dict[str, type[Engine]] = {
    "edgec": Edgec,
    "onnxruntime": Onnxruntime,
    "openvino": Openvino,
    "openvino bf16": OpenvinoBf16,
    "litert": Litert,
    "ncnn": Ncnn,
    "mnn": Mnn,
}
#: What is imported before the clock of loading starts.
MODULES = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "openvino bf16": "openvino",
    "litert": "ai_edge_litert.interpreter",
    "ncnn": "ncnn",
    "mnn": "MNN",
}


def import_engine(name: str) -> None:
    if name in MODULES:
        importlib.import_module(MODULES[name])
