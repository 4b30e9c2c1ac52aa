"""Times fine-tuning of a GGUF model in PyTorch with PEFT and prints one line of JSON. The peer of test/bench/finetune.ts."""

import argparse
import json
import os
import pathlib
import platform
import resource
import time
import warnings

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

transformers.logging.set_verbosity_error()


def load_base(path):
    file = pathlib.Path(path)
    return transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )


def load_peft(path, rank, alpha, targets):
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, lora_dropout=0.0)
    return get_peft_model(load_base(path), config)


def peak_mb():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=5, help="timed steps, after two others")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--context", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    started = time.perf_counter()
    base = load_base(args.model)
    import_seconds = time.perf_counter() - started
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    model = get_peft_model(base, config)
    model.train()
    weights = [p for p in model.parameters() if p.requires_grad]
    numbers = {"lr": 2e-3, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0}
    optimizer = torch.optim.AdamW(weights, fused=True, **numbers)
    windows = torch.randint(base.config.vocab_size, (args.batch, args.context + 1))

    def train():
        logits = model(input_ids=windows[:, :-1]).logits
        loss = cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        return loss.item()

    times = []
    for step in range(2 + args.steps):
        if step == 2:
            spent = time.process_time()
        begun = time.perf_counter()
        train()
        times.append(1000 * (time.perf_counter() - begun))
    spent = time.process_time() - spent
    report = {
        "cpu_ms_per_step": round(1000 * spent / args.steps, 1),
        "parameters": sum(p.numel() for p in weights),
        "import_seconds": round(import_seconds, 2),
        "ms_per_step": [round(ms, 1) for ms in times[2:]],
        "first_step_ms": round(times[0], 1),
        "peak_rss_mb": peak_mb(),
        "attention": base.config._attn_implementation,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
