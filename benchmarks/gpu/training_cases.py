"""Networks whose training steps are timed on a GPU."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.training import modules
from benchmarks.training.modules import Case


class BertLayer(nn.Module):
    """A layer of BERT: attention and a feed-forward network, each with a sum and a layer normalization behind it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        x = self.first(x + self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        return self.second(x + self.narrow(F.gelu(self.wide(x))))


def bert_large_layer() -> nn.Module:
    return BertLayer(1024, 16)


#: The networks by name.
CASES = {
    **{name: modules.CASES[name] for name in ("mobilenet_v2", "resnet18", "ds_cnn")},
    "bert_large_layer": Case(bert_large_layer, (512, 1024), "mse"),
}
