"""The Python reference's side of `npm run bench:reference`: does what a line on stdin asks for, answers with one of JSON.

    python3 operations.py VALUES RATIO WEIGHTS

VALUES is a file of f64, one row of a delta after another, as many as WEIGHTS (comma-separated) has numbers. A line names an
operation; the answer is {"ms", "result"}, in processor time. The reference is on PYTHONPATH.
"""

import array
import hashlib
import json
import sys
import time
from dataclasses import replace

from nostrain.aggregation import aggregate_weighted_deltas, nesterov_outer_step
from nostrain.compression import compress_delta, decompress_payload
from nostrain.crypto import schnorr_sign, secret_key_to_public_key
from nostrain.model import ModelState, TensorState, state_digest
from nostrain.protocol import NostrainEvent

file, ratio, weights = sys.argv[1], float(sys.argv[2]), [int(w) for w in sys.argv[3].split(",")]
SECRET = "3".zfill(64)

values = array.array("d")
with open(file, "rb") as source:
    values.frombytes(source.read())
size = len(values) // len(weights)
deltas = [
    ModelState((TensorState("all", (size,), tuple(values[i * size : (i + 1) * size])),))
    for i in range(len(weights))
]
payload = compress_delta(deltas[0], topk_ratio=ratio).payload
unsigned = NostrainEvent(
    kind=33333,
    created_at=1700000000,
    tags=(("t", "nostrain"),),
    content=payload,
    pubkey=secret_key_to_public_key(SECRET),
)


def sign():
    event_id = unsigned.compute_event_id()
    signature = schnorr_sign(bytes.fromhex(event_id), SECRET)
    return replace(unsigned, event_id=event_id, sig=signature)


signed = sign()
operations = {
    "compress": (
        lambda: compress_delta(deltas[0], topk_ratio=ratio),
        lambda made: hashlib.sha256(made.payload.encode()).hexdigest(),
    ),
    "decode": (lambda: decompress_payload(payload), state_digest),
    "sign": (sign, lambda event: event.sig),
    "verify": (signed.validate_signature, lambda _: "true"),
    "aggregate": (lambda: aggregate_weighted_deltas(zip(deltas, weights)), state_digest),
    "outer step": (
        lambda: nesterov_outer_step(deltas[0], deltas[1], previous_momentum=deltas[2]),
        lambda step: state_digest(step.next_state),
    ),
    "state digest": (lambda: state_digest(deltas[0]), lambda digest: digest),
}

print("ready", flush=True)
for line in sys.stdin:
    run, describe = operations[line.strip()]
    started = time.process_time()
    made = run()
    elapsed = time.process_time() - started
    print(json.dumps({"ms": 1000 * elapsed, "result": describe(made)}), flush=True)
