"""Writes masked.json: losses and gradients of tiny decoders where only some tokens count, by PyTorch in float64.

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install torch==2.11.0 transformers==5.23.0
    /tmp/oracle/bin/python test/vectors/make_masked.py

Parameters and tokens are drawn as in make_decoders.py, which lies beside this file, with 4 sequences. After the tokens one more
number is drawn for each of them, sequence by sequence: the token counts where n modulo 3 is 0. Of the second sequence none
counts, of the third its last one alone. The loss is the mean cross-entropy over the targets that count (all others are -100 to
PyTorch), rows are such means of one sequence, null where none counts.
"""

import json

import torch
from make_decoders import CASES, CONTEXT, SAMPLES, digits, draws, exact_norm, is_norm, write
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

BATCH = 4
UNCOUNTED = -100


def case(name: str, options: dict, seed: int) -> dict:
    options = dict(options)
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").double().eval()
    source = draws(seed)
    parameters = dict(sorted(model.named_parameters()))
    for key, parameter in parameters.items():
        base = 1.0 if is_norm(key) else 0.0
        values = [base + (next(source) - 32768) / 2**17 for _ in range(parameter.numel())]
        parameter.data.copy_(torch.tensor(values, dtype=torch.float64).view(parameter.shape))
    windows = torch.tensor([[next(source) % config.vocab_size for _ in range(CONTEXT + 1)] for _ in range(BATCH)])
    counted = torch.tensor([[int(next(source) % 3 == 0) for _ in range(CONTEXT + 1)] for _ in range(BATCH)])
    counted[1] = 0
    counted[2] = 0
    counted[2, -1] = 1
    x, y = windows[:, :-1], windows[:, 1:].clone()
    y[counted[:, 1:] == 0] = UNCOUNTED
    logits = model(input_ids=x).logits
    rows = [torch.nn.functional.cross_entropy(own, targets, ignore_index=UNCOUNTED) for own, targets in zip(logits, y)]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=UNCOUNTED)
    loss.backward()
    tensors = []
    for key, parameter in parameters.items():
        gradient = parameter.grad.flatten()
        count = min(SAMPLES, len(gradient))
        picked = gradient[[j * len(gradient) // count for j in range(count)]]
        norm = float(f"{gradient.norm().item():.9g}")
        tensors.append({"name": key, "norm": norm, "samples": digits(picked)})
    return {
        "name": name,
        "config": json.loads(config.to_json_string()),
        "seed": seed,
        "batch": BATCH,
        "context": CONTEXT,
        "counted": counted.flatten().tolist(),
        "rows": [None if row.isnan() else row.item() for row in rows],
        "loss": loss.item(),
        "tensors": tensors,
    }


def main() -> None:
    for norm in (LlamaRMSNorm, Qwen3RMSNorm):
        norm.forward = exact_norm
    names = ["llama tied", "qwen3", "gpt2"]
    write("masked", __doc__, [case(name, CASES[name], seed=300 + at) for at, name in enumerate(names)])


if __name__ == "__main__":
    main()
