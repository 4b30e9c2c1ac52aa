"""
Published algorithms that follow.py uses, in Python's standard library: ids (NIP-01), signatures (BIP-340), canonical JSON
(RFC 8785), Philox4x32-10 and rounding to single precision.
"""
import json, re, struct
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256

P, N = 2**256 - 2**32 - 977, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
     0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8)
key32 = bytes.fromhex

class Refused(Exception):
    """A run that breaks a rule; the first word is the reason."""

def require(condition, reason, detail=''):
    if not condition:
        raise Refused(f'{reason} {detail}'.strip())

def H(*parts):
    return sha256(b''.join(part.encode() if isinstance(part, str) else part for part in parts)).digest()

def add(p, q):
    if p is None or q is None:
        return p or q
    if p[0] == q[0] and p[1] != q[1]:
        return None
    slope = 3 * p[0] ** 2 * pow(2 * p[1], -1, P) if p == q else (q[1] - p[1]) * pow(q[0] - p[0], -1, P)
    x = (slope**2 - p[0] - q[0]) % P
    return x, (slope * (p[0] - x) - p[1]) % P

@lru_cache(None)
def is_signed(pubkey, message, sig):
    x, r, s = int(pubkey, 16), int(sig[:64], 16), int(sig[64:], 16)
    y = pow(x**3 + 7, (P + 1) // 4, P)
    if x >= P or r >= P or s >= N or (y * y - x**3 - 7) % P:
        return False
    tag = H('BIP0340/challenge')
    e = -int.from_bytes(H(tag, tag, key32(sig[:64] + pubkey + message)), 'big') % N
    key, at = (x, y if y % 2 == 0 else P - y), None
    points = [None, G, key, add(G, key)]
    for bit in range(255, -1, -1):
        at = add(add(at, at), points[(s >> bit & 1) + 2 * (e >> bit & 1)])
    return at is not None and at[0] == r and at[1] % 2 == 0

def jcs(value):
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode('utf-16-be'))
        return '{' + ','.join(f'{jcs(key)}:{jcs(value[key])}' for key in keys) + '}'
    if isinstance(value, list):
        return '[' + ','.join(map(jcs, value)) + ']'
    if isinstance(value, float):  # as ECMAScript prints doubles below 1e21
        if value == int(value):
            return str(int(value))
        return f'{Decimal(repr(value)):f}' if 1e-6 <= abs(value) < 1e-4 else re.sub('(e.)0', r'\1', repr(value))
    return json.dumps(value, ensure_ascii=False)

def verify(event):
    fields = [0, event['pubkey'], event['created_at'], event['kind'], event['tags'], event['content']]
    computed = H(json.dumps(fields, separators=(',', ':'), ensure_ascii=False)).hex()
    require(event.get('id', computed) == computed, 'bad-id', computed)
    require(is_signed(event['pubkey'], computed, event['sig']), 'bad-signature', computed)

def tags(event, name):
    return [tag[1] for tag in event['tags'] if tag[0] == name]

def philox(key, counter):
    (k0, k1), (a, b, c, d) = key, counter
    for _ in range(10):
        high, low = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (low >> 32) ^ b ^ k0, low & 0xFFFFFFFF, (high >> 32) ^ d ^ k1, high & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return a, b, c, d

def f32(values):
    return list(struct.unpack(f'<{len(values)}f', struct.pack(f'<{len(values)}f', *values)))
