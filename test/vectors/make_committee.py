"""Writes committee.json: draws, committees, entropy, reveals and ledgers from the rules in docs/committee.md.

Python's standard library alone; nothing of nostrain runs here.  python3 make_committee.py > committee.json
"""
import json
import sys
from fractions import Fraction
from hashlib import sha256


def h(tag, *fields):
    return sha256(tag.encode() + b"".join(fields)).digest()


def u32(n):
    return n.to_bytes(4, "big")


def lot(key, run, round_, attempt, entropy):
    seed = h("nostrain/committee/1", run, u32(round_), u32(attempt // 8), entropy)
    digest = sha256(b"nostrain/draw/1".ljust(32, b"\0") + seed + key).digest()
    turn = attempt % 8
    return int.from_bytes(digest[4 * turn :] + digest[: 4 * turn], "big") | 1


def bits(n):
    whole = n.bit_length() - 1
    mantissa = n << (127 - whole) if whole < 127 else n >> (whole - 127)
    fraction = 0
    for _ in range(64):
        mantissa = mantissa * mantissa >> 127
        fraction <<= 1
        if mantissa >> 128:
            fraction |= 1
            mantissa >>= 1
    return (256 << 64) - (whole << 64) - fraction


def rank(members, run, round_, attempt, entropy):
    scored = [
        (Fraction(bits(lot(bytes.fromhex(k), run, round_, attempt, entropy)), w), k, w)
        for k, w in members
    ]
    return [(k, w) for _, k, w in sorted(scored)]


def quorum(rule, seats):
    return 2 * seats // 3 + 1 if rule == "bft" else seats // 2 + 1


def capped(stakes, k):
    """By solving for the cap with the j largest stakes cut, j = 0, 1, ..."""
    seats, blocking = len(stakes), len(stakes) - k + 1
    ordered = sorted(stakes, reverse=True)
    for j in range(seats + 1):
        rest = sum(ordered[j:])
        if j == 0:
            if ordered[0] * seats <= blocking * rest:
                return list(stakes)
            continue
        if seats - blocking * j <= 0:
            continue
        cap = blocking * rest // (seats - blocking * j)
        if (j == seats or cap >= ordered[j]) and cap < ordered[j - 1]:
            return [min(s, cap) for s in stakes]
    return [min(stakes)] * seats


def committee(case):
    run, parent, entropy = (bytes.fromhex(case[f]) for f in ("run", "parent", "entropy"))
    rules = case["rules"]
    weigh = {k: int(s) for k, s in case["stakes"].items()} if case["stakes"] is not None else None
    members = []
    for key in case["eligible"]:
        stake = 1 if weigh is None else weigh.get(key, 0)
        if weigh is not None and stake < max(1, int(rules["minStake"])):
            continue
        members.append((key, stake if rules["weights"] == "stake" else 1))
    order = rank(members, run, case["round"], case["attempt"], entropy)
    seats = order[: rules["size"]]
    k = quorum(rules["quorum"], len(seats))
    ctx = h(
        "nostrain/ctx/1",
        *[run, u32(case["round"]), u32(case["attempt"]), parent, u32(len(seats))],
        *[bytes.fromhex(key) for key, _ in seats],
    )
    return {
        "rank": [key for key, _ in order],
        "members": [key for key, _ in seats],
        "weights": [str(w) for w in (capped([w for _, w in seats], k) if seats else [])],
        "quorum": k,
        "ctx": ctx.hex(),
    }


def key(i):
    return sha256(b"key" + bytes([i])).hexdigest()


def digest(text):
    return sha256(text.encode()).hexdigest()


def committees():
    keys = [key(i) for i in range(40)]
    mixed = {k: (i * i * 7919 + 1) * 10 ** (i % 19) for i, k in enumerate(keys)}
    whales = {k: 2**128 - 1 if i < 2 else 1 for i, k in enumerate(keys[:7])}
    base = {"run": digest("run"), "parent": digest("parent"), "entropy": digest("entropy")}
    rule = {"size": 16, "quorum": "bft", "weights": "stake", "minStake": "0"}
    for eligible, stakes, round_, attempt, change in [
        (keys, mixed, 0, 0, {}),
        (keys, mixed, 1, 0, {"quorum": "cft"}),
        (keys, mixed, 1, 3, {"size": 64}),
        (keys, mixed, 1, 8, {"size": 8}),
        (keys, mixed, 70000, 13, {"weights": "equal"}),
        (keys, mixed, 5, 0, {"minStake": str(10**12)}),
        (keys[:7], whales, 2, 0, {"size": 7}),
        (keys[:4], whales, 2, 1, {"size": 4}),
        (keys[:4], {keys[0]: 5, keys[1]: 1, keys[2]: 1, keys[3]: 1}, 2, 1, {}),
        (keys[:1], None, 0, 0, {"weights": "equal"}),
        (keys[:9], None, 9, 0, {"size": 3, "weights": "equal"}),
        (keys[:3], {}, 9, 0, {"size": 3}),
    ]:
        stakes = None if stakes is None else {k: str(s) for k, s in stakes.items()}
        case = {**base, "round": round_, "attempt": attempt, "eligible": eligible, "stakes": stakes}
        case["rules"] = {**rule, **change}
        yield {**case, "expected": committee(case)}


def entropies():
    run = bytes.fromhex(digest("run"))
    entropy = h("nostrain/entropy/1", run)
    yield {"round": 0, "entropy": entropy.hex()}
    for round_, reveal, beacon in [
        (1, "", ""),
        (2, digest("reveal 1"), ""),
        (3, digest("reveal 2"), digest("beacon 2")),
        (4, "", digest("beacon 3")),
    ]:
        x, b = bytes.fromhex(reveal), bytes.fromhex(beacon)
        sized = [bytes([len(x)]), x, bytes([len(b)]), b]
        entropy = h("nostrain/entropy/1", run, u32(round_), entropy, *sized)
        yield {"round": round_, "reveal": reveal, "beacon": beacon, "entropy": entropy.hex()}


def reveals():
    rounds = 5
    secret = bytes(range(32))
    link = h("nostrain/reveal-start/1", secret, bytes.fromhex(digest("run")))
    links = [link]
    for _ in range(rounds + 1):
        links.append(h("nostrain/reveal/1", links[-1]))
    return {
        "secret": secret.hex(),
        "rounds": rounds,
        "tip": links[rounds + 1].hex(),
        "reveals": ["" if r == 0 else links[rounds - r].hex() for r in range(rounds)],
    }


def ledger():
    members = sorted([key(i), digest(f"tip {i}") if i else None, i, 6 - i, 5 - i, [0, 4, -1][i]] for i in range(3))
    value = {
        "round": 8,
        "mixed": {"entropy": digest("entropy 7"), "reveal": digest("reveal 7")},
        "steps": 6,
        "members": members,
        "faulted": [key(9)],
        "finals": [4, 5, 7],
        "rowSizes": [0.5, 0.25],
        "ballots": None,
        "features": {
            "defer": {"late": [key(1)]},
            "stake": {"snapshot": digest("snapshot"), "next": digest("next snapshot")},
        },
    }
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {"text": text, "root": h("nostrain/ledger/2", text.encode()).hex()}


def logs():
    for n in [1, 2, 3, 2**64 + 1, 2**255, 2**255 + 1, 2**256 - 1, 2**256 - 2**192, int(digest("lot"), 16)]:
        yield {"lot": f"{n:064x}", "bits": str(bits(n))}


def order(count):
    """Digest of the order in which test/browser/weighted-order.ts draws its pairs."""
    prefix = b"nostrain/draw/1".ljust(32, b"\0") + sha256(b"order").digest()
    scored = []
    for i in range(count):
        pair = sha256(b"pair" + u32(i)).digest()
        weight = int.from_bytes(sha256(b"weight" + u32(i)).digest()[:16], "big") >> i % 128 | 1
        digest = sha256(prefix + pair).digest()
        n = int.from_bytes(digest[12:] + digest[:12], "big") | 1
        # more digits than two scores can agree in, unless they are equal
        scored.append(((bits(n) << 300) // weight, pair))
    scored.sort()
    return {"count": count, "digest": sha256(b"".join(pair for _, pair in scored)).hexdigest()}


json.dump(
    {
        "about": "written by make_committee.py from the rules in docs/committee.md; frozen",
        "run": digest("run"),
        "bits": list(logs()),
        "committees": list(committees()),
        "entropies": list(entropies()),
        "reveals": reveals(),
        "ledger": ledger(),
        "orders": [order(10**4), order(10**6)],
    },
    sys.stdout,
    indent=1,
)
print()
