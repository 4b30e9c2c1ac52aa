"""Loads exported models as their programs do and says what they write and lose: test/interop/exported-models.test.ts.

Takes a list of JSON objects on stdin: `base` (how the base is loaded), any of `peft`, `merged`, `gguf` (paths), `prompt` (token ids),
`window` (a list of windows of them), `length`, and `text` (tokenized with what was exported); `borrows` reads the GGUF file with the folder's config.json. Prints what was found of each.
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from gguf import GGUFReader
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


def load(path: str):
    at = {"gguf_file": os.path.basename(path)} if path.endswith(".gguf") else {}
    folder = os.path.dirname(path) if at else path
    return folder, at


def model_of(path: str, config: str | None = None):
    folder, at = load(path)
    if config is not None:
        at["config"] = AutoConfig.from_pretrained(config)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **at).eval()


@torch.no_grad()
def answer(model, asked: dict, path: str | None) -> dict:
    prompt = torch.tensor([asked["prompt"]])
    model.generation_config.eos_token_id = None
    written = model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=asked["length"], do_sample=False
    )
    windows = torch.tensor(asked["window"])
    logits = model(input_ids=windows[:, :-1]).logits.double()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    result = {"tokens": written[0, prompt.shape[1] :].tolist(), "loss": loss.item()}
    if path is not None:
        folder, at = load(path)
        tokenizer = AutoTokenizer.from_pretrained(folder, **at)
        result["ids"] = tokenizer(asked["text"], add_special_tokens=False)["input_ids"]
    return result


def results_of(asked: dict) -> dict:
    results = {}
    if "peft" in asked:
        with_adapter = PeftModel.from_pretrained(model_of(asked["base"]), asked["peft"])
        results["peft"] = answer(with_adapter.eval(), asked, None)
    results["merged"] = answer(model_of(asked["merged"]), asked, asked["merged"])
    if "gguf" in asked:
        reader = GGUFReader(asked["gguf"])
        architecture = reader.get_field("general.architecture").contents()
        # of such files transformers reads no biases and no scaled positions, and takes GPT-2's positions to be 1,024
        config = asked["merged"] if asked.get("borrows") else None
        told = answer(model_of(asked["gguf"], config), asked, asked["gguf"])
        results["gguf"] = {**told, "tensors": len(reader.tensors), "architecture": architecture}
    return results


def main() -> None:
    json.dump([results_of(asked) for asked in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
