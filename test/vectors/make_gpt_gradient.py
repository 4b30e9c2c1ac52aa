"""Writes gpt-gradient.json: losses, gradients and AdamW steps of the GPT, by PyTorch in float64.

    .bench/torch/bin/python test/vectors/make_gpt_gradient.py

Parameters and tokens come from a linear congruential generator of 32 bits, s <- 1664525 s + 1013904223 (mod 2^32):
a draw is the high half of the next s, an integer n from 0 to 65535. Starting from the case's seed, the parameters are
drawn first, tensor by tensor in our order (sorted by name), each tensor row by row in our orientation: norm weights are
1 + (n - 32768) * scale, all others (n - 32768) * scale, with scale a power of two, so every value is exact in float32.
Then the tokens, sequence by sequence, context + 1 each: n modulo the vocabulary.
"""

import datetime
import json
import math
import os
import platform
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../bench/torch"))

import torch  # noqa: E402
from gpt import Gpt, Spec  # noqa: E402

SAMPLES = 64
# A large epsilon: key biases have no true gradient, and a small one would blow float32 noise up to full steps.
ADAMW = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-5, "weightDecay": 0.1, "clipNorm": 1.0}


def draws(seed: int):
    state = seed
    while True:
        state = (1664525 * state + 1013904223) % 2**32
        yield state >> 16


def ours(tensor: torch.Tensor, turned: bool) -> torch.Tensor:
    return (tensor.T if turned else tensor).detach().flatten()


def build(spec: Spec, seed: int, scale: float, batch: int, attention: str):
    source = draws(seed)
    model = Gpt(spec, attention).double()
    for name, (parameter, turned) in model.named().items():
        base = 1.0 if name.endswith("norm.weight") else 0.0
        shape = parameter.T.shape if turned else parameter.shape
        values = [base + (next(source) - 32768) * scale for _ in range(parameter.numel())]
        assert values == torch.tensor(values, dtype=torch.float32).tolist()
        tensor = torch.tensor(values, dtype=torch.float64).view(shape)
        parameter.data.copy_(tensor.T if turned else tensor)
    size = spec.context + 1
    tokens = [[next(source) % spec.vocabulary for _ in range(size)] for _ in range(batch)]
    return model, tokens


def backward(model: Gpt, tokens: list[list[int]]) -> float:
    windows = torch.tensor(tokens)
    model.zero_grad(set_to_none=True)
    loss = model(windows[:, :-1], windows[:, 1:])
    loss.backward()
    return loss.item()


def flat(model: Gpt, pick) -> torch.Tensor:
    return torch.cat([ours(pick(parameter), turned) for parameter, turned in model.named().values()])


def case(spec: Spec, seed: int, scale: float, batch: int):
    header = {"spec": {"architecture": "gpt", **vars(spec)}, "seed": seed, "scale": scale, "batch": batch}
    model, tokens = build(spec, seed, scale, batch, "plain")
    loss = backward(model, tokens)
    # the fused kernel must say the same, or one of the two is wrong
    twin, _ = build(spec, seed, scale, batch, "sdpa")
    assert math.isclose(backward(twin, tokens), loss, rel_tol=1e-12)
    gradient, other = flat(model, lambda p: p.grad), flat(twin, lambda p: p.grad)
    assert (gradient - other).norm() / gradient.norm() < 1e-12
    return header, model, tokens, loss, gradient


def small() -> dict:
    spec = Spec(vocabulary=11, width=8, layers=2, heads=2, context=6, ffn=16)
    header, model, tokens, loss, gradient = case(spec, seed=7, scale=2.0**-16, batch=3)
    params = flat(model, lambda p: p)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=ADAMW["lr"],
        betas=(ADAMW["beta1"], ADAMW["beta2"]),
        eps=ADAMW["epsilon"],
        weight_decay=ADAMW["weightDecay"],
        foreach=False,
    )
    losses = []
    for _ in range(3):
        losses.append(backward(model, tokens))
        torch.nn.utils.clip_grad_norm_(model.parameters(), ADAMW["clipNorm"])
        optimizer.step()
    return {
        **header,
        "tensors": [
            {"name": name, "shape": list(p.T.shape if turned else p.shape)}
            for name, (p, turned) in model.named().items()
        ],
        "tokens": tokens,
        "params": params.tolist(),
        "loss": loss,
        "gradient": gradient.tolist(),
        "gradientNorm": gradient.norm().item(),
        "adamw": {**ADAMW, "losses": losses, "params": flat(model, lambda p: p).tolist()},
    }


def char_gpt() -> dict:
    spec = Spec(vocabulary=95, width=128, layers=4, heads=4, context=128, ffn=512)
    header, model, _, loss, gradient = case(spec, seed=11, scale=2.0**-20, batch=2)
    tensors = []
    for name, (parameter, turned) in model.named().items():
        values = ours(parameter.grad, turned)
        count = min(SAMPLES, len(values))
        at = [j * len(values) // count for j in range(count)]
        tensors.append(
            {"name": name, "norm": values.norm().item(), "samples": [values[i].item() for i in at]}
        )
    return {
        **header,
        "parameters": sum(p.numel() for p in model.parameters()),
        "samples": f"entries floor(j * size / count) of each tensor, j from 0, count = min({SAMPLES}, size)",
        "loss": loss,
        "gradientNorm": gradient.norm().item(),
        "tensors": tensors,
    }


def main() -> None:
    document = {
        "made": {
            "by": "test/vectors/make_gpt_gradient.py",
            "with": f"PyTorch {torch.__version__}, Python {platform.python_version()}, CPU",
            "dtype": "float64",
            "date": datetime.date.today().isoformat(),
        },
        "formula": " ".join(__doc__.split("\n\n")[-1].split()),
        "small": small(),
        "charGpt": char_gpt(),
    }
    with open(os.path.join(HERE, "gpt-gradient.json"), "w") as file:
        json.dump(document, file, indent=None, separators=(",", ":"), allow_nan=False)
        file.write("\n")


if __name__ == "__main__":
    main()
