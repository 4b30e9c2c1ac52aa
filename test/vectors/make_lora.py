"""Writes lora.json: losses and gradients of low-rank adapters on tiny decoders, by Hugging Face's PEFT.

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install torch==2.11.0 transformers==5.23.0 peft==0.21.2
    /tmp/oracle/bin/python test/vectors/make_lora.py

Parameters and tokens come from the generator of make_decoders.py, starting from the case's seed: first the decoder's own
parameters in the order of their names (by code point), weights of norms 1 + (n - 32768) / 2^17 and all others
(n - 32768) / 2^17, then every A and B likewise in the order of the names that PEFT saves them under, then the tokens,
sequence by sequence, context + 1 each: n modulo the vocabulary. B is not zero, so that A has a gradient. Logits (of some
positions) and the losses are float32; gradients are those of the mean loss in float64, norms included.
"""

import json

import peft
import torch
from make_decoders import BATCH, CASES, CONTEXT, POSITIONS, digits, draws, exact_norm, is_norm, write
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

SAMPLES = 4
# of make_decoders.py; the targets as nostrain says them and as PEFT does
ADAPTERS = [
    ("llama tied", "qv", ["q_proj", "v_proj"], 4, 6),
    ("qwen2", "attention", ["q_proj", "k_proj", "v_proj", "o_proj"], 3, 5),
    ("llama with biases, linear positions", "all-linear", "all-linear", 2, 4),
    ("gpt2", "qv", ["c_attn"], 4, 6),
    ("gpt2", "all-linear", "all-linear", 3, 5),
    ("gpt2 untied, relu", "mlp.c_proj", ["mlp.c_proj"], 2, 3),
]


def fill(values: torch.Tensor, source, base: float) -> None:
    drawn = [base + (next(source) - 32768) / 2**17 for _ in range(values.numel())]
    values.copy_(torch.tensor(drawn, dtype=torch.float64).view(values.shape))


def case(at: int) -> dict:
    name, targets, modules, rank, alpha = ADAPTERS[at]
    options = dict(CASES[name])
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    plain = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float().eval()
    seed = 200 + at
    source = draws(seed)
    for key, parameter in sorted(plain.named_parameters()):
        fill(parameter.data, source, 1.0 if is_norm(key) else 0.0)
    settings = {"r": rank, "lora_alpha": alpha, "target_modules": modules, "lora_dropout": 0.0, "bias": "none"}
    model = get_peft_model(plain, LoraConfig(task_type="CAUSAL_LM", fan_in_fan_out=name.startswith("gpt2"), **settings))
    saved = {key: key.replace(".weight", ".default.weight") for key in sorted(get_peft_model_state_dict(model))}
    parameters = dict(model.named_parameters())
    assert set(saved.values()) == {key for key, parameter in parameters.items() if parameter.requires_grad}
    for key in saved.values():
        fill(parameters[key].data, source, 0.0)
    tokens = [[next(source) % config.vocab_size for _ in range(CONTEXT + 1)] for _ in range(BATCH)]
    windows = torch.tensor(tokens)
    x, y = windows[:, :-1], windows[:, 1:]
    with torch.no_grad():
        logits = model(input_ids=x).logits
    for norm in (LlamaRMSNorm, Qwen2RMSNorm):
        norm.forward = exact_norm
    model.double()
    loss = torch.nn.functional.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())
    loss.backward()
    tensors = []
    for key, inside in saved.items():
        gradient = parameters[inside].grad.flatten()
        count = min(SAMPLES, len(gradient))
        picked = gradient[[j * len(gradient) // count for j in range(count)]]
        shape = list(parameters[inside].shape)
        norm = float(f"{gradient.norm().item():.9g}")
        tensors.append({"name": key, "shape": shape, "norm": norm, "samples": digits(picked)})
    return {
        "name": f"{name}: {targets}",
        "config": json.loads(config.to_json_string()),
        "adapter": {"rank": rank, "alpha": alpha, "targets": targets},
        "seed": seed,
        "batch": BATCH,
        "context": CONTEXT,
        "positions": POSITIONS,
        "logits": digits(logits[:, POSITIONS]),
        "loss": loss.item(),
        "tensors": tensors,
    }


def main() -> None:
    originals = [(norm, norm.forward) for norm in (LlamaRMSNorm, Qwen2RMSNorm)]
    cases = []
    for at in range(len(ADAPTERS)):
        for norm, forward in originals:
            norm.forward = forward
        cases.append(case(at))
    write("lora", __doc__, cases, f"PEFT {peft.__version__}, ", SAMPLES)


if __name__ == "__main__":
    main()
