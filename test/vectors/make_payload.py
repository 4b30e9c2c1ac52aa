"""Writes payload-codecs.json and payload-owners.json from docs/payload.md, not from the library. Python 3, standard library only."""

import datetime
import hashlib
import json
import math
import platform
import struct
import sys
from pathlib import Path

C = 4096
RUN = bytes(range(32))
ROSTER = bytes(range(100, 132))
INT8 = 1


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def level(x):
    """Nearest bfloat16 of a number, as (bits, value); 0 below the normal ones."""
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    high, low = word >> 16, word & 0xFFFF
    if low > 0x8000 or (low == 0x8000 and high & 1):
        high += 1
    assert high < 0x7F80
    if high < 0x80:
        high = 0
    return high, struct.unpack("<f", struct.pack("<I", high << 16))[0]


def write_int8(values):
    bits, a = level(max(map(abs, values)) / 127)
    if bits == 0:
        return bytes(2 + len(values)), [0.0] * len(values)
    per_level = 1 / a
    # round() of Python takes ties to even
    codes = [max(-127, min(127, round(v * per_level))) for v in values]
    return struct.pack(f"<H{len(codes)}b", bits, *codes), [a * q if q else 0.0 for q in codes]


def encode(delta, chunks, round_):
    out = b"NSPL" + struct.pack("<BBHIII", 1, INT8, 0, round_, len(delta), len(chunks)) + RUN + ROSTER
    decoded = {}
    for chunk in chunks:
        start = C * chunk
        body, said = write_int8([f32(v) for v in delta[start : start + C]])
        out += body
        decoded.update((start + i, v) for i, v in enumerate(said))
    return out, decoded


def drawn(size, seed):
    """Each value a product of two draws of state = state * 1664525 + 1013904223 mod 2^32, started from the seed."""
    state, out = seed, []
    for _ in range(size):
        pair = []
        for _ in range(2):
            state = (state * 1664525 + 1013904223) % 2**32
            pair.append(((state >> 8) - 2**23) / 2**23)
        out.append(pair[0] * pair[1] / 64)
    return out


def dense(size, decoded):
    return [decoded.get(i, 0.0) for i in range(size)]


SMALL = {
    "one value": [-0.75],
    "thirteen values": [0.5, -0.25, 0.125, -1.0, 0.0, 0.3, -0.7, 0.01, -0.02, 0.9, -0.001, 0.06, 0.33],
    "ties": [1.0, -1.0, 1.0, -1.0, 0.5, 0.5, -0.5, 1.0, -1.0],
    "one size": [0.1, -0.1, 0.1, 0.1, -0.1, -0.1, 0.1],
    "one among zeros": [0.0, 0.0, 0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "zeros": [0.0, -0.0, 0.0, 0.0, 0.0, 0.0],
    "below the normal levels": [1e-39, -1e-40, 5e-324, 0.0, -1e-45],
    "far apart": [1e30, -1e-30, 3.0, -2.5e29, 1e20, 4e28],
    "drawn": drawn(40, 1),
}


def codec_cases():
    small, refused = [], []
    for name, delta in SMALL.items():
        payload, decoded = encode(delta, [0], 4)
        small.append(
            {"name": name, "codec": "int8", "kept": 0, "round": 4, "delta": delta, "payload": payload.hex(), "decoded": dense(len(delta), decoded)}
        )
    size, seed, chunks = 3 * C + 500, 7, [0, 2, 3]
    payload, decoded = encode(drawn(size, seed), chunks, 70000)
    large = [
        {
            "codec": "int8", "kept": 0, "round": 70000, "size": size, "seed": seed, "chunks": chunks, "bytes": len(payload),
            "payloadSha256": hashlib.sha256(payload).hexdigest(),
            "decodedSha256": hashlib.sha256(struct.pack(f"<{size}d", *dense(size, decoded))).hexdigest(),
        }
    ]
    base, _ = encode(SMALL["thirteen values"], [0], 4)

    def changed(why, at, data, code):
        refused.append({"why": why, "payload": (base[:at] + bytes(data) + base[at + len(data) :]).hex(), "code": code})

    changed("another magic", 3, b"Q", "bad-payload")
    changed("another version", 4, [2], "unsupported-version")
    changed("another codec", 5, [6], "unsupported-codec")
    changed("int8 with a rate", 6, [1], "unsupported-codec")
    changed("another round", 8, [5], "wrong-round")
    changed("another size", 12, [14], "wrong-shape")
    changed("another number of chunks", 16, [2], "wrong-shape")
    changed("another run", 20, [255], "other-run")
    changed("another roster", 52, [255], "other-roster")
    changed("a negative level", 85, [base[85] | 0x80], "bad-level")
    changed("an infinite level", 84, [0x80, 0x7F], "bad-level")
    changed("a level that is no number", 84, [0xC0, 0x7F], "bad-level")
    changed("a level below the normal ones", 84, [0x7F, 0x00], "bad-level")
    changed("a code of -128", 86, [128], "bad-value")
    changed("a level that no code is the largest of", 86, [1] * 13, "bad-level")
    changed("a removed codec", 5, [4], "unsupported-codec")
    refused.append({"why": "cut", "payload": base[:-1].hex(), "code": "truncated"})
    refused.append({"why": "one byte more", "payload": base.hex() + "00", "code": "trailing-bytes"})
    return {"run": RUN.hex(), "roster": ROSTER.hex(), "small": small, "large": large, "refusedOfThirteenValuesInRound4": refused}


def owners(workers, rho, even, chunks, round_, entropy):
    keys = sorted(workers)
    sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
    fields = RUN + struct.pack("<I", round_) + entropy
    seeds = [sha(b"nostrain:owner:", fields, key) for key in keys]
    rho_ = min(rho, len(keys))
    score = lambda w, j: struct.unpack(">8I", sha(seeds[w], struct.pack("<I", j // 8)))[j % 8]
    seats = [math.inf] * len(keys)
    if even:
        share, left = divmod(rho_ * chunks, len(keys))
        seats = [share] * len(keys)
        for w in sorted(range(len(keys)), key=lambda w: seeds[w], reverse=True)[:left]:
            seats[w] += 1
    owned = [[] for _ in keys]
    for j in range(chunks):
        rank = sorted((w for w in range(len(keys)) if seats[w] > 0), key=lambda w: (seats[w] != chunks - j, -score(w, j), w))
        for w in rank[:rho_]:
            owned[w].append(j)
            seats[w] -= 1
    digest = sha(b"nostrain:roster:", fields, struct.pack("<IBI", rho, even, len(keys)), *keys)
    return {key.hex(): own for key, own in zip(keys, owned)}, digest.hex()


def owner_cases():
    cases = []
    for count, rho, even, chunks, round_ in [
        (1, 1, 0, 5, 0), (4, 1, 0, 40, 3), (4, 1, 1, 40, 3), (4, 2, 1, 41, 4), (5, 3, 1, 17, 9), (5, 3, 0, 17, 9), (3, 7, 1, 6, 1), (7, 2, 1, 3, 2),
    ]:
        workers = [hashlib.sha256(bytes([i])).digest() for i in range(count)]
        entropy = hashlib.sha256(b"entropy %d" % round_).digest()
        owned, digest = owners(workers, rho, even, chunks, round_, entropy)
        cases.append(
            {"round": round_, "entropy": entropy.hex(), "owners": rho, "seats": "even" if even else "free", "chunks": chunks, "owned": owned, "rosterDigest": digest}
        )
    return {"run": RUN.hex(), "cases": cases}


def write(name, content):
    made = {
        "by": f"make_payload.py beside this file, CPython {platform.python_version()}, from docs/payload.md and not from the library",
        "date": datetime.date.today().isoformat(),
        "large": "each value is a product of two draws: state = state * 1664525 + 1013904223 mod 2^32 from the seed, draw = ((state >> 8) - 2^23) / 2^23; value = draw * draw / 64",
        "decoded": "f64, zero where nothing is said; the hash is over little-endian f64",
    }
    path = Path(__file__).with_name(name)
    if path.exists():
        sys.exit(f"{name} is frozen; remove it first if the format has a new version")
    path.write_text(json.dumps({"made": made, **content}, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    write("payload-codecs.json", codec_cases())
    write("payload-owners.json", owner_cases())
