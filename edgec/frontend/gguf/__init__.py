"""Language models in GGUF files: from an untrusted file to the graph of a decoder."""

from edgec.frontend.gguf.architectures import unsupported
from edgec.frontend.gguf.importer import import_gguf
from edgec.frontend.gguf.reader import GgufModel, is_gguf, parse

__all__ = ["GgufModel", "import_gguf", "is_gguf", "parse", "unsupported"]
