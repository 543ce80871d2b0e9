"""Preprocessing as part of a network: ONNX operators in front of an input, which then takes bytes or samples."""
