"""Writes digits.json: how tokenizers splits and encodes numeric characters outside ASCII with its Digits rule.

    python -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python make_digits.py > digits.json
"""
import json

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TEXT = "x² y³ ½ of Ⅳ and ٣٤ 12 ４２ a１b ² Ⅳ\n७७ 90210 ①②③"


def case(individual):
    made = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # trained without the rule, so that it has pairs which the rule separates
    made.pre_tokenizer = byte_level
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        [TEXT] * 4,
        trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False),
    )
    digits = pre_tokenizers.Digits(individual_digits=individual)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    return {"tokenizer": json.loads(made.to_str()), "ids": made.encode(TEXT).ids}


print(json.dumps({"text": TEXT, "cases": [case(True), case(False)]}, ensure_ascii=False))
