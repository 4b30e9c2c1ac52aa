"""Makes test/vectors/smollm2.json: token ids and losses of a text under SmolLM2-135M-Instruct, from transformers.

    python -m venv venv && venv/bin/pip install torch==2.11.0 transformers==5.23.0 gguf==0.19.0
    venv/bin/python test/vectors/make_smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = (
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\n"
    "Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich; 東京都は日本の首都です。 "
    "Съешь ещё этих мягких булок. 1, 22, 333 ≠ 4444\t🙂\n"
)
file = pathlib.Path(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
with torch.no_grad():
    logits = model(torch.tensor([ids])).logits[0]
losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
last = logits[-1]
fixture = {
    "text": TEXT,
    "ids": ids,
    "losses": [float(f"{loss:.7g}") for loss in losses.tolist()],
    "highest": {str(i): float(f"{last[i].item():.7g}") for i in last.topk(8).indices.tolist()},
}
path = pathlib.Path(__file__).parent / "smollm2.json"
path.write_text(json.dumps(fixture, ensure_ascii=False, indent=1) + "\n")
