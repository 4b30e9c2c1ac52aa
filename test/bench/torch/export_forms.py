"""Writes data that nobody here made, as files for `--corpus`: scikit-learn's digits as PNG folders, statsmodels' sunspots as a CSV.

    pip install scikit-learn statsmodels
    python test/bench/torch/export_forms.py FOLDER

Then `python test/bench/torch/export_forms.py FOLDER --baselines` prints what those packages' own models reach on the parts that
test/bench/forms.ts left there: an SVC as in scikit-learn's example of digits, and an autoregression of statsmodels.
"""

import json
import os
import struct
import sys
import zlib

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    height, width = pixels.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = b"".join(b"\0" + bytes(row) for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def export(folder: str) -> None:
    from sklearn.datasets import load_digits
    from statsmodels.datasets import sunspots

    digits = load_digits()
    for i, (image, label) in enumerate(zip(digits.images, digits.target)):
        place = os.path.join(folder, "digits", str(label))
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"{i:04}.png"), "wb") as file:
            file.write(png(np.minimum(255, np.round(image * 255 / 16)).astype(np.uint8)))
    table = sunspots.load_pandas().data
    with open(os.path.join(folder, "sunspots.csv"), "w") as file:
        file.write("year,sunspots\n")
        file.writelines(f"{int(year)},{value}\n" for year, value in zip(table.YEAR, table.SUNACTIVITY))


def baselines(folder: str) -> None:
    from sklearn.svm import SVC
    from statsmodels.tsa.ar_model import AutoReg

    place = os.path.join(folder, "digits-parts")
    part = lambda name, dtype: np.fromfile(os.path.join(place, name), dtype=dtype)
    x = {p: part(f"{p}.pixels", np.uint8).reshape(-1, 64) / 255 * 16 for p in ("shard", "validation")}
    y = {p: part(f"{p}.labels", np.int32) for p in ("shard", "validation")}
    right = SVC(gamma=0.001).fit(x["shard"], y["shard"]).score(x["validation"], y["validation"])
    place = os.path.join(folder, "sunspots-parts")
    with open(os.path.join(place, "task.json")) as file:
        spec = json.load(file)["spec"]
    context, horizon = spec["context"], spec["horizon"]
    training = part("shard.values", np.float32).astype(np.float64)
    held = part("validation.values", np.float32).astype(np.float64)
    rows = part("held", np.int32)
    squares = {"autoregression": [], "the last value": [], "the mean": []}
    for lags in (9,):
        fitted = AutoReg(training, lags=lags).fit()
        for row in rows:
            past, wanted = list(held[row : row + context]), held[row + context : row + context + horizon]
            for value in wanted:
                seen = [fitted.params[0] + sum(p * past[-1 - i] for i, p in enumerate(fitted.params[1:]))]
                past.append(seen[0])
            squares["autoregression"].append(np.mean((np.array(past[context:]) - wanted) ** 2))
            squares["the last value"].append(np.mean((held[row + context - 1] - wanted) ** 2))
            squares["the mean"].append(np.mean(wanted**2))
    print(json.dumps({"SVC": right, **{name: float(np.mean(each)) for name, each in squares.items()}}))


(baselines if "--baselines" in sys.argv else export)(sys.argv[1])
