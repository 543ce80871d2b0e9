"""Language models in folders of Hugging Face's: config.json, weights in safetensors, tokenizer.json."""

from edgec.frontend.hugging.folder import HuggingModel, is_folder, read
from edgec.frontend.hugging.importer import import_folder, unsupported

__all__ = ["HuggingModel", "import_folder", "is_folder", "read", "unsupported"]
