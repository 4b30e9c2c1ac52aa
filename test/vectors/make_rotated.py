"""Writes rotated.json: what rotated values stand for, from docs/payload.md, not from the library. Python 3, standard library only."""

import json
import random
from pathlib import Path


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
    """What rotated values, few and whole numbers so that every order of additions gives the same, stand for."""
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
    draw = random.Random(9)
    run, sender = [draw.randrange(256) for _ in range(32)], [draw.randrange(256) for _ in range(32)]
    whole = [draw.choice([0, 0, 0, 1, -1, 2]) for _ in range(4096)]
    rows = [
        rotated("one value", run, sender, 0, 0, [3], 1),
        rotated("five values of eight", run, sender, 7, 2, [1, 0, -1, 2, 0, 0, 1, -3], 5),
        rotated("a whole chunk", run, sender, 4_000_000_000, 203, whole, 4096),
        rotated("the same for another sender", run, sender[::-1], 4_000_000_000, 203, whole[:256], 256),
    ]
    path = Path(__file__).with_name("rotated.json")
    path.write_text(json.dumps({"made by": Path(__file__).name, "vectors": rows}) + "\n")


main()
