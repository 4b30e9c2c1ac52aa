"""Trains the forecaster or the vision transformer in PyTorch on what test/bench/forms.ts left in a folder, and prints one line of JSON."""

import json
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch  # noqa: E402
from patches import Forecaster, Pictures, Series, Vit  # noqa: E402


def numbers(folder: str, name: str, dtype: torch.dtype) -> torch.Tensor:
    with open(os.path.join(folder, name), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=dtype)


def main(folder: str) -> None:
    with open(os.path.join(folder, "task.json")) as file:
        task = json.load(file)
    spec, adamw = task["spec"], task["adamw"]
    architecture = spec.pop("architecture")
    if architecture == "vit":
        model = Vit(Pictures(**spec))
        size = (-1, spec["pixels"], spec["pixels"], spec["channels"])
        data = {
            part: (
                numbers(folder, f"{part}.pixels", torch.uint8).view(size).float() / 127.5 - 1,
                numbers(folder, f"{part}.labels", torch.int32).long(),
            )
            for part in ("shard", "validation")
        }
        batch_at = lambda part, rows: (data[part][0][rows], data[part][1][rows])
    else:
        model = Forecaster(Series(**spec))
        steps = torch.arange(spec["context"] + spec["horizon"])
        data = {p: numbers(folder, f"{p}.values", torch.float32).view(-1, spec["channels"]) for p in ("shard", "validation")}

        def batch_at(part, rows):
            windows = data[part][rows.unsqueeze(1) + steps]
            return windows[:, : spec["context"]], windows[:, spec["context"] :]

    model.load(numbers(folder, "params", torch.float32))
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=adamw["lr"], betas=(0.9, 0.99), eps=1e-8, weight_decay=adamw["weightDecay"])
    rows = numbers(folder, "rows", torch.int32).long().view(-1, task["batch"])
    start = time.perf_counter()
    for step, own in enumerate(rows):
        loss = model.losses(*batch_at("shard", own)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if task["clipNorm"] > 0:
            torch.nn.utils.clip_grad_norm_(parameters, task["clipNorm"])
        optimizer.step()
    seconds = time.perf_counter() - start
    held = numbers(folder, "held", torch.int32).long()
    with torch.no_grad():
        inputs, targets = batch_at("validation", held)
        loss = model.losses(inputs, targets).mean().item()
        right = (model(inputs).argmax(1) == targets).float().mean().item() if architecture == "vit" else None
    print(json.dumps({"torch": torch.__version__, "loss": loss, "accuracy": right, "seconds": seconds}))


main(sys.argv[1])
