"""Makes test/vectors/published.json: GGUF blocks with the numbers gguf-py reads from them, a tiny GGUF, and token ids.

    python -m venv venv && venv/bin/pip install gguf==0.19.0 tokenizers==0.23.3 numpy
    venv/bin/python test/vectors/make_published.py
"""

import base64
import json
import pathlib
import tempfile

import gguf
import numpy as np
from gguf.quants import dequantize
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}
random = np.random.default_rng(15)


def text64(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def block(name, kind):
    values, size = gguf.GGML_QUANT_SIZES[kind]
    rows = random.integers(0, 256, (2, size), dtype=np.uint8)
    for at in SCALES.get(name, []):
        rows[:, at : at + 2] = random.normal(0, 0.1, (2, 1)).astype(np.float16).view(np.uint8)
    if name in ("F32", "F16", "BF16"):
        plain = random.normal(0, 1, (2, 8)).astype(np.float32)
        rows = {
            "F32": plain.view(np.uint8),
            "F16": plain.astype(np.float16).view(np.uint8),
            "BF16": (plain.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8),
        }[name]
    return {"type": TYPES[name], "name": name, "bytes": text64(rows), "values": text64(dequantize(rows, kind).astype(np.float32))}


def tiny_gguf():
    """A Llama of two heads whose rows are numbered, with llama.cpp's order of the rows of queries and keys."""
    width, heads, ffn, vocabulary = 32, 2, 64, 40
    path = pathlib.Path(tempfile.mkdtemp()) / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([f"t{i}" for i in range(vocabulary - 2)] + ["a", "b"])
    writer.add_token_types([3] + [1] * (vocabulary - 1))
    writer.add_token_merges(["a b"])
    published = {}

    def tensor(name, shape, as_published, permute=0):
        values = random.normal(0, 0.02, shape).astype(np.float32)
        published[as_published] = text64(values)
        if permute:
            half = shape[0] // permute // 2
            values = values.reshape(permute, 2, half, *shape[1:]).swapaxes(1, 2).reshape(shape)
        writer.add_tensor(name, values)

    size = width // heads
    tensor("token_embd.weight", (vocabulary, width), "model.embed_tokens.weight")
    tensor("output_norm.weight", (width,), "model.norm.weight")
    at, to = "blk.0.", "model.layers.0."
    tensor(at + "attn_norm.weight", (width,), to + "input_layernorm.weight")
    tensor(at + "attn_q.weight", (width, width), to + "self_attn.q_proj.weight", heads)
    tensor(at + "attn_k.weight", (size, width), to + "self_attn.k_proj.weight", 1)
    tensor(at + "attn_v.weight", (size, width), to + "self_attn.v_proj.weight")
    tensor(at + "attn_output.weight", (width, width), to + "self_attn.o_proj.weight")
    tensor(at + "ffn_norm.weight", (width,), to + "post_attention_layernorm.weight")
    tensor(at + "ffn_gate.weight", (ffn, width), to + "mlp.gate_proj.weight")
    tensor(at + "ffn_up.weight", (ffn, width), to + "mlp.up_proj.weight")
    tensor(at + "ffn_down.weight", (width, ffn), to + "mlp.down_proj.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {"file": base64.b64encode(path.read_bytes()).decode(), "tensors": published}


TEXT = (
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nMENENIUS:\nIn 1605, it's 42%  of\tall!\n"
    "Größe, naïve café, Ελλάδα, Привет мир, 你好,世界。こんにちは 🙂👩‍👩‍👧 a\u0301 x²\r\n  indented\n\n\n   end \n"
)
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer(pre):
    """A small vocabulary trained on the text under the splitting rules of a family."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre in ("gpt-2", "smollm"))
    first = {
        "gpt-2": [],
        "smollm": [pre_tokenizers.Digits(individual_digits=True)],
        "llama-bpe": [pre_tokenizers.Split(Regex(SPLIT % r"\p{N}{1,3}"), "isolated")],
        "qwen2": [pre_tokenizers.Split(Regex(SPLIT % r"\p{N}"), "isolated")],
    }[pre]
    made = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    made.pre_tokenizer = pre_tokenizers.Sequence([*first, byte_level])
    if pre == "qwen2":
        made.normalizer = normalizers.NFC()
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=["<|end|>"], show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    model = json.loads(made.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    text = TEXT * 2 + "<|end|>" + TEXT
    return {
        "tokens": tokens,
        "merges": [" ".join(pair) for pair in model["merges"]],
        "text": text,
        "ids": made.encode(text, add_special_tokens=False).ids,
    }


fixture = {
    "blocks": [block(name, gguf.GGMLQuantizationType[name]) for name in TYPES],
    "tiny": tiny_gguf(),
    "tokenizers": {pre: tokenizer(pre) for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2")},
}
(HERE / "published.json").write_text(json.dumps(fixture, ensure_ascii=True, separators=(",", ":")) + "\n")
