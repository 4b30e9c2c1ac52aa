"""Plays a run of test/bench/finetune-rounds.ts in PyTorch with PEFT: same texts, rows, rates and first values, dense averaging.

    npm run bench:finetune-rounds -- --corpus FILE --export DIR '{}'
    python test/bench/torch/finetune_rounds.py DIR

A stopped run goes on with its last finished round. Needs torch, transformers, peft and gguf.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import torch
from finetune import load_peft
from torch.nn.functional import cross_entropy


class Run:
    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        self.folder = folder
        self.plan = json.loads((folder / "plan.json").read_text())
        plan = self.plan
        self.model = load_peft(plan["model"], plan["rank"], plan["alpha"], ["q_proj", "v_proj"])
        named = {name.replace(".default", ""): p for name, p in self.model.named_parameters()}
        start = np.fromfile(folder / "start.f32", dtype=np.float32)
        self.weights = []
        for slot in plan["slots"]:
            weight = named[slot["name"]]
            assert list(weight.shape) == slot["shape"], slot
            values = start[slot["offset"] : slot["offset"] + slot["size"]].reshape(slot["shape"])
            weight.data.copy_(torch.from_numpy(values))
            self.weights.append(weight)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        assert len(trained) == len(self.weights)
        self.shards = [self.tokens(f"shard-{i}") for i in range(plan["workers"])]
        self.validation = self.tokens("validation")

    def tokens(self, name):
        return torch.from_numpy(np.fromfile(self.folder / f"{name}.i32", dtype=np.int32).astype(np.int64))

    def losses(self, corpus, rows):
        windows = torch.stack([corpus[row : row + self.plan["context"] + 1] for row in rows])
        logits = self.model(input_ids=windows[:, :-1]).logits
        return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    @torch.no_grad()
    def evaluate(self):
        context = self.plan["context"]
        available = (len(self.validation) - 1) // context
        rows = [(i * available) // 8 * context for i in range(8)]
        return sum(self.losses(self.validation, [row]).item() for row in rows) / len(rows)

    def snapshot(self):
        return [weight.data.clone() for weight in self.weights]

    def load(self, values):
        for weight, value in zip(self.weights, values):
            weight.data.copy_(value)

    def optimizer(self, state):
        o = self.plan["optimizer"]
        numbers = {"betas": (o["beta1"], o["beta2"]), "eps": o["epsilon"], "weight_decay": o["weightDecay"]}
        optimizer = torch.optim.AdamW(self.weights, lr=1.0, fused=True, **numbers)
        if state:
            optimizer.load_state_dict(state)
        return optimizer

    def train(self, worker, round_, state):
        """The worker's inner steps from the weights as they are; gives its optimizer's state."""
        plan = self.plan
        optimizer = self.optimizer(state)
        steps, batch = plan["innerSteps"], plan["batch"]
        rows = plan["rows"][worker][round_]
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = plan["rates"][round_ * steps + step]
            optimizer.zero_grad(set_to_none=True)
            self.losses(self.shards[worker], rows[step * batch : (step + 1) * batch]).backward()
            torch.nn.utils.clip_grad_norm_(self.weights, plan["optimizer"]["clipNorm"])
            optimizer.step()
        return optimizer.state_dict()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    run = Run(args.folder, args.threads)
    workers, rounds = run.plan["workers"], run.plan["rounds"]
    kept = args.folder / "torch.pt"
    progress = {"losses": [run.evaluate()], "shared": run.snapshot(), "states": [None] * workers}
    if kept.exists():
        progress = torch.load(kept, weights_only=False)
    for round_ in range(len(progress["losses"]) - 1, rounds):
        started = time.time()
        ends = []
        for worker in range(workers):
            run.load(progress["shared"])
            progress["states"][worker] = run.train(worker, round_, progress["states"][worker])
            ends.append(run.snapshot())
        progress["shared"] = [torch.stack(parts).mean(0) for parts in zip(*ends)]
        run.load(progress["shared"])
        progress["losses"].append(run.evaluate())
        torch.save(progress, f"{kept}.part")
        os.replace(f"{kept}.part", kept)
        loss = progress["losses"][-1]
        print(f"round {round_ + 1}: {loss:.4f}, {time.time() - started:.0f} s", flush=True)
    print(json.dumps({"torch": torch.__version__, "losses": [round(loss, 4) for loss in progress["losses"]]}))


if __name__ == "__main__":
    main()
