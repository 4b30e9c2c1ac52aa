"""Writes patches.json: losses and gradients of the forecaster and the vision transformer, by PyTorch in float64.

    .bench/torch/bin/python test/vectors/make_patches.py

Parameters come from the generator of make_gpt_gradient.py. Numbers of series are (n - 32768) / 16384 of further draws n, step by step;
bytes of pictures n modulo 256, their classes n modulo the number of classes.
"""

import dataclasses
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../bench/torch"))

import torch  # noqa: E402
from patches import Forecaster, Pictures, Series, Vit  # noqa: E402

SEED, SCALE, BATCH = 7, 1 / 2**17, 3
BLOCKS = {"width": 8, "layers": 2, "heads": 2, "ffn": 16}


def draws(seed: int):
    state = seed
    while True:
        state = (1664525 * state + 1013904223) % 2**32
        yield state >> 16


def build(model, source):
    model.double()
    for name, (parameter, turned) in model.named().items():
        base = 1.0 if name.endswith("norm.weight") else 0.0
        shape = parameter.T.shape if turned else parameter.shape
        values = torch.tensor([base + (next(source) - 32768) * SCALE for _ in range(parameter.numel())], dtype=torch.float64)
        parameter.data.copy_(values.view(shape).T if turned else values.view(shape))


def case(architecture, model, inputs, targets, spec):
    losses = model.losses(inputs, targets)
    losses.mean().backward()
    parts = [(p.grad.T if turned else p.grad).flatten() for p, turned in model.named().values()]
    return {
        "spec": {"architecture": architecture, **dataclasses.asdict(spec)},
        "seed": SEED,
        "scale": SCALE,
        "losses": losses.tolist(),
        "predictions": model(inputs[:1]).flatten().tolist(),
        "gradient": [float(f"{value:.9g}") for value in torch.cat(parts).tolist()],
    }


def forecaster(error, scaling):
    spec = Series(channels=2, context=12, horizon=5, patch=4, error=error, scaling=scaling, **BLOCKS)
    source = draws(SEED)
    model = Forecaster(spec)
    build(model, source)
    steps = spec.context + spec.horizon
    numbers = [(next(source) - 32768) / 16384 for _ in range(BATCH * steps * spec.channels)]
    windows = torch.tensor(numbers, dtype=torch.float64).view(BATCH, steps, spec.channels)
    return case("forecaster", model, windows[:, : spec.context], windows[:, spec.context :], spec)


def vit():
    spec = Pictures(pixels=6, channels=3, classes=4, patch=3, **BLOCKS)
    source = draws(SEED)
    model = Vit(spec)
    build(model, source)
    size = spec.pixels * spec.pixels * spec.channels
    bytes_ = torch.tensor([next(source) % 256 for _ in range(BATCH * size)], dtype=torch.float64)
    classes = torch.tensor([next(source) % spec.classes for _ in range(BATCH)])
    pictures = (bytes_ / 127.5 - 1).view(BATCH, spec.pixels, spec.pixels, spec.channels)
    return case("vit", model, pictures, classes, spec)


cases = [forecaster(error, scaling) for error in ("squared", "quantile") for scaling in ("window", "training")]
with open(os.path.join(HERE, "patches.json"), "w") as file:
    json.dump({"torch": torch.__version__, "batch": BATCH, "cases": [*cases, vit()]}, file)
    file.write("\n")
