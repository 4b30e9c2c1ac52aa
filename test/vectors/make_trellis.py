"""Writes trellis.json: payloads of the codec `trellis`, from docs/payload.md, not from the library. Python 3, standard library only."""

import hashlib
import json
import math
import random
import struct
from pathlib import Path

from make_rotated import words

C = 4096
STATES = 1024
RUN = bytes(range(32))
ROSTER = bytes(range(100, 132))
SENDER = bytes(range(200, 232))
CODE = 36


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def flip(values, round_, chunk):
    key = [int.from_bytes(RUN[at : at + 4], "little") ^ int.from_bytes(SENDER[at : at + 4], "little") for at in (0, 4)]
    blocks = [words(key, (round_, chunk, i, 0)) for i in range(-(-len(values) // 128))]
    sign = lambda i: -1.0 if blocks[i // 128][i % 128 // 32] >> (i % 32) & 1 else 1.0
    return [value * sign(i) for i, value in enumerate(values)]


def hadamard(values):
    """Neighbours first, then values two apart, and so on: the order of additions is part of the format."""
    values, apart = list(values), 1
    while apart < len(values):
        for i in range(len(values)):
            if i & apart == 0:
                a, b = values[i], values[i + apart]
                values[i], values[i + apart] = a + b, a - b
        apart *= 2
    return values


def codeword(state, position):
    mixed = (state * 0x9E3779B1 + position * 0x85EBCA6B) & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 16) * 0x7FEB352D & 0xFFFFFFFF
    return sum(mixed.to_bytes(4, "little")) - 510


def steps(count, bits):
    return [(t * count // bits, (t + 1) * count // bits) for t in range(bits)]


def search(values, bits):
    """Viterbi: the bits of the best state sequence that starts at state 0."""
    length = -(-len(values) // bits)
    book = [[codeword(state, i) for state in range(STATES)] for i in range(length)]
    half = [[0] * STATES]
    for row in book:
        half.append([e + c * c for e, c in zip(half[-1], row)])
    half = [[e >> 1 for e in row] for row in half]
    metrics = [0] + [-(2**30)] * (STATES - 1)
    decisions = []
    for start, end in steps(len(values), bits):
        pairs = list(zip(metrics[: STATES // 2], metrics[STATES // 2 :]))
        decisions.append([b > a for a, b in pairs])
        gains = [-e for e in half[end - start]]
        for value, row in zip(values[start:end], book):
            if value:
                gains = [g + value * c for g, c in zip(gains, row)]
        metrics = [m + g for m, g in zip([max(pair) for pair in pairs for _ in (0, 1)], gains)]
    state = metrics.index(max(metrics))
    found = []
    for decision in reversed(decisions):
        found.append(state & 1)
        state = state >> 1 | (STATES // 2 if decision[state >> 1] else 0)
    return found[::-1]


def codewords(found, count):
    state, out = 0, []
    for bit, (start, end) in zip(found, steps(count, len(found))):
        state = (state << 1 | bit) % STATES
        out += [codeword(state, i) for i in range(end - start)]
    return out


def level(x):
    """Nearest bfloat16 of a number, as (bits, value)."""
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    high, low = word >> 16, word & 0xFFFF
    if low > 0x8000 or (low == 0x8000 and high & 1):
        high += 1
    if high < 0x80:
        high = 0
    return high, struct.unpack("<f", struct.pack("<I", high << 16))[0]


def chunk_bytes(kept, length):
    return max(1, (2 * kept * length + C) // (2 * C))


def write_chunk(values, kept, round_, chunk):
    """Bytes of one chunk, and the values that a receiver reads."""
    n, length = len(values), 1
    while length < n:
        length *= 2
    power = length.bit_length() - 1
    rotated = hadamard(flip([f32(v) for v in values] + [0.0] * (length - n), round_, chunk))
    rotated = [v * 2.0 ** -((power + 1) // 2) for v in rotated]
    size = chunk_bytes(kept, length)
    energy = 0.0
    for v in rotated:
        energy += v * v
    if energy == 0:
        return bytes(2 + size), [0.0] * n
    rate = 8 * size / length
    gain = math.sqrt(max(1, min(16, 0.5 + 0.72 / rate)))
    factor = 148 * gain * math.sqrt(length / energy)
    found = search([max(-32767, min(32767, round(v * factor))) for v in rotated], 8 * size)
    words = codewords(found, length)
    along = 0.0
    for v, c in zip(rotated, words):
        along += v * c
    bits, scale = level(energy / along)
    if bits == 0:
        return bytes(2 + size), [0.0] * n
    body = sum(bit << i for i, bit in enumerate(found)).to_bytes(size, "little")
    turned = [v * 2.0 ** -(power // 2) for v in hadamard([scale * c for c in words])]
    return struct.pack("<H", bits) + body, flip(turned, round_, chunk)[:n]


def write(delta, kept, round_, chunks):
    head = struct.pack("<4sBBHIII", b"NSPL", 1, CODE, kept, round_, len(delta), len(chunks)) + RUN + ROSTER
    decoded, body = [0.0] * len(delta), b""
    for chunk in chunks:
        part, values = write_chunk(delta[chunk * C : chunk * C + C], kept, round_, chunk)
        decoded[chunk * C : chunk * C + len(values)] = values
        body += part
    return head + body, decoded


def drawn(size, seed):
    state = seed

    def draw():
        nonlocal state
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        return ((state >> 8) - 2**23) / 2**23

    return [draw() * draw() / 64 for _ in range(size)]


def small(name, delta, kept, round_=3):
    payload, decoded = write(delta, kept, round_, [0])
    return {"name": name, "kept": kept, "round": round_, "delta": delta, "payload": payload.hex(), "decoded": [v + 0.0 for v in decoded]}


def large(name, delta, kept, chunks, **place):
    payload, decoded = write(delta, kept, 4_000_000_000, chunks)
    sha = lambda data: hashlib.sha256(data).hexdigest()
    values = b"".join(struct.pack("<d", v + 0.0) for v in decoded)
    return {"name": name, "kept": kept, "round": 4_000_000_000, "chunks": chunks, **place, "bytes": len(payload), "payloadSha256": sha(payload), "decodedSha256": sha(values)}


def dense(data):
    """Each 21 bytes as one number in base 89, of 26 letters."""
    letters, text = [chr(c) for c in range(33, 127) if chr(c) not in "\"&<>\\"], ""
    for i in range(0, len(data), 21):
        number, block = int.from_bytes(data[i : i + 21].ljust(21, b"\0"), "big"), ""
        for _ in range(26):
            number, digit = divmod(number, 89)
            block = letters[digit] + block
        text += block
    return {"bytes": data.hex(), "text": text}


def main():
    draw = random.Random(11)
    gauss = lambda n: [draw.gauss(0, 0.01) for _ in range(n)]
    rows = [
        small("one value", [-0.5], 1),
        small("one value at two bits a value", [3e-5], 1024),
        small("two values", [1.0, -2.0], 1024),
        small("three values, one of them not zero", [0.0, 0.25, 0.0], 1024),
        small("zeros", [0.0] * 9, 256),
        small("values too small for a scale", [1e-42, -1e-42, 0.0], 256),
        small("thirteen values", gauss(13), 1024),
        small("a hundred values, half a bit each", gauss(100), 256),
        small("two hundred values, a bit and a half each", gauss(200), 768),
        small("seven hundred values in 24 bits", gauss(700), 12),
        small("one peak", [1e-3] * 60 + [1e4] + [1e-3] * 3, 400),
    ]
    size = 3 * C + 100
    drawn_rows = [
        large("half a bit", drawn(size, 5), 256, [0, 2, 3], size=size, seed=5),
        large("a little less", drawn(size, 6), 252, [0, 1], size=size, seed=6),
        large("two bits", drawn(size, 7), 1024, [1], size=size, seed=7),
        large("0.04 bits", drawn(size, 8), 19, [0, 1, 2, 3], size=size, seed=8),
        large("one byte a chunk", drawn(size, 9), 1, [2, 3], size=size, seed=9),
    ]
    texts = [dense(draw.randbytes(n)) for n in (1, 20, 21, 22, 63)] + [dense(bytes(21)), dense(b"\xff" * 42)]
    path = Path(__file__).with_name("trellis.json")
    scope = {"run": RUN.hex(), "roster": ROSTER.hex(), "sender": SENDER.hex()}
    path.write_text(json.dumps({"made by": Path(__file__).name, **scope, "small": rows, "large": drawn_rows, "dense": texts}) + "\n")


main()
