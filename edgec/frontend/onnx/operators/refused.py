"""Reasons why some operators are refused, and what to do instead."""

from __future__ import annotations

from edgec.frontend.onnx.call import refuse

refuse("its result is random; feed random numbers as an input", "Bernoulli", "Multinomial", "RandomNormal",
       "RandomNormalLike", "RandomUniform", "RandomUniformLike")  # fmt: skip
refuse("strings are not supported; do this step in your own code", "RegexFullMatch", "StringConcat",
       "StringNormalizer", "StringSplit")  # fmt: skip
refuse("it takes strings or maps, which are not supported; do this step in your own code", "CastMap", "CategoryMapper",
       "DictVectorizer", domain="ai.onnx.ml")  # fmt: skip
refuse("decoding images is not supported; feed decoded pixels", "ImageDecoder")
refuse("gradients are not computed; export a graph that computes them", "Gradient", domain="ai.onnx.preview.training")
