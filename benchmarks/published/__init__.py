"""The networks that DNNFusion (PLDI 2021) and SmartMem (ASPLOS 2024) counted, written down as plain ONNX."""
