"""Why some operators are refused, and what to do instead."""

from __future__ import annotations

from edgec.frontend.call import refuse

refuse("its result is random; feed random numbers as an input", "Bernoulli", "Multinomial", "RandomNormal",
       "RandomNormalLike", "RandomUniform", "RandomUniformLike")  # fmt: skip
refuse("strings are not supported; do this step in your own code", "RegexFullMatch", "StringConcat",
       "StringNormalizer", "StringSplit", "TfIdfVectorizer")  # fmt: skip
refuse("decoding pictures is not supported; feed decoded pixels", "ImageDecoder")
refuse("its regions are rounded to whole pixels; export with RoiAlign", "MaxRoiPool")
refuse("sequences of tensors are not supported; export the model with opset_version=17 and without lists",
       "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
       "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence")  # fmt: skip
refuse("optional values are not supported; export the model for a fixed set of inputs", "Optional",
       "OptionalGetElement", "OptionalHasElement")  # fmt: skip
refuse("training is not supported; export the model for inference", "Adagrad", "Adam", "Momentum", "Gradient",
       domain="ai.onnx.preview.training")  # fmt: skip
