"""Writes text greedily with a GGUF model in transformers, as often as it is asked to. The peer of test/bench/sample.ts.

Takes the file as its argument, then a line of JSON on stdin for each text: {"prompt": [ids], "length": n, "threads": n}. Answers each
with a line of JSON: the tokens and the seconds they took, or how long loading took at first.
"""

import json
import os
import pathlib
import sys
import time
import warnings

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402

transformers.logging.set_verbosity_error()


def say(answer):
    print(json.dumps(answer), flush=True)


@torch.no_grad()
def main():
    file = pathlib.Path(sys.argv[1])
    started = time.perf_counter()
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    model.eval()
    model.generation_config.eos_token_id = None
    versions = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
    say({"seconds": time.perf_counter() - started, "versions": versions})
    for line in sys.stdin:
        asked = json.loads(line)
        torch.set_num_threads(asked["threads"])
        prompt = torch.tensor([asked["prompt"]])
        whole = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
        started, used = time.perf_counter(), time.process_time()
        written = model.generate(**whole, max_new_tokens=asked["length"], do_sample=False)
        answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
        say({**answer, "tokens": written[0, prompt.shape[1] :].tolist()})


main()
