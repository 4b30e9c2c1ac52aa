"""Writes experts.json: losses and gradients of tiny mixtures of experts, by PyTorch in float64.

    python3 test/vectors/make_experts.py

Parameters and tokens follow the formula of make_decoders.py with (n - 32768) / 2^15, in the order of the listed tensors.
Each token is sent to its experts alone (torch.topk, index_add), not to all of them behind a mask.
"""

import datetime
import json
import os
import platform

import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, BATCH, CONTEXT, CHUNK = 6, 2, 12, 4096
BALANCE = 0.03
GPT = {"architecture": "gpt", "vocabulary": 37, "width": 24, "layers": 2, "heads": 3, "context": CONTEXT, "ffn": 20}
LLAMA = {
    "architecture": "llama", "vocabulary": 37, "width": 24, "layers": 2, "heads": 3, "keyValueHeads": 1, "headSize": 8,
    "ffn": 20, "context": CONTEXT, "normEpsilon": 1e-5, "rope": {"base": 1000}, "tied": True, "queryKeyNorm": False,
    "bias": {"queryKeyValue": False, "attentionOutput": False, "feedforward": False}, "deviation": 0.02,
}
CASES = {
    "gpt, top 1": {**GPT, "experts": {"groups": [[0, 1, 2]], "perToken": 1, "balance": BALANCE}},
    "gpt, top 2, two groups": {**GPT, "experts": {"groups": [[0, 3], [1, 2]], "perToken": 2, "balance": BALANCE}},
    "llama, top 2, two groups": {**LLAMA, "experts": {"groups": [[0, 1], [2, 3]], "perToken": 2, "balance": BALANCE}},
    "gpt, top 2, home": {**GPT, "experts": {"groups": [[0, 3], [1, 2]], "perToken": 2, "balance": BALANCE, "home": [1, 2]}},
}


def draws(seed: int):
    while True:
        seed = (1664525 * seed + 1013904223) % 2**32
        yield seed >> 16


def padded(name: str, tensors: list) -> list:
    size = sum(torch.Size(shape).numel() for _, shape in tensors)
    return sorted(tensors + ([(name, (-size % CHUNK,))] if size % CHUNK else []))


def layout(spec: dict) -> list:
    d, f, v = spec["width"], spec["ffn"], spec["vocabulary"]
    is_gpt = spec["architecture"] == "gpt"
    blocks = [f"blocks.{i}" if is_gpt else f"model.layers.{i}" for i in range(spec["layers"])]
    if is_gpt:
        shared = [("embedding.tokens.weight", (v, d)), ("embedding.positions.weight", (CONTEXT, d)),
                  ("norm.weight", (d,)), ("norm.bias", (d,)), ("head.weight", (d, v))]
        for at in blocks:
            shared += [(f"{at}.{part}.norm.{what}", (d,)) for part in ("attention", "feedforward") for what in ("weight", "bias")]
            shared += [(f"{at}.attention.qkv.weight", (d, 3 * d)), (f"{at}.attention.qkv.bias", (3 * d,)),
                       (f"{at}.attention.output.weight", (d, d)), (f"{at}.attention.output.bias", (d,))]
        expert = [("hidden.weight", (d, f)), ("hidden.bias", (f,)), ("output.weight", (f, d)), ("output.bias", (d,))]
    else:
        k = spec["keyValueHeads"] * spec["headSize"]
        shared = [("model.embed_tokens.weight", (v, d)), ("model.norm.weight", (d,))]
        for at in blocks:
            shared += [(f"{at}.{name}.weight", (d,)) for name in ("input_layernorm", "post_attention_layernorm")]
            shared += [(f"{at}.self_attn.{name}_proj.weight", (rows, d)) for name, rows in (("q", d), ("k", k), ("v", k), ("o", d))]
        expert = [("mlp.gate_proj.weight", (f, d)), ("mlp.up_proj.weight", (f, d)), ("mlp.down_proj.weight", (d, f))]
    out = padded("padding", shared)
    for e in sorted(sum(spec["experts"]["groups"], [])):
        own = [(f"experts.{e}.{at}.{name}", shape) for at in blocks for name, shape in [("router.weight", (d,)), *expert]]
        out += padded(f"experts.{e}.padding", own)
    return out


class Model:
    def __init__(self, spec: dict, weights: dict, groups: list):
        self.spec, self.w, self.groups, self.balance = spec, weights, groups, 0.0

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.spec["architecture"])(x)

    def mix(self, at: str, u: torch.Tensor, apply) -> torch.Tensor:
        groups, per_token = self.groups, self.spec["experts"]["perToken"]
        numbers = sorted(sum(groups, []))
        scores = u @ torch.stack([self.w[f"experts.{e}.{at}.router.weight"] for e in numbers]).T
        shares, chosen = scores.softmax(-1).topk(per_token)
        if per_token > 1:
            shares = shares / shares.sum(-1, keepdim=True)
        out = torch.zeros_like(u)
        for i, e in enumerate(numbers):
            rows, rank = (chosen == i).nonzero(as_tuple=True)
            out = out.index_add(0, rows, shares[rows, rank, None] * apply(f"experts.{e}.{at}", u[rows]))
        for group in groups:
            own = scores[:, [numbers.index(e) for e in sorted(group)]]
            tokens = functional.one_hot(own.argmax(-1), len(group)).to(u.dtype).mean(0)
            self.balance += BALANCE * (len(group) * (tokens * own.softmax(-1).mean(0)).sum() - 1) / len(groups)
        return out

    def gpt(self, x: torch.Tensor) -> torch.Tensor:
        w, d, a = self.w, self.spec["width"], self.spec["heads"]
        norm = lambda h, name: functional.layer_norm(h, (d,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)
        expert = lambda at, u: functional.gelu(u @ w[f"{at}.hidden.weight"] + w[f"{at}.hidden.bias"]) @ w[f"{at}.output.weight"] + w[f"{at}.output.bias"]
        h = w["embedding.tokens.weight"][x] + w["embedding.positions.weight"]
        for i in range(self.spec["layers"]):
            at = f"blocks.{i}"
            u = norm(h, f"{at}.attention.norm") @ w[f"{at}.attention.qkv.weight"] + w[f"{at}.attention.qkv.bias"]
            q, k, v = (part.view(BATCH, CONTEXT, a, d // a).transpose(1, 2) for part in u.split(d, 2))
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(h.shape)
            h = h + o @ w[f"{at}.attention.output.weight"] + w[f"{at}.attention.output.bias"]
            h = h + self.mix(at, norm(h, f"{at}.feedforward.norm").view(-1, d), expert).view(h.shape)
        return norm(h, "norm") @ w["head.weight"]

    def llama(self, x: torch.Tensor) -> torch.Tensor:
        w, d, a, size = self.w, self.spec["width"], self.spec["heads"], self.spec["headSize"]
        norm = lambda h, name: functional.rms_norm(h, (d,), w[f"{name}.weight"], 1e-5)
        expert = lambda at, u: (functional.silu(u @ w[f"{at}.mlp.gate_proj.weight"].T) * (u @ w[f"{at}.mlp.up_proj.weight"].T)) @ w[f"{at}.mlp.down_proj.weight"].T
        half = size // 2
        angles = torch.arange(CONTEXT)[:, None] * self.spec["rope"]["base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        turn = torch.polar(torch.ones_like(angles), angles)

        def rotate(z):
            z = torch.complex(z[..., :half], z[..., half:]) * turn
            return torch.cat([z.real, z.imag], -1)

        h = w["model.embed_tokens.weight"][x]
        for i in range(self.spec["layers"]):
            at = f"model.layers.{i}"
            u = norm(h, f"{at}.input_layernorm")
            q, k, v = ((u @ w[f"{at}.self_attn.{name}_proj.weight"].T).view(BATCH, CONTEXT, -1, size).transpose(1, 2) for name in "qkv")
            k, v = (z.repeat_interleave(a // z.shape[1], 1) for z in (k, v))
            o = functional.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True).transpose(1, 2).reshape(h.shape)
            h = h + o @ w[f"{at}.self_attn.o_proj.weight"].T
            h = h + self.mix(at, norm(h, f"{at}.post_attention_layernorm").view(-1, d), expert).view(h.shape)
        return norm(h, "model.norm") @ w["model.embed_tokens.weight"].T


def by_context(windows: torch.Tensor, all_logits: list) -> float:
    """Returns the loss of the groups' shares, each weighted by its likelihood of the tokens before (arXiv 2108.05036)."""
    losses = []
    for b, window in enumerate(windows):
        log_shares = [logits[b].log_softmax(-1) for logits in all_logits]
        evidence = [0.0] * len(all_logits)
        for t, target in enumerate(window[1:]):
            posterior = torch.tensor(evidence, dtype=torch.float64).softmax(0)
            losses.append(-sum(weight * each[t, target].exp() for weight, each in zip(posterior, log_shares)).log())
            evidence = [total + each[t, target].item() for total, each in zip(evidence, log_shares)]
    return torch.stack(losses).mean().item()


def case(name: str, spec: dict, seed: int) -> dict:
    source, weights = draws(seed), {}
    for tensor, shape in layout(spec):
        base = 1.0 if tensor.endswith("norm.weight") else 0.0
        values = [base + (next(source) - 32768) / 2**15 for _ in range(torch.Size(shape).numel())]
        weights[tensor] = torch.tensor(values, dtype=torch.float64).view(shape).requires_grad_()
    windows = torch.tensor([[next(source) % spec["vocabulary"] for _ in range(CONTEXT + 1)] for _ in range(BATCH)])
    groups, home = spec["experts"]["groups"], spec["experts"].get("home")
    model = Model(spec, weights, [home] if home else groups)
    loss = functional.cross_entropy(model.logits(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    evaluation = loss.item()
    if spec["architecture"] == "gpt" and len(groups) > 1:
        evaluation = by_context(windows, [Model(spec, weights, [group]).logits(windows[:, :-1]) for group in groups])
    (loss + model.balance).backward()
    tensors = []
    for tensor, value in weights.items():
        grad = (torch.zeros_like(value) if value.grad is None else value.grad).flatten()
        count = min(SAMPLES, len(grad))
        samples = [grad[j * len(grad) // count].item() for j in range(count)]
        tensors.append({"name": tensor, "shape": list(value.shape), "norm": grad.norm().item(), "samples": samples})
    sizes = {"seed": seed, "batch": BATCH, "context": CONTEXT}
    return {"name": name, "spec": spec, **sizes, "loss": loss.item(), "balance": model.balance.item(), "evaluation": evaluation, "tensors": tensors}


document = {
    "made": {
        "by": "test/vectors/make_experts.py",
        "with": f"PyTorch {torch.__version__}, Python {platform.python_version()}, CPU",
        "dtype": "float64",
        "date": datetime.date.today().isoformat(),
    },
    "cases": [case(name, spec, seed) for seed, (name, spec) in enumerate(CASES.items(), 5)],
}
with open(os.path.join(HERE, "experts.json"), "w") as file:
    json.dump(document, file, separators=(",", ":"), allow_nan=False)
    file.write("\n")
