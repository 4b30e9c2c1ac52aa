"""Times training steps of the PyTorch twin and prints one line of JSON. The peer of our own step in test/bench."""

import argparse
import json
import platform
import resource
import statistics
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch  # noqa: E402
from gpt import Gpt, Spec  # noqa: E402

CONFIGS = {
    "char-gpt": (Spec(vocabulary=95, width=128, layers=4, heads=4, context=128, ffn=512), 32),
    "gpt-10m": (Spec(vocabulary=256, width=384, layers=6, heads=6, context=256, ffn=1536), 8),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", choices=CONFIGS, default="char-gpt")
    parser.add_argument("--steps", type=int, default=20, help="timed steps, after --warmup others")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, help="sequences per step; the config's own if left out")
    parser.add_argument("--attention", choices=["sdpa", "plain"], default="sdpa")
    parser.add_argument("--adamw", choices=["fused", "foreach", "loop"], default="fused")
    parser.add_argument("--compile", action="store_true", help="torch.compile, not part of the peer")
    parser.add_argument("--corpus", help="train on these bytes instead of random tokens")
    return parser.parse_args()


def corpus_of(path: str | None, vocabulary: int) -> torch.Tensor:
    if path is None:
        return torch.randint(vocabulary, (1_000_000,), dtype=torch.uint8)
    with open(path, "rb") as file:
        text = file.read()
    if vocabulary == 95:  # the `chars` tokenizer of src/model/data/tokens.ts
        text = bytes(0 if c == 10 else c - 31 if 32 <= c <= 125 else 1 for c in text)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    spec, batch = CONFIGS[args.config]
    batch = args.batch or batch
    model = Gpt(spec, args.attention)
    for name, (parameter, _) in model.named().items():  # our starting values, by distribution
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.02)
        else:
            torch.nn.init.constant_(parameter, float(name.endswith("norm.weight")))
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters,
        lr=3e-4,
        betas=(0.9, 0.99),
        eps=1e-8,
        weight_decay=0.1,
        fused=args.adamw == "fused",
        foreach=args.adamw == "foreach",
    )
    step = torch.compile(model) if args.compile else model
    corpus = corpus_of(args.corpus, spec.vocabulary)
    reach = torch.arange(spec.context + 1)

    def train() -> float:
        starts = torch.randint(len(corpus) - spec.context, (batch, 1))
        windows = corpus[starts + reach].long()
        loss = step(windows[:, :-1], windows[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.item()

    losses = [train() for _ in range(args.warmup)]
    times = []
    spent = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        losses.append(train())
        times.append(1000 * (time.perf_counter() - start))
    spent = time.process_time() - spent
    median = statistics.median(times)
    report = {
        "config": args.config,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "batch": batch,
        "threads": args.threads,
        "attention": args.attention,
        "adamw": args.adamw,
        "compiled": args.compile,
        "median_ms": round(median, 2),
        "tokens_per_second": round(1000 * batch * spec.context / median),
        "ms_per_step": [round(ms, 2) for ms in times],
        "cpu_ms_per_step": round(1000 * spent / args.steps, 2),
        "losses": [round(loss, 4) for loss in losses],
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
