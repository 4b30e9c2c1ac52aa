"""Writes rules.json: aggregation rules on random cases, each by its own formula in NumPy.

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install numpy
    /tmp/oracle/bin/python test/vectors/make_rules.py

Case i has 5 + i % 10 rows of 1 + i % 2 values, drawn row by row from the generator of make_decoders.py seeded with i: n modulo 7
minus 3 where i is a multiple of 5, so that there are ties, else (n - 32768) / 2^13. Row j is of worker j in two digits, id the same.
Results are base64 of little-endian float64, case after case; of rules that take square roots in steps float32.
"""

import base64
import datetime
import hashlib
import json
import os
from fractions import Fraction

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = 1000


def draws(seed: int):
    state = seed
    while True:
        state = (1664525 * state + 1013904223) % 2**32
        yield state >> 16


def rows_of(i: int) -> np.ndarray:
    n, d = 5 + i % 10, 1 + i % 2
    source = draws(i)
    flat = [next(source) for _ in range(n * d)]
    values = [v % 7 - 3 if i % 5 == 0 else (v - 32768) / 2**13 for v in flat]
    return np.array(values, dtype=np.float64).reshape(n, d)


def weighted_mean(x, f, clips=False):
    """Row j has weight 1 + j % 3, and where the norm bound clips it, scale 1 / (1 + j % 4)."""
    j = np.arange(len(x))
    weights = 1.0 + j % 3
    scales = 1 / (1.0 + j % 4) if clips else np.ones(len(x))
    return np.cumsum((weights * scales)[:, None] * x, axis=0)[-1] / weights.sum()


def clipped_mean(x, f):
    return weighted_mean(x, f, clips=True)


def trimmed_mean(x, f):
    kept = np.sort(x, axis=0)[f : len(x) - f]
    return np.cumsum(kept, axis=0)[-1] / len(kept)


def coordinate_median(x, f):
    return np.median(x, axis=0)


def squares(x):
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)


def by_score(x, f):
    d = squares(x)
    scores = [np.cumsum(np.sort(np.delete(d[i], i))[: len(x) - f - 2])[-1] for i in range(len(x))]
    return np.argsort(scores, kind="stable")


def krum(x, f):
    return x[by_score(x, f)[0]]


def multi_krum(x, f):
    best = np.sort(by_score(x, f)[: len(x) - f])
    return np.cumsum(x[best], axis=0)[-1] / len(best)


def lower_median(v):
    return np.sort(v)[(len(v) - 1) // 2]


def reaches(x):
    d = squares(x)
    return np.array([lower_median(np.delete(d[i], i)) for i in range(len(x))])


def geometric_median(x, f):
    reach = reaches(x)
    nu = 0.1 * np.sqrt(lower_median(reach))
    if nu == 0:
        first = x[np.flatnonzero(reach == 0)[0]]
        return x[(x == first).all(1)].mean(0)
    z = x.mean(0)
    for _ in range(32):
        w = 1 / np.maximum(nu, np.linalg.norm(x - z, axis=1))
        z = (w[:, None] * x).sum(0) / w.sum()
    return z


def centered_clip(x, f):
    v = x[np.argmin(reaches(x))]
    for _ in range(5):
        gaps = np.linalg.norm(x - v, axis=1)
        tau = lower_median(gaps)
        s = np.minimum(1, tau / np.where(gaps == 0, 1, gaps))
        v = v + ((x - v) * s[:, None]).mean(0)
    return v


def nnm(x, f):
    d = squares(x)
    np.fill_diagonal(d, -1)
    return np.array([x[np.argsort(d[i], kind="stable")[: len(x) - f]].mean(0) for i in range(len(x))])


def krum_of_nnm(x, f):
    """In exact fractions: rows of the mixture are often equal, and rounding must not decide. NaN where rows that differ tie."""
    rows = [[Fraction(v) for v in row] for row in x]
    indices = range(len(rows))
    gap = lambda a, b: sum((p - q) ** 2 for p, q in zip(a, b))
    near = [sorted(indices, key=lambda j: -1 if i == j else gap(rows[i], rows[j]))[: len(rows) - f] for i in indices]
    mixed = [[sum(rows[j][k] for j in js) / len(js) for k in range(x.shape[1])] for js in near]
    scores = [sum(sorted(gap(a, b) for j, b in enumerate(mixed) if i != j)[: len(rows) - f - 2]) for i, a in enumerate(mixed)]
    best = {tuple(row) for row, score in zip(mixed, scores) if score == min(scores)}
    return np.array([float(v) for v in best.pop()]) if len(best) == 1 else np.full(x.shape[1], np.nan)


def bucketing(x, f, seed="seed"):
    def draw(i):
        return hashlib.sha256(f"nostrain/bucketing\n{seed}\n{i:02}\n{i:02}".encode()).hexdigest()

    order = sorted(range(len(x)), key=draw)
    return np.array([x[order[k : k + 2]].mean(0) for k in range(0, len(x), 2)])


RULES = {
    "mean": (weighted_mean, None, 1, "float64"),
    "clipped-mean": (clipped_mean, None, 1, "float64"),
    "trimmed-mean": (trimmed_mean, None, 1, "float64"),
    "coordinate-median": (coordinate_median, None, 1, "float64"),
    "krum": (krum, None, 3, "float64"),
    "multi-krum": (multi_krum, None, 3, "float64"),
    "geometric-median": (geometric_median, None, 1, "float32"),
    "centered-clip": (centered_clip, None, 1, "float32"),
    "nnm+trimmed-mean": (trimmed_mean, nnm, 1, "float32"),
    "nnm+geometric-median": (geometric_median, nnm, 1, "float32"),
    "nnm+krum": (krum_of_nnm, None, 3, "float32"),
    "nnm+coordinate-median": (coordinate_median, nnm, 1, "float32"),
    "bucketing+centered-clip": (centered_clip, bucketing, 1, "float32"),
    "bucketing+multi-krum": (multi_krum, bucketing, 3, "float32"),
}


def main() -> None:
    results = {}
    for name, (rule, before, more, dtype) in RULES.items():
        out = []
        for i in range(CASES):
            x = rows_of(i)
            f = (len(x) + 1 - 2 * more) // 4 if before is bucketing else (len(x) - more) // 2
            out.append(rule(before(x, f) if before else x, f))
        results[name] = base64.b64encode(np.concatenate(out).astype("<" + dtype[0] + dtype[-2:].replace("64", "8").replace("32", "4")).tobytes()).decode()
    made = {"numpy": np.__version__, "made": datetime.date.today().isoformat()}
    with open(os.path.join(HERE, "rules.json"), "w") as file:
        json.dump({**made, "cases": CASES, "results": results}, file, indent=0)
        file.write("\n")


main()
