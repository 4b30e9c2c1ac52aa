"""The transformer of src/model/architectures/gpt.ts in idiomatic PyTorch, with its tensors under our names."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Spec:
    vocabulary: int
    width: int
    layers: int
    heads: int
    context: int
    ffn: int


class Block(nn.Module):
    def __init__(self, spec: Spec, attention: str):
        super().__init__()
        self.heads = spec.heads
        self.fused = attention == "sdpa"
        self.attention_norm = nn.LayerNorm(spec.width, eps=1e-5)
        self.qkv = nn.Linear(spec.width, 3 * spec.width)
        self.output = nn.Linear(spec.width, spec.width)
        self.feedforward_norm = nn.LayerNorm(spec.width, eps=1e-5)
        self.hidden = nn.Linear(spec.width, spec.ffn)
        self.back = nn.Linear(spec.ffn, spec.width)
        future = torch.ones(spec.context, spec.context, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def attend(self, u: torch.Tensor) -> torch.Tensor:
        batch, context, width = u.shape
        q, k, v = (
            part.view(batch, context, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(u).split(width, dim=2)
        )
        if self.fused:
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5
            o = scores.masked_fill(self.future, float("-inf")).softmax(-1) @ v
        return self.output(o.transpose(1, 2).reshape(batch, context, width))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h + self.attend(self.attention_norm(h))
        return h + self.back(functional.gelu(self.hidden(self.feedforward_norm(h))))


class Gpt(nn.Module):
    def __init__(self, spec: Spec, attention: str = "sdpa"):
        super().__init__()
        self.spec = spec
        self.tokens = nn.Embedding(spec.vocabulary, spec.width)
        self.positions = nn.Embedding(spec.context, spec.width)
        self.blocks = nn.ModuleList(Block(spec, attention) for _ in range(spec.layers))
        self.norm = nn.LayerNorm(spec.width, eps=1e-5)
        self.head = nn.Linear(spec.width, spec.vocabulary, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of the next tokens y after the tokens x, both (B, T)."""
        h = self.tokens(x) + self.positions.weight
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.norm(h))
        return functional.cross_entropy(logits.view(-1, self.spec.vocabulary), y.reshape(-1))

    def named(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """Our name -> (parameter, stored here as [out, in] and by us as [in, out]), in our order."""
        out = {
            "embedding.tokens.weight": (self.tokens.weight, False),
            "embedding.positions.weight": (self.positions.weight, False),
            "norm.weight": (self.norm.weight, False),
            "norm.bias": (self.norm.bias, False),
            "head.weight": (self.head.weight, True),
        }
        for i, block in enumerate(self.blocks):
            for name, layer in {
                "attention.norm": block.attention_norm,
                "attention.qkv": block.qkv,
                "attention.output": block.output,
                "feedforward.norm": block.feedforward_norm,
                "feedforward.hidden": block.hidden,
                "feedforward.output": block.back,
            }.items():
                out[f"blocks.{i}.{name}.weight"] = (layer.weight, isinstance(layer, nn.Linear))
                out[f"blocks.{i}.{name}.bias"] = (layer.bias, False)
        return dict(sorted(out.items()))
