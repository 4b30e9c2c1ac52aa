"""Makes test/vectors/multilingual.json: token ids of texts in many languages and of conversations by SmolLM2-135M-Instruct's tokenizer.

    python -m venv venv && venv/bin/pip install transformers==5.24.0 gguf==0.19.0 torch==2.15.0
    venv/bin/python test/vectors/make_multilingual.py SmolLM2-135M-Instruct.Q4_1.gguf tinyshakespeare.txt

Of tiny Shakespeare the number of ids is kept and the SHA-256 over them, as 32 bits each, little-endian.
"""

import hashlib
import json
import pathlib
import struct
import sys

import transformers
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

PAGE = """The river does not ask where the sea is. It's 7:45, and they'll have walked 12,345 m by 2026-11-22.
Der Fluß fragt nicht, wo das Meer liegt; süße Äpfel kosten 3,50 € das Kilo.
La rivière ne demande pas où est la mer : « à bientôt », dit-elle. Ça va ? L'été s'achève.
El río no pregunta dónde está el mar. ¿Qué hora es? ¡Las nueve y media!
O rio não pergunta onde está o mar; amanhã haverá pão e maçãs.
Il fiume non chiede dov'è il mare, perché lo sa già.
Rzeka nie pyta, gdzie jest morze. Zażółć gęślą jaźń.
Řeka se neptá, kde je moře. Příliš žluťoučký kůň.
Nehir denizin nerede olduğunu sormaz; İstanbul'da ışık söndü.
Dòng sông không hỏi biển ở đâu, vì nó đã biết rồi.
Река не спрашивает, где море. Ещё один день, и мы дома.
Ріка не питає, де море; їжак п'є воду з ґанку.
Το ποτάμι δεν ρωτά πού είναι η θάλασσα· ξέρει ήδη.
הנהר אינו שואל היכן הים. שָׁלוֹם!
النهر لا يسأل أين البحر؛ إنه يعرف الطريق. ٣٢١
رودخانه نمی‌پرسد دریا کجاست.
नदी नहीं पूछती कि समुद्र कहाँ है। १२३
নদী জিজ্ঞাসা করে না সমুদ্র কোথায়।
ஆறு கடல் எங்கே என்று கேட்பதில்லை.
แม่น้ำไม่ถามว่าทะเลอยู่ที่ไหน
河流不问海在哪里。它知道路。
河は海がどこにあるか尋ねない。カタカナとひらがな、１２３。
강은 바다가 어디 있는지 묻지 않는다.
ወንዙ ባሕሩ የት እንደሆነ አይጠይቅም።
👩‍👩‍👧 🏳️‍🌈 👍🏽 e\u0301 é ﬁ ½ x² → ∑ ≠ \u200b\u00a0|\u3000|
\tdef f(x):\r\n\t\treturn  x**2   # 100000 spaces:          end


\ud7a3\U0001f9ff \U00020000 \u0000 \x7f
<|im_start|>user
not a turn<|im_end|> <|endoftext|>
"""
TALK = [
    {"role": "user", "content": "¿Dónde está el mar?\n"},
    {"role": "assistant", "content": "Am Ende des Flusses. 🌊"},
    {"role": "user", "content": "Und danach?"},
    {"role": "assistant", "content": "雨。"},
]

file, corpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
# transformers does not read the pre-tokenizer of a GGUF file; this is the one of the model's tokenizer.json
tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
)


def ids(text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


whole = ids(corpus.read_text(encoding="utf-8"))
chat = tokenizer.apply_chat_template(TALK, tokenize=False)
fixture = {
    "made": {"by": "test/vectors/make_multilingual.py", "with": f"transformers {transformers.__version__}"},
    "page": {"text": PAGE, "ids": ids(PAGE)},
    "talk": {"messages": TALK, "text": chat, "ids": ids(chat)},
    "shakespeare": {
        "tokens": len(whole),
        "sha256": hashlib.sha256(struct.pack(f"<{len(whole)}i", *whole)).hexdigest(),
    },
}
path = pathlib.Path(__file__).parent / "multilingual.json"
path.write_text(json.dumps(fixture, ensure_ascii=True, separators=(",", ":")) + "\n")
