"""Every recipe: importing this module registers them."""

import onnx_recipes_contrib
import onnx_recipes_elements
import onnx_recipes_layers
import onnx_recipes_movement
import onnx_recipes_positions
import onnx_recipes_reduce

MODULES = (
    onnx_recipes_contrib, onnx_recipes_elements, onnx_recipes_layers, onnx_recipes_movement, onnx_recipes_positions,
    onnx_recipes_reduce,
)  # fmt: skip
