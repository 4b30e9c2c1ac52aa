"""The patch transformers of src/model/architectures/{forecaster,vit}.ts in idiomatic PyTorch, with their tensors under our names."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

QUANTILES = (0.1, 0.5, 0.9)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, ffn: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.feedforward_norm = nn.LayerNorm(width, eps=1e-5)
        self.hidden = nn.Linear(width, ffn)
        self.back = nn.Linear(ffn, width)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        batch, length, width = h.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.attention_norm(h)).split(width, dim=2)
        )
        o = functional.scaled_dot_product_attention(q, k, v)
        h = h + self.output(o.transpose(1, 2).reshape(batch, length, width))
        return h + self.back(functional.gelu(self.hidden(self.feedforward_norm(h))))


class Encoder(nn.Module):
    def __init__(self, inputs: int, length: int, outputs: tuple[int, int], width: int, layers: int, heads: int, ffn: int):
        super().__init__()
        self.patches = nn.Linear(inputs, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, ffn) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.head = nn.Linear(*outputs)

    def encode(self, patches: torch.Tensor) -> torch.Tensor:
        h = self.patches(patches) + self.positions.weight
        for block in self.blocks:
            h = block(h)
        return self.norm(h)

    def named(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """Our name -> (parameter, stored here as [out, in] and by us as [in, out]), in our order."""
        out = {"positions.weight": (self.positions.weight, False)}
        layers = {"patches": self.patches, "norm": self.norm, "head": self.head}
        for i, block in enumerate(self.blocks):
            layers |= {
                f"blocks.{i}.attention.norm": block.attention_norm,
                f"blocks.{i}.attention.qkv": block.qkv,
                f"blocks.{i}.attention.output": block.output,
                f"blocks.{i}.feedforward.norm": block.feedforward_norm,
                f"blocks.{i}.feedforward.hidden": block.hidden,
                f"blocks.{i}.feedforward.output": block.back,
            }
        for name, layer in layers.items():
            out[f"{name}.weight"] = (layer.weight, isinstance(layer, nn.Linear))
            out[f"{name}.bias"] = (layer.bias, False)
        return dict(sorted(out.items()))

    def load(self, flat: torch.Tensor) -> None:
        """Takes our flat parameters."""
        at = 0
        for parameter, turned in self.named().values():
            shape = parameter.T.shape if turned else parameter.shape
            piece = flat[at : at + parameter.numel()].view(shape)
            parameter.data.copy_(piece.T if turned else piece)
            at += parameter.numel()
        assert at == len(flat), (at, len(flat))


@dataclass(frozen=True)
class Series:
    channels: int
    context: int
    horizon: int
    patch: int
    width: int
    layers: int
    heads: int
    ffn: int
    error: str
    scaling: str


class Forecaster(Encoder):
    def __init__(self, spec: Series):
        length = spec.context // spec.patch
        each = len(QUANTILES) if spec.error == "quantile" else 1
        outputs = (length * spec.width, spec.horizon * spec.channels * each)
        super().__init__(spec.patch * spec.channels, length, outputs, spec.width, spec.layers, spec.heads, spec.ffn)
        self.spec, self.each = spec, each

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = self.spec
        mean, spread = x.mean(1, keepdim=True), (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        z = (x - mean) / spread if s.scaling == "window" else x
        h = self.encode(z.reshape(len(x), s.context // s.patch, s.patch * s.channels))
        y = self.head(h.flatten(1)).view(len(x), s.horizon, s.channels, self.each)
        return y * spread.unsqueeze(-1) + mean.unsqueeze(-1) if s.scaling == "window" else y

    def losses(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        rest = target.unsqueeze(-1) - self(x)
        if self.spec.error == "squared":
            return rest.square().flatten(1).mean(1)
        q = torch.tensor(QUANTILES, dtype=x.dtype)
        return torch.maximum(q * rest, (q - 1) * rest).flatten(1).mean(1)


@dataclass(frozen=True)
class Pictures:
    pixels: int
    channels: int
    classes: int
    patch: int
    width: int
    layers: int
    heads: int
    ffn: int


class Vit(Encoder):
    def __init__(self, spec: Pictures):
        side = spec.pixels // spec.patch
        inputs = spec.patch * spec.patch * spec.channels
        super().__init__(inputs, side * side, (spec.width, spec.classes), spec.width, spec.layers, spec.heads, spec.ffn)
        self.spec = spec

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures (B, S, S, C) from -1 to 1."""
        s = self.spec
        side = s.pixels // s.patch
        grid = x.view(len(x), side, s.patch, side, s.patch, s.channels).permute(0, 1, 3, 2, 4, 5)
        h = self.encode(grid.reshape(len(x), side * side, s.patch * s.patch * s.channels))
        return self.head(h.mean(1))

    def losses(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self(x), target, reduction="none")
