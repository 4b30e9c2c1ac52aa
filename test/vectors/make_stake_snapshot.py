"""Writes stake-snapshot.json from docs/stake.md, not from the library. Python 3, standard library only."""

import datetime
import hashlib
import json
import platform
from pathlib import Path


def text(value):
    raw = value.encode("ascii")
    return len(raw).to_bytes(4, "big") + raw


def body(doc):
    out = b"nostrain/stake/1" + text(doc["chain"]) + text(doc["strategy"])
    out += text(json.dumps(doc["params"], sort_keys=True, separators=(",", ":")))
    out += doc["height"].to_bytes(8, "big") + bytes.fromhex(doc["blockHash"]) + text(doc["unit"])
    out += len(doc["rows"]).to_bytes(4, "big")
    for row in doc["rows"]:
        out += bytes.fromhex(row["key"]) + int(row["stake"]).to_bytes(16, "big")
    return out


def key(i):
    return hashlib.sha256(b"vector %d" % i).hexdigest()


def case(name, **doc):
    doc["rows"] = [{"key": k, "stake": str(v)} for k, v in sorted(doc["rows"])]
    raw = body(doc)
    total = str(sum(int(row["stake"]) for row in doc["rows"]))
    out = {"name": name, "snapshot": {**doc, "total": total}, "id": hashlib.sha256(raw).hexdigest()}
    if len(raw) < 1000:
        out["bytes"] = raw.hex()
    return out


def bad(name, raw):
    return {"name": name, "bytes": raw.hex()}


NOTHING = "00" * 32
FILE = dict(chain="nostrain:file", strategy="file", params={}, height=0, blockHash=NOTHING, unit="stake")
CHAIN = dict(
    chain="eip155:31337",
    strategy="registry",
    params={"from": 2, "contract": "0x" + "5f" * 20},
    height=2**53 - 1,
    blockHash="ab" * 32,
    unit="wei",
)

cases = [
    case("nobody", **FILE, rows=[]),
    case("three", **FILE, rows=[(key(i), 10 * (i + 1)) for i in range(3)]),
    case("smallest and largest stake", **CHAIN, rows=[(key(3), 1), (key(4), 2**128 - 1)]),
    case("around 2^64", **CHAIN, rows=[(key(i), 2**64 + i - 1) for i in range(3)]),
    case("a hundred", **CHAIN, rows=[(key(i), (i + 1) * 10**18) for i in range(100)]),
]

two = dict(FILE, rows=[{"key": "01" * 32, "stake": "1"}, {"key": "02" * 32, "stake": "2"}])
good = body(two)
swapped = body(dict(two, rows=two["rows"][::-1]))
twice = body(dict(two, rows=two["rows"][:1] * 2))
zero = body(dict(two, rows=[{"key": "01" * 32, "stake": "0"}]))
refused = [
    bad("nothing", b""),
    bad("another version", good.replace(b"stake/1", b"stake/2", 1)),
    bad("cut short", good[:-1]),
    bad("a byte too many", good + b"\0"),
    bad("descending", swapped),
    bad("a key twice", twice),
    bad("a stake of nothing", zero),
    bad("no chain", body(dict(two, chain=""))),
    bad("upper case in the chain's namespace", body(dict(two, chain="EIP155:1"))),
    bad("a space in the unit", body(dict(two, unit="a b"))),
    bad("params that are a list", body(dict(two, params=[]))),
    bad("params with a space", good.replace(b"\0\0\0\2{}", b"\0\0\0\3{ }", 1)),
    bad("a height beyond 2^53 - 1", body(dict(two, height=2**53))),
    bad("a length beyond the end", good.replace(b"\0\0\0\4file", b"\0\0\xff\4file", 1)),
]

made = {
    "made": "%s by make_stake_snapshot.py, Python %s" % (datetime.date.today(), platform.python_version()),
    "cases": cases,
    "refused": refused,
}
Path(__file__).with_name("stake-snapshot.json").write_text(json.dumps(made, indent=1) + "\n")
