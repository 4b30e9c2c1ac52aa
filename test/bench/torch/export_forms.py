"""Writes data that nobody here made, as files for `--corpus`: scikit-learn's digits as PNG folders, three series of
statsmodels as CSV: sunspots by year, the surface of the sea off Peru by month (El Niño), and CO2 in the air of Mauna Loa by week, holes filled
in evenly.

    pip install scikit-learn statsmodels
    python test/bench/torch/export_forms.py FOLDER

Then `python test/bench/torch/export_forms.py FOLDER --baselines` prints what those packages' own models reach on the parts that
test/bench/forms.ts left there: an SVC as in scikit-learn's example of digits, and autoregressions of statsmodels.
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
    from statsmodels.datasets import co2, elnino, sunspots

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
    months = elnino.load_pandas().data.set_index("YEAR").stack()
    with open(os.path.join(folder, "elnino.csv"), "w") as file:
        file.write("month,degrees\n")
        file.writelines(f"{int(year)}-{1 + i % 12:02}-01,{value}\n" for i, ((year, _), value) in enumerate(months.items()))
    weeks = co2.load_pandas().data["co2"].interpolate()
    with open(os.path.join(folder, "co2.csv"), "w") as file:
        file.write("date,co2\n")
        file.writelines(f"{date:%Y-%m-%d},{value}\n" for date, value in weeks.items())


def baselines(folder: str) -> None:
    from sklearn.svm import SVC
    from statsmodels.tsa.ar_model import AutoReg

    place = os.path.join(folder, "digits-parts")
    part = lambda name, dtype: np.fromfile(os.path.join(place, name), dtype=dtype)
    x = {p: part(f"{p}.pixels", np.uint8).reshape(-1, 64) / 255 * 16 for p in ("shard", "validation")}
    y = {p: part(f"{p}.labels", np.int32) for p in ("shard", "validation")}
    right = SVC(gamma=0.001).fit(x["shard"], y["shard"]).score(x["validation"], y["validation"])
    print(json.dumps({"digits": {"SVC": right}}))
    # lags: the order that information criteria choose for sunspots (9), twice the season of months, the season of weeks
    for name, lags, season in (("sunspots", 9, 11), ("elnino", 24, 12), ("co2", 52, 52)):
        place = os.path.join(folder, f"{name}-parts")
        if not os.path.exists(place):
            continue
        with open(os.path.join(place, "task.json")) as file:
            spec = json.load(file)["spec"]
        context, horizon = spec["context"], spec["horizon"]
        training = part("shard.values", np.float32).astype(np.float64)
        held = part("validation.values", np.float32).astype(np.float64)
        fitted = AutoReg(training, lags=lags).fit().params
        squares = {f"autoregression of {lags} lags": [], "the same step of the season before": [], "the last value": [], "the mean": []}
        for row in part("held", np.int32):
            seen, wanted = held[row : row + context], held[row + context : row + context + horizon]
            past = list(seen)
            for _ in wanted:
                past.append(fitted[0] + sum(p * past[-1 - i] for i, p in enumerate(fitted[1:])))
            again = np.array([seen[context - season + i % season] for i in range(horizon)])
            for each, forecast in zip(squares.values(), (np.array(past[context:]), again, seen[-1], 0.0)):
                each.append(np.mean((forecast - wanted) ** 2))
        print(json.dumps({name: {what: float(np.mean(each)) for what, each in squares.items()}}))


(baselines if "--baselines" in sys.argv else export)(sys.argv[1])
