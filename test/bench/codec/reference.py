"""Compresses a file of f64 with the Python reference and prints how long that took, as JSON.

    python3 reference.py CHECKOUT DELTA RATIO

CHECKOUT is a checkout of https://github.com/AbdelStark/nostrain. Times are processor time; the file is read beforehand.
"""

import array
import hashlib
import json
import sys
import time

checkout, file, ratio = sys.argv[1:]
sys.path.insert(0, f"{checkout}/src")

from nostrain.compression import compress_delta, decompress_payload  # noqa: E402
from nostrain.model import ModelState, TensorState  # noqa: E402

values = array.array("d")
with open(file, "rb") as source:
    values.frombytes(source.read())
delta = ModelState((TensorState("all", (len(values),), tuple(values)),))

started = time.process_time()
compressed = compress_delta(delta, topk_ratio=float(ratio))
encoded = time.process_time()
decompress_payload(compressed)
done = time.process_time()

print(
    json.dumps(
        {
            "encodeMs": 1000 * (encoded - started),
            "decodeMs": 1000 * (done - encoded),
            "bytes": compressed.wire_bytes,
            "digest": hashlib.sha256(compressed.payload.encode("ascii")).hexdigest(),
        }
    )
)
