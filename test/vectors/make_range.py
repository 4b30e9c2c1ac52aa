"""Writes range.json, scaled.json and rotated.json: streams of the codecs `range` and `scaled`, and what `rotated` makes of turned values, from docs/payload.md,
not from the library. Python 3, standard library only.

The coder keeps the whole of its low end as one integer of any length, so that it knows no carries.
"""

import json
import random
import struct
from pathlib import Path

BOUNDS = [8, 16, 26, 38, 52, 77, 115, 179, 256, 384, 640]
KINDS = len(BOUNDS) + 1


class Coder:
    def __init__(self):
        self.low, self.range, self.shifts = 0, 0xFFFFFFFF, 0
        self.fast, self.slow = {}, {}

    def code(self, split, bit):
        if bit == 0:
            self.range = split
        else:
            self.low += split
            self.range -= split
        while self.range < 1 << 24:
            self.low <<= 8
            self.range <<= 8
            self.shifts += 1

    def bit(self, context, bit):
        fast, slow = self.fast.get(context, 32768), self.slow.get(context, 32768)
        self.code((self.range >> 16) * (((fast + slow) >> 5) * 16 + 8), bit)
        self.fast[context] = fast + ((65535 - fast) >> 4) if bit == 0 else fast - (fast >> 4)
        self.slow[context] = slow + ((65535 - slow) >> 7) if bit == 0 else slow - (slow >> 7)

    def even(self, bit):
        half = self.range >> 1
        if bit:
            self.low += half
        self.range = half
        self.code(self.range, 0)

    def end(self):
        return self.low.to_bytes(4 + self.shifts, "big")


def stream(codes):
    coder, mean = Coder(), 0
    for code in codes:
        size = abs(code)
        kind = sum(mean >= bound for bound in BOUNDS)
        mean += (min(size, 7) * 256 - mean) >> 5
        coder.bit(("zero", kind), int(size > 0))
        if size == 0:
            continue
        coder.even(int(code < 0))
        coder.bit(("one", kind), int(size > 1))
        for count in range(2, min(size, 14) + 1):
            coder.bit(("count", count), int(size > count))
        if size >= 15:
            for place in range(6, -1, -1):
                coder.even((size - 15) >> place & 1)
    return coder.end()


def bfloat(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def vector(name, codes, first, step):
    a, s = bfloat(first), bfloat(step)
    decoded = [0.0 if c == 0 else (a + (abs(c) - 1) * s) * (1 if c > 0 else -1) for c in codes]
    body = struct.pack("<HH", first, step) + stream(codes)
    return {"name": name, "body": body.hex(), "decoded": decoded}


def scale(byte):
    return (8 + byte % 8) / 8 * 2.0 ** (byte // 8 - 31)


def scaled(name, codes, first, step, scales):
    plain = vector(name, codes, first, step)
    decoded = [scale(scales[i // 4096]) * value for i, value in enumerate(plain["decoded"])]
    body = bytes(scales) + bytes.fromhex(plain["body"])
    return {"name": name, "body": body.hex(), "decoded": decoded}


def words(key, counter):
    """The four words of a block of Philox4x32-10, by the paper's round function."""
    (k0, k1), (x0, x1, x2, x3) = key, counter
    for _ in range(10):
        a, b = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = (b >> 32) ^ x1 ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ x3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x0, x1, x2, x3


def hadamard(values):
    """By its recursive definition: the transforms of both halves, added and subtracted."""
    if len(values) == 1:
        return values
    half = len(values) // 2
    a, b = values[:half], values[half:]
    return hadamard([x + y for x, y in zip(a, b)]) + hadamard([x - y for x, y in zip(a, b)])


def rotated(name, run, sender, round_, chunk, turned, count):
    """What numbers of a stream, few and whole so that every order of additions gives the same, stand for."""
    key = [int.from_bytes(bytes(run[at : at + 4]), "little") ^ int.from_bytes(bytes(sender[at : at + 4]), "little") for at in (0, 4)]
    power = len(turned).bit_length() - 1
    values = [value * 2.0 ** -(power // 2) for value in hadamard(turned)]
    for i in range(len(values)):
        block = words(key, (round_, chunk, i // 128, 0))
        if block[i % 128 // 32] >> (i % 32) & 1:
            values[i] = -values[i]
    place = {"run": bytes(run).hex(), "sender": bytes(sender).hex(), "round": round_, "chunk": chunk}
    return {"name": name, **place, "turned": turned, "values": values[:count]}


def main():
    draw = random.Random(7)
    rows = [
        vector("signs and zeros", [0, 1, -1, 0, 0, 1, 0, -1, -1], 0x3F80, 0),
        vector("every size", [c for size in range(128) for c in (size, -size)], 0x3C23, 0x3C00),
        vector("one value", [-127], 0x4000, 0x4010),
        vector("long carries", [1] * 3000 + [0] * 3000 + [-1, 2] * 500, 0x3F00, 0x3F01),
        vector("drawn", [int(draw.gauss(0, 1.2)) for _ in range(4096)], 0x3A80, 0x3A90),
        vector("drawn, wide", [max(-127, min(127, int(draw.gauss(0, 30)))) for _ in range(700)], 0x2F80, 0x2F90),
    ]
    path = Path(__file__).with_name("range.json")
    path.write_text(json.dumps({"made by": Path(__file__).name, "vectors": rows}) + "\n")
    draw = random.Random(8)
    gauss = [int(draw.gauss(0, 0.8)) for _ in range(4096 + 500)]
    rows = [
        scaled("one chunk", [1, -2, 0, 3], 0x3F80, 0x3F00, [251]),
        scaled("two chunks, the second smaller", gauss, 0x3A80, 0x3A90, [248, 203]),
        scaled("a chunk without values", [0] * 4096 + [1, -1, 4], 0x3C00, 0x3B00, [0, 255]),
        scaled("nothing", [0] * 10, 0, 0, [0]),
    ]
    rows[-1]["body"] = "0000000000"
    path = path.with_name("scaled.json")
    path.write_text(json.dumps({"made by": Path(__file__).name, "vectors": rows}) + "\n")
    draw = random.Random(9)
    run, sender = [draw.randrange(256) for _ in range(32)], [draw.randrange(256) for _ in range(32)]
    whole = [draw.choice([0, 0, 0, 1, -1, 2]) for _ in range(4096)]
    rows = [
        rotated("one value", run, sender, 0, 0, [3], 1),
        rotated("five values of eight", run, sender, 7, 2, [1, 0, -1, 2, 0, 0, 1, -3], 5),
        rotated("a whole chunk", run, sender, 4_000_000_000, 203, whole, 4096),
        rotated("the same for another sender", run, sender[::-1], 4_000_000_000, 203, whole[:256], 256),
    ]
    path = path.with_name("rotated.json")
    path.write_text(json.dumps({"made by": Path(__file__).name, "vectors": rows}) + "\n")


main()
