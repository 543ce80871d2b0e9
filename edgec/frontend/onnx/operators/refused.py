"""Reasons why some operators are refused, and what to do instead."""

from __future__ import annotations

from edgec.frontend.onnx.call import refuse

refuse("it takes strings or maps, which are not supported; do this step in your own code", "CastMap", "CategoryMapper",
       "DictVectorizer", domain="ai.onnx.ml")  # fmt: skip
