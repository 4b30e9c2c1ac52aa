"""Writes greedy.json: what tiny decoders and adapters on them write, by Hugging Face's transformers and PEFT.

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install torch==2.11.0 transformers==5.23.0 peft==0.21.2
    /tmp/oracle/bin/pip install gguf==0.19.0
    /tmp/oracle/bin/python test/vectors/make_greedy.py SmolLM2-135M-Instruct.Q4_1.gguf

The models are those of decoders.json and lora.json, number by number. The prompt is the first 5 tokens of the case's first
sequence, in float32, and the likeliest token follows each time, with a key-value cache, until the text is as long as the model's
positions or has 60 tokens. What the real model writes is 24 tokens after a text and after a question by its template of chats. The margin is by how much the likeliest logit was ahead of the second at least.
"""

import datetime
import json
import os
import platform
import sys

import peft
import torch
import transformers
from make_decoders import CASES, draws, is_norm
from make_lora import ADAPTERS, fill
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT, LENGTH = 5, 60


def plain(name: str, source):
    options = dict(CASES[name])
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float().eval()
    for key, parameter in sorted(model.named_parameters()):
        fill(parameter.data, source, 1.0 if is_norm(key) else 0.0)
    return model


def adapted(at: int, source):
    name, _, modules, rank, alpha = ADAPTERS[at]
    settings = {"r": rank, "lora_alpha": alpha, "target_modules": modules, "lora_dropout": 0.0, "bias": "none"}
    own = LoraConfig(task_type="CAUSAL_LM", fan_in_fan_out=name.startswith("gpt2"), **settings)
    model = get_peft_model(plain(name, source), own)
    parameters = dict(model.named_parameters())
    for key in sorted(get_peft_model_state_dict(model)):
        fill(parameters[key.replace(".weight", ".default.weight")].data, source, 0.0)
    return model.eval()


@torch.no_grad()
def case(model, source) -> dict:
    config = model.config
    prompt = [next(source) % config.vocab_size for _ in range(PROMPT)]
    longest = min(LENGTH, config.max_position_embeddings)
    tokens, past, unread, margin = list(prompt), None, prompt, float("inf")
    while len(tokens) < longest:
        out = model(input_ids=torch.tensor([unread]), past_key_values=past, use_cache=True)
        best = out.logits[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        past, unread = out.past_key_values, [best.indices[0].item()]
        tokens += unread
    whole = {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, PROMPT, dtype=torch.long)}
    model.generation_config.eos_token_id = None
    again = model.generate(**whole, max_length=longest, do_sample=False)
    assert again[0].tolist() == tokens
    assert margin > 1e-5, margin
    return {"prompt": prompt, "tokens": tokens[PROMPT:], "margin": float(f"{margin:.3g}")}


@torch.no_grad()
def smollm2(path: str) -> list:
    folder, file = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    question = [{"role": "user", "content": "What is a relay?"}]
    texts = ["The capital of France is", tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)]
    written = []
    for text in texts:
        prompt = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        tokens = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0].tolist()
        count = prompt["input_ids"].shape[1]
        written.append({"text": text, "prompt": tokens[:count], "tokens": tokens[count:]})
    return written


def main() -> None:
    decoders = []
    for at, name in enumerate(CASES):
        source = draws(100 + at)
        decoders.append({"name": name, **case(plain(name, source), source)})
    adapters = []
    for at, (name, targets, *_) in enumerate(ADAPTERS):
        source = draws(200 + at)
        adapters.append({"name": f"{name}: {targets}", **case(adapted(at, source), source)})
    versions = f"PEFT {peft.__version__}, transformers {transformers.__version__}, PyTorch {torch.__version__}"
    document = {
        "made": {
            "by": "test/vectors/make_greedy.py",
            "with": f"{versions}, Python {platform.python_version()}, CPU",
            "date": datetime.date.today().isoformat(),
        },
        "decoders": decoders,
        "adapters": adapters,
        "smollm2": smollm2(sys.argv[1]),
    }
    with open(os.path.join(HERE, "greedy.json"), "w") as file:
        json.dump(document, file, indent=None, separators=(",", ":"), allow_nan=False)
        file.write("\n")


if __name__ == "__main__":
    main()
