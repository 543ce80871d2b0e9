"""Reasons why some operators are refused, and what to do instead."""

from __future__ import annotations

from edgec.frontend.onnx.call import refuse

refuse("regular expressions are not supported; do this step in your own code", "RegexFullMatch")
refuse("it takes strings or maps, which are not supported; do this step in your own code", "CastMap", "CategoryMapper",
       "DictVectorizer", domain="ai.onnx.ml")  # fmt: skip
refuse("decoding images is not supported; feed decoded pixels", "ImageDecoder")
refuse("gradients are not computed; export a graph that computes them", "Gradient", domain="ai.onnx.preview.training")
