"""Writes decoders.json: logits, losses and gradients of tiny decoders of every family, by Hugging Face's transformers.

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install torch==2.11.0 transformers==5.23.0
    /tmp/oracle/bin/python test/vectors/make_decoders.py

Parameters and tokens come from a linear congruential generator of 32 bits, s <- 1664525 s + 1013904223 (mod 2^32):
a draw is the high half of the next s, an integer n from 0 to 65535. Starting from the case's seed, the parameters are
drawn first, tensor by tensor in the order of their names (by code point), each row by row as the files store it: weights of
norms are 1 + (n - 32768) / 2^17, all others (n - 32768) / 2^17, so every value is exact in float32. Then the tokens, sequence
by sequence, context + 1 each: n modulo the vocabulary. Logits (of some positions) and losses (of all) are float32; gradients are those of the mean loss in
float64, for which the norms, which transformers always computes in float32, are computed in float64 too.
"""

import datetime
import json
import os
import platform

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mistral.modeling_mistral import MistralRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = 6
BATCH, CONTEXT = 2, 12
POSITIONS = [0, 5, 11]

SIZES = {
    "vocab_size": 37,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rope_theta": 1000.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CASES = {
    "llama tied": {**SIZES, "model_type": "llama", "tie_word_embeddings": True, "rms_norm_eps": 1e-5},
    "llama untied, llama3 positions": {
        **SIZES,
        "model_type": "llama",
        "head_dim": 8,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "rope_scaling": LLAMA3,
    },
    "llama with biases, linear positions": {
        **SIZES,
        "model_type": "llama",
        "num_key_value_heads": 6,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
    },
    "mistral with a window": {**SIZES, "model_type": "mistral", "sliding_window": 5},
    "qwen2": {**SIZES, "model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {**SIZES, "model_type": "qwen3", "head_dim": 8},
    "gpt2": {"model_type": "gpt2", "vocab_size": 37, "n_positions": 20, "n_embd": 24, "n_layer": 2, "n_head": 3},
    "gpt2 untied, relu": {
        "model_type": "gpt2",
        "vocab_size": 37,
        "n_positions": 12,
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "n_inner": 20,
        "activation_function": "relu",
        "tie_word_embeddings": False,
    },
}


def draws(seed: int):
    state = seed
    while True:
        state = (1664525 * state + 1013904223) % 2**32
        yield state >> 16


def exact_norm(self, hidden):
    variance = hidden.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden * torch.rsqrt(variance + self.variance_epsilon))


def is_norm(name: str) -> bool:
    return name.endswith(("norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight"))


def digits(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.9g}") for value in values.flatten().tolist()]


def case(name: str, options: dict, seed: int) -> dict:
    options = dict(options)
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float().eval()
    source = draws(seed)
    parameters = dict(sorted(model.named_parameters()))
    for key, parameter in parameters.items():
        base = 1.0 if is_norm(key) else 0.0
        values = [base + (next(source) - 32768) / 2**17 for _ in range(parameter.numel())]
        parameter.data.copy_(torch.tensor(values, dtype=torch.float64).view(parameter.shape))
    tokens = [[next(source) % config.vocab_size for _ in range(CONTEXT + 1)] for _ in range(BATCH)]
    windows = torch.tensor(tokens)
    x, y = windows[:, :-1], windows[:, 1:]
    with torch.no_grad():
        logits = model(input_ids=x).logits
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
    for norm in (LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        norm.forward = exact_norm
    model.double()
    loss = torch.nn.functional.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())
    loss.backward()
    assert abs(losses.double().mean().item() - loss.item()) < 1e-5
    tensors = []
    for key, parameter in parameters.items():
        gradient = parameter.grad.flatten()
        count = min(SAMPLES, len(gradient))
        picked = gradient[[j * len(gradient) // count for j in range(count)]]
        norm = float(f"{gradient.norm().item():.9g}")
        tensors.append({"name": key, "shape": list(parameter.shape), "norm": norm, "samples": digits(picked)})
    return {
        "name": name,
        "config": json.loads(config.to_json_string()),
        "seed": seed,
        "batch": BATCH,
        "context": CONTEXT,
        "positions": POSITIONS,
        "logits": digits(logits[:, POSITIONS]),
        "losses": digits(losses),
        "loss": loss.item(),
        "tensors": tensors,
    }


def write(name: str, about: str, cases: list, packages: str = "", samples: int = SAMPLES) -> None:
    """Writes NAME.json beside this file; `about` is the docstring of make_NAME.py, whose last paragraph says what the numbers are."""
    versions = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
    document = {
        "made": {
            "by": f"test/vectors/make_{name}.py",
            "with": f"{packages}{versions}, Python {platform.python_version()}, CPU",
            "date": datetime.date.today().isoformat(),
        },
        "formula": " ".join(about.split("\n\n")[-1].split()),
        "samples": f"entries floor(j * size / count) of each tensor's gradient, j from 0, count = min({samples}, size)",
        "cases": cases,
    }
    with open(os.path.join(HERE, f"{name}.json"), "w") as file:
        json.dump(document, file, indent=None, separators=(",", ":"), allow_nan=False)
        file.write("\n")


def main() -> None:
    originals = [(norm, norm.forward) for norm in (LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm)]
    cases = []
    for at, (name, options) in enumerate(CASES.items()):
        for norm, forward in originals:
            norm.forward = forward
        cases.append(case(name, options, seed=100 + at))
    write("decoders", __doc__, cases)


if __name__ == "__main__":
    main()
