"""
Published standards that follow.py uses: events (NIP-01), canonical JSON (RFC 8785), Philox4x32-10.
"""
import json
from functools import lru_cache
from hashlib import sha256

import rfc8785
from coincurve import PublicKeyXOnly

key32 = bytes.fromhex

class Refused(Exception):
    """A run that breaks a rule; the first word is the reason."""

def require(condition, reason, detail=''):
    if not condition:
        raise Refused(f'{reason} {detail}'.strip())

def H(*parts):
    return sha256(b''.join(p.encode() if isinstance(p, str) else p for p in parts)).digest()

def jcs(value):
    return rfc8785.dumps(value).decode()

@lru_cache(None)
def is_signed(pubkey, message, sig):
    return PublicKeyXOnly(key32(pubkey)).verify(key32(sig), key32(message))

def verify(event):
    fields = [0, *(event[name] for name in ('pubkey', 'created_at', 'kind', 'tags', 'content'))]
    computed = H(json.dumps(fields, separators=(',', ':'), ensure_ascii=False)).hex()
    require(event.get('id', computed) == computed, 'bad-id', computed)
    require(is_signed(event['pubkey'], computed, event['sig']), 'bad-signature', computed)

def tags(event, name):
    return [tag[1] for tag in event['tags'] if tag[0] == name]

def philox(key, a, b, c, d):
    """The four words of a block; in place of a number the counter may have an array of uint64."""
    k0, k1 = key
    for _ in range(10):
        high, low = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = low >> 32 ^ b ^ k0, low & 0xFFFFFFFF, high >> 32 ^ d ^ k1, high & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return a, b, c, d
