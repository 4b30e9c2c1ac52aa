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
CODES = {"int8": 1, "int4": 2, "q2": 3, "ternary": 4, "sign": 5, "topk-int8": 17, "topk-q2": 19, "topk-sign": 21}


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


def total(numbers):
    sum_ = 0.0
    for number in numbers:
        sum_ += number
    return sum_


def pack_bits(fields):
    """Fields (value, width), lowest bit first, into bytes."""
    word, width = 0, 0
    for value, bits in fields:
        word |= value << width
        width += bits
    return word.to_bytes((width + 7) // 8, "little")


def negative(v):
    return math.copysign(1.0, v) < 0


def write_sign(values):
    bits, a = level(total(map(abs, values)) / len(values))
    if bits == 0:
        return bytes(2 + -(-len(values) // 8)), [0.0] * len(values)
    body = pack_bits([(int(negative(v)), 1) for v in values])
    return struct.pack("<H", bits) + body, [-a if negative(v) else a for v in values]


def write_ternary(values):
    n = len(values)
    empty = bytes(2 + -(-n // 5)), [0.0] * n
    threshold = f32(0.8 * total(map(abs, values)) / n)
    some = [abs(v) for v in values[::5] if abs(v) > threshold]
    if some:
        threshold = f32(total(some) / len(some) / 2)
    above = [abs(v) for v in values if abs(v) > threshold]
    if not above:
        return empty
    bits, a = level(total(above) / len(above))
    if bits == 0:
        return empty
    digits = [0 if abs(v) <= a / 2 else 2 if negative(v) else 1 for v in values]
    digits += [0] * (-n % 5)
    body = bytes(sum(d * 3**j for j, d in enumerate(digits[i : i + 5])) for i in range(0, len(digits), 5))
    return struct.pack("<H", bits) + body, [(0.0, a, -a)[d] for d in digits[:n]]


def write_q2(values):
    n = len(values)
    sizes = [abs(v) for v in values]
    everything = total(sizes)
    a = b = everything / n
    for looked_at in (sizes[::5], sizes[::5], sizes):
        threshold = f32((a + b) / 2)
        above = [s for s in looked_at if s > threshold]
        sum_above, sum_all = total(above), total(looked_at)
        if above:
            b = sum_above / len(above)
        if len(above) < len(looked_at):
            a = max(0.0, sum_all - sum_above) / (len(looked_at) - len(above))
    high_bits, high = level(b)
    low_bits, low = level(a)
    if low_bits > high_bits:
        low_bits, low = high_bits, high
    if high_bits == 0:
        return bytes(4 + -(-n // 4)), [0.0] * n
    split = f32((low + high) / 2)
    upper = [low_bits < high_bits and s > split for s in sizes]
    if all(upper) or not any(upper):
        if all(upper):
            low_bits, low = high_bits, high
        high_bits, high = low_bits, low
        upper = [False] * n
        if low_bits == 0:
            return bytes(4 + -(-n // 4)), [0.0] * n
    fields, decoded = [], []
    for v, up in zip(values, upper):
        size = high if up else low
        minus = negative(v) and size != 0
        fields.append(((2 if up else 0) + int(minus), 2))
        decoded.append(-size if minus else size)
    return struct.pack("<HH", low_bits, high_bits) + pack_bits(fields), decoded


def write_integers(values, bits, a, most, width):
    if bits == 0:
        return bytes(2 + -(-len(values) * width // 8)), [0.0] * len(values)
    per_level = 1 / a
    # round() of Python takes ties to even
    codes = [max(-most, min(most, round(v * per_level))) for v in values]
    body = pack_bits([(q & ((1 << width) - 1), width) for q in codes])
    return struct.pack("<H", bits) + body, [a * q if q else 0.0 for q in codes]


def write_int8(values):
    return write_integers(values, *level(max(map(abs, values)) / 127), 127, 8)


def write_int4(values):
    rms = math.sqrt(total(v * v for v in values) / len(values))
    return write_integers(values, *level(min(max(map(abs, values)) / 7, 0.4 * rms)), 7, 4)


VALUE_CODES = {"int8": write_int8, "int4": write_int4, "q2": write_q2, "ternary": write_ternary, "sign": write_sign}


def rice(indices, n):
    k = len(indices)
    r = min(range(13), key=lambda r: (k * (r + 1) + ((n - k) >> r), r))
    fields, before = [], -1
    for index in indices:
        gap = index - before - 1
        before = index
        fields += [(1, 1)] * (gap >> r) + [(0, 1), (gap & ((1 << r) - 1), r)]
    return pack_bits(fields)


def encode(delta, codec, kept, chunks, round_):
    out = b"NSPL" + struct.pack("<BBHIII", 1, CODES[codec], kept, round_, len(delta), len(chunks)) + RUN + ROSTER
    decoded = {}
    for chunk in chunks:
        start = C * chunk
        values = [f32(v) for v in delta[start : start + C]]
        n = len(values)
        code = VALUE_CODES[codec.removeprefix("topk-")]
        if codec.startswith("topk-"):
            k = max(1, (2 * kept * n + C) // (2 * C))
            largest = sorted(sorted(range(n), key=lambda i: (-abs(values[i]), i))[:k])
            body, said = code([values[i] for i in largest])
            body += rice(largest, n)
        else:
            largest = range(n)
            body, said = code(values)
        out += body
        decoded.update((start + i, v) for i, v in zip(largest, said))
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
    small, large, refused = [], [], []
    for name, delta in SMALL.items():
        for codec in CODES:
            kept = 1229 if codec.startswith("topk-") else 0
            payload, decoded = encode(delta, codec, kept, [0], 4)
            small.append(
                {"name": name, "codec": codec, "kept": kept, "round": 4, "delta": delta, "payload": payload.hex(), "decoded": dense(len(delta), decoded)}
            )
    for codec in CODES:
        for kept in (1, 64, 512, 1638, 4000) if codec.startswith("topk-") else (0,):
            size, seed, chunks = 3 * C + 500, 7 + kept, [0, 2, 3]
            payload, decoded = encode(drawn(size, seed), codec, kept, chunks, 70000)
            large.append(
                {
                    "codec": codec, "kept": kept, "round": 70000, "size": size, "seed": seed, "chunks": chunks, "bytes": len(payload),
                    "payloadSha256": hashlib.sha256(payload).hexdigest(),
                    "decodedSha256": hashlib.sha256(struct.pack(f"<{size}d", *dense(size, decoded))).hexdigest(),
                }
            )
    base, _ = encode(SMALL["thirteen values"], "ternary", 0, [0], 4)

    def changed(why, at, data, code):
        refused.append({"why": why, "payload": (base[:at] + bytes(data) + base[at + len(data) :]).hex(), "code": code})

    changed("another magic", 3, b"Q", "bad-payload")
    changed("another version", 4, [2], "unsupported-version")
    changed("another codec", 5, [6], "unsupported-codec")
    changed("a dense codec that keeps one", 6, [1], "unsupported-codec")
    changed("another round", 8, [5], "wrong-round")
    changed("another size", 12, [14], "wrong-shape")
    changed("another number of chunks", 16, [2], "wrong-shape")
    changed("another run", 20, [255], "other-run")
    changed("another roster", 52, [255], "other-roster")
    changed("a negative level", 85, [base[85] | 0x80], "bad-level")
    changed("an infinite level", 84, [0x80, 0x7F], "bad-level")
    changed("a level that is no number", 84, [0xC0, 0x7F], "bad-level")
    changed("a level below the normal ones", 84, [0x7F, 0x00], "bad-level")
    changed("a byte that is not five digits", 86, [243], "bad-value")
    changed("an unused digit", 88, [27], "bad-padding")
    changed("a level that nothing takes", 86, [0, 0, 0], "bad-level")
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
