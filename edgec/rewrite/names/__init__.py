"""Names for what is left of a model after rewriting: a layer normalization, an attention, a convolution with its bias.

A name is said of a subgraph; the graph stays as it is. Composites are defined by their mathematics
(``definitions``), the definitions are brought into normal form by the same rules as the model (``patterns``), and what
matches is claimed from the outputs backwards (``cover``). So no exporter's spelling is written down anywhere.
"""

from edgec.rewrite.names.claims import Named
from edgec.rewrite.names.cover import cover

__all__ = ["Named", "cover"]
