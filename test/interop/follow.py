"""
Follows certified training runs from their archives and verifies every round: python3 follow.py run.jsonl [other.jsonl ...]
Written from docs/nip.md alone; needs only Python's standard library. It refuses by name what it has no code for: models other
than gpt, recovery epochs, fault proofs and other features. Prints one line of JSON for each archive; exit code 1: it refuses one.
"""
import base64, json, math, re, struct, sys
from functools import lru_cache
from standards import H, Refused, f32, jcs, key32, philox, require, tags, verify

CHUNK, BLOCK, M32 = 45056, 4096, 0xFFFFFFFF
u32, le32 = struct.Struct('>I').pack, struct.Struct('<I').pack

# --- events and chunks

def content_of(event):
    """The content, with its tags checked; None if the event has not the form of its kind."""
    try:
        kind, content = event['kind'], json.loads(event['content'])
        of_round = kind in (7810, 7813, 7814)
        scopes = [content['run'], f"{content['run']}/{content['round']}"] if of_round else [content['run']]
        x = [content['root' if kind == 7810 else 'digest']] if of_round else []
        good = jcs(content) == event['content'] and tags(event, 's') == scopes and tags(event, 'x') == x
        return content if good and len(jcs(event)) <= 131072 else None
    except (ValueError, KeyError, TypeError):
        return None

def tree_root(data):
    parts = [data[i:i + CHUNK] for i in range(0, len(data), CHUNK)]
    level = [H('nostrain:leaf:', part) for part in parts]
    while len(level) > 1:
        pairs = [level[i:i + 2] for i in range(0, len(level), 2)]
        level = [H('nostrain:node:', *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return H('nostrain:root:', le32(len(parts)), struct.pack('<Q', len(data)), level[0]).hex()

class Archive:
    def __init__(self, path):
        self.events, self.parts = {}, {}
        for event in map(json.loads, open(path, encoding='utf-8')):
            require('beacon' not in event, 'unknown-feature', 'beacon')
            verify(event)
            self.events[event['id']] = event
            if event['kind'] == 7811:
                self.parts[tags(event, 'x')[0], int(tags(event, 'index')[0])] = base64.b64decode(event['content'])
        self.contents = {i: content_of(e) for i, e in self.events.items() if e['kind'] not in (7811, 37810)}

    def of(self, kind, **members):
        """Events of a kind whose contents have these members, each with its content."""
        every = [(self.events[i], content) for i, content in self.contents.items() if content is not None]
        return [(e, c) for e, c in every if e['kind'] == kind and all(c.get(k) == v for k, v in members.items())]

    def body(self, root, size):
        """The bytes of a root, checked as a whole; None unless all chunks are here."""
        data = b''.join(self.parts.get((root, i), b'') for i in range(-(-size // CHUNK)))
        return data if len(data) == size and tree_root(data) == root else None

# --- first parameters and payloads

def dense(letters):
    alphabet, out = [chr(code) for code in range(33, 127) if chr(code) not in '"&<>\\'], b''
    for at in range(0, len(letters), 26):
        out += sum(alphabet.index(x) * 89 ** (25 - i) for i, x in enumerate(letters[at:at + 26])).to_bytes(21, 'big')
    return out

def root_mean_square(values):
    total = 0.0  # not sum(), which compensates for rounding
    for value in values:
        total += value * value
    return math.sqrt(total / len(values)) if values else 0.0

def tensors(t):
    """Name, shape and deviation (or 'ones', 'zeros') of each tensor."""
    require(t['model'] in ('gpt', 'char-gpt'), 'unknown-model', t['model'])
    def layer(name, shape, start=0.02):
        return [(name + '.weight', shape, start), (name + '.bias', shape[-1:], 'zeros')]
    d, f, v = t['width'], t['ffn'], 256 if t['tokens'] == 'bytes' else 95
    embeddings = ('embedding.tokens', [v, d]), ('embedding.positions', [t['context'], d]), ('head', [d, v])
    found = [(name + '.weight', shape, 0.02) for name, shape in embeddings] + layer('norm', [d], 'ones')
    for at in (f'blocks.{i}.' for i in range(t['layers'])):
        found += layer(at + 'attention.norm', [d], 'ones') + layer(at + 'feedforward.norm', [d], 'ones')
        found += layer(at + 'attention.qkv', [d, 3 * d]) + layer(at + 'attention.output', [d, d])
        found += layer(at + 'feedforward.hidden', [d, f]) + layer(at + 'feedforward.output', [f, d])
    return sorted(found)

def first_parameters(training):
    values, spread = [], math.sqrt(8 * (2**32 - 1) / 12)
    for name, shape, start in tensors(training):
        fields = b'nostrain/initial', str(training['seed']).encode(), name.encode()
        key = struct.unpack_from('<2I', H(*(part for field in fields for part in (le32(len(field)), field))))
        drawn = lambda i: sum((word >> 16) + (word & 0xFFFF) for word in philox(key, (i, 0, 0, 0)))
        constant = {'ones': 1.0, 'zeros': 0.0}.get(start)
        values += [(drawn(i) - 262140) / spread * start if constant is None else constant for i in range(math.prod(shape))]
    return f32(values)

@lru_cache(None)
def codeword(s, j):
    m = (0x9E3779B1 * s + 0x85EBCA6B * j) & M32
    return sum(le32(0x7FEB352D * (m ^ m >> 16) & M32)) - 510

def decode_trellis(codes, scale, length, key, counter):
    state, values = 0, []
    for t in range(8 * len(codes)):
        state = (2 * state + (codes[t >> 3] >> (t & 7) & 1)) % 1024
        count = (t + 1) * length // (8 * len(codes)) - len(values)
        values += [scale * codeword(state, j) for j in range(count)]
    levels = length.bit_length() - 1
    for _ in range(levels):  # neighbours first: their sums, then their differences, are neighbours of the next level
        values = [a + b for a, b in zip(values[::2], values[1::2])] + [a - b for a, b in zip(values[::2], values[1::2])]
    words = [word for at in range(-(-length // 128)) for word in philox(key, (*counter, at, 0))]
    half = 2.0 ** -(levels // 2)
    return [value * (-half if words[i // 32] >> i % 32 & 1 else half) for i, value in enumerate(values)]

def decode(payload, codec, author, run):
    """The values of each chunk."""
    require(re.fullmatch('int8|trellis(-[0-9]+)?', codec), 'unknown-codec')
    require(payload[:5] == b'NSPL\x01' and len(payload) >= 84, 'malformed')
    code, kept, round_, size, count = struct.unpack_from('<BHIII', payload, 5)
    chunks, roster = run.sends[author], key32(run.roster) if run.roster else bytes(32)
    require(payload[20:52] == run.name, 'other-run')
    require(round_ == run.round, 'wrong-round')
    require(size == len(run.parameters), 'wrong-shape')
    require(payload[52:84] == roster, 'other-roster')
    require(count == len(chunks), 'wrong-shape')
    require((code, kept) == (1, 0) or code == 36 and 1 <= kept <= 1024, 'unknown-codec')
    require(codec == ('int8' if code == 1 else f'trellis-{kept}'), 'malformed')
    halves = zip(struct.unpack_from('<2I', run.name), struct.unpack_from('<2I', key32(author)))
    key, at, out = tuple(a ^ b for a, b in halves), 84, {}
    for chunk in chunks:
        n = min(BLOCK, size - chunk * BLOCK)
        length = 1 << (n - 1).bit_length()
        width = n if code == 1 else max(1, (2 * kept * length + 4096) // 8192)
        bits, codes, at = int.from_bytes(payload[at:at + 2], 'little'), payload[at + 2:at + 2 + width], at + 2 + width
        require(at <= len(payload), 'malformed')
        scale = struct.unpack('<f', struct.pack('<I', bits << 16))[0]
        require(0x80 <= bits <= (0x7F7F if code == 1 else 0x7780) or bits == 0 and not any(codes), 'malformed')
        if code == 36:
            out[chunk] = decode_trellis(codes, scale, length, key, (round_, chunk))[:n]
            continue
        q = struct.unpack(f'{n}b', codes)
        require(min(q) > -128 and (bits == 0 or max(map(abs, q)) == 127), 'malformed')
        out[chunk] = [scale * value for value in q]
    require(at == len(payload), 'malformed')
    return out

# --- a run, round by round

class Run:
    def __init__(self, archive):
        specs = {(event['content'], *tags(event, 'd')) for event in archive.events.values() if event['kind'] == 37810}
        require(len(specs) == 1, 'no-spec', f'{len(specs)} specs')
        ((text, named),) = specs
        self.id, self.spec, self.archive = H(text).hex(), json.loads(text), archive
        require(self.id == named and jcs(self.spec) == text, 'other-run', 'the spec has another hash')
        unknown = set(self.spec['features']) - {'address', 'places', 'telemetry'}
        require(not unknown, 'unknown-feature', ' '.join(sorted(unknown)))
        self.training, self.name, self.parent = self.spec['training'], H(self.id), self.id
        self.digests, self.left, self.signers = {self.id: -1}, {}, {}
        self.parameters = first_parameters(self.training)
        self.momentum = [0.0] * len(self.parameters)
        self.ledger = {'round': 0, 'steps': 0, 'mixed': None, 'faulted': [], 'finals': [], 'rowSizes': [], 'ballots': None,
                       'members': [[key, None, 0, -1, -1, 0] for key in sorted(self.spec['founders'])]}
        self.entropy = H('nostrain/entropy/1', key32(self.id))
        self.enter()

    def enter(self):
        """Derives who sits in the round and who sends which chunks."""
        self.round, self.members = r, members = self.ledger['round'], self.ledger['members']
        self.root = tree_root(struct.pack(f'<{2 * len(self.parameters)}f', *self.parameters, *self.momentum))
        last = [final for final in self.ledger['finals'] if final < r - 1][-self.spec['liveRounds']:]
        since = last[0] if len(last) == self.spec['liveRounds'] else -1
        self.eligible = [key for key, tip, joined, _, seen, seat in members if r == 0 or tip and 0 <= seat <= r
                         and seen >= (max(since, joined) if joined else since)]
        self.committee = sorted(self.eligible, key=self.score)[:self.spec['committee']['size']]
        self.ctx = H('nostrain/ctx/1', key32(self.id), u32(r), u32(0), key32(self.parent),
                     u32(len(self.committee)), *map(key32, self.committee)).hex()
        f, n = self.training['fragments'], -(-len(self.parameters) // BLOCK)
        moving = range(-(-(r % f) * n // f), -(-(r % f + 1) * n // f))
        self.roster, self.sends = None, {row[0]: moving for row in members}
        if self.training['owners'] > 0:
            self.assign(moving, self.training['owners'], self.name + le32(r) + self.entropy)

    def score(self, key):
        seed = H('nostrain/committee/1', key32(self.id), u32(self.round), u32(0), self.entropy)
        lot = int.from_bytes(H(b'nostrain/draw/1'.ljust(32, b'\0'), seed, key32(key)), 'big') | 1
        log = lot.bit_length() - 1
        m = lot << 127 >> log
        for _ in range(64):
            m = m * m >> 127
            log, m = 2 * log + (m >> 128), m >> (m >> 128)
        return (256 << 64) - log, key

    def assign(self, moving, rho, fields):
        owners, c, each = self.eligible, len(moving), min(rho, len(self.eligible))
        self.roster = H('nostrain:roster:', fields, le32(rho), b'\1', le32(len(owners)), *map(key32, owners)).hex()
        seeds = {key: H('nostrain:owner:', fields, key32(key)) for key in owners}
        share, rest = divmod(each * c, len(owners))
        more = sorted(owners, key=seeds.get, reverse=True)[:rest]
        seats, owned = {key: share + (key in more) for key in owners}, {key: [] for key in owners}
        for j in range(c):
            score = {key: H(seeds[key], le32(j // 8))[j % 8 * 4:][:4] for key in owners}
            for _ in range(each):
                free = [key for key in owners if seats[key] and j not in owned[key]]
                taker = next((key for key in free if seats[key] == c - j), None) or max(free, key=score.get)
                owned[taker].append(j)
                seats[taker] -= 1
        others = [key for key in self.sends if key not in seeds]
        dealt = max(1, min(rho, len(self.sends)) * c * len(others) // len(self.sends))
        a, b = struct.unpack_from('>2I', H('nostrain:beside:', fields))
        for p, key in enumerate(others):
            q = (p + b) % len(others)
            owned[key] = sorted((a + i) % c for i in range(q * dealt // len(others), (q + 1) * dealt // len(others)))
        self.sends = {key: [moving[j] for j in chunks] for key, chunks in owned.items()}

    def quorum(self, n):
        return (2 * n // 3 if self.spec['committee']['quorum'] == 'bft' else n // 2) + 1

    def restored(self, kind, key, content, listed, scopes=(), x=()):
        """Checks the signature of an event that an outcome lists."""
        tagged = [['t', 'nostrain'], *(['s', each] for each in (self.id, *scopes)), *(['x', each] for each in x)]
        nonce = [['nonce', *listed['nonce']]] if listed.get('nonce') else []
        verify({'pubkey': key, 'kind': kind, 'content': jcs({'run': self.id, **content}), 'sig': listed['sig'],
                'created_at': listed['createdAt'], 'tags': [*tagged, ['expiration', str(listed['expiration'])], *nonce]})

    def listed_signers(self, digest, votes):
        """Who signed the votes that a later outcome lists, if they certify this digest; else None."""
        cast = {name: votes[name] for name in ('attempt', 'view', 'ctx')}
        cast.update({'round': self.round, 'parent': self.parent, 'digest': digest, 'justify': -1, 'step': 'commit'})
        keys = {self.members[row[0]][0]: row for row in votes['rows'] if row[0] < len(self.members)}
        if len(keys) < len(votes['rows']) or set(keys) - set(self.committee) or not self.is_quorum(votes, keys):
            return None
        for key, (_, created, expires, sig, unlisted, *nonce) in keys.items():
            listed = {'createdAt': created, 'expiration': expires, 'sig': base64.b64decode(sig).hex(), 'nonce': sum(nonce, [])}
            content = {**cast, 'unlisted': unlisted} if unlisted else cast
            self.restored(7813, key, content, listed, [f'{self.id}/{self.round}'], [digest])
        return keys

    def is_quorum(self, cast, keys):
        return cast['attempt'] == 0 and cast['ctx'] == self.ctx and len(keys) >= self.quorum(len(self.committee))

    def outcomes(self, round_, parent):
        """Proposed outcomes of a round, by digest."""
        for _, p in self.archive.of(7814, run=self.id, round=round_, parent=parent):
            body = p['body'] if 'body' in p else (self.archive.body(p['root'], p['bytes']) or b'').decode()
            if H('nostrain/outcome/2', body).hex() == p['digest'] and jcs(json.loads(body)) == body:
                yield p['digest'], json.loads(body)

    def next(self):
        """Verifies the next round; False after the last one."""
        certified, signers = {}, {}
        for digest, outcome in self.outcomes(self.round, self.parent):
            groups = {}
            for event, vote in self.archive.of(7813, run=self.id, digest=digest, parent=self.parent, step='commit'):
                if event['pubkey'] in self.committee:
                    groups.setdefault((vote['view'], vote['ctx']), [vote, set()])[1].add(event['pubkey'])
            later = self.outcomes(self.round + 1, digest)
            listed = {each: self.listed_signers(digest, outcome['votes']) for each, outcome in later}
            signers.update(listed)
            if any(listed.values()) or any(self.is_quorum(*group) for group in groups.values()):
                certified[digest] = outcome
        if not certified:
            every = [c for kind in (7813, 7814) for _, c in self.archive.of(kind, run=self.id)]
            require(all(c['round'] <= self.round for c in every), 'not-certified', f'round {self.round}')
            return False
        require(len(certified) == 1, 'fork', f'round {self.round}')
        self.apply(*certified.popitem())
        self.signers = signers
        return True

    def apply(self, digest, o):
        """Checks an outcome against the state and takes its step."""
        r, tips, admission = self.round, {row[0]: row[1] for row in self.members}, self.spec['admission']
        require(not o['ballots'] and not o['faults'], 'unknown-feature', 'recovery epoch or fault proof')
        require(o['base'] == self.root, 'wrong-base')
        signers = self.signers.get(digest) if r else {}
        require(signers is not None and (r > 0) == (o['votes'] is not None), 'no-quorum')
        require(o['proposer'] in self.committee, 'not-a-member', 'the proposer has no seat')
        link = key32(o['reveal'])
        for _ in range(r + 1 if r else 0):
            link = H('nostrain/reveal/1', link)
        require(link.hex() == (tips[o['proposer']] if r else ''), 'wrong-reveal')
        joins = {join['key']: join for join in o['joins']}
        limit = min(1024, self.spec['joinsPerRound'] or max(1, len(tips) // 4))
        require(len(joins) == len(o['joins']) and sum(key not in tips for key in joins) <= limit, 'too-many-joins')
        require(r or sum(key in tips for key in joins) >= self.quorum(len(tips)), 'too-few-founders')
        for key, join in joins.items():
            after, out = self.digests.get(join['after'], -2), self.ledger['faulted']
            require(after >= max(r - 16, self.left.get(key, -1)), 'old-join', key)
            require(key not in out and tips.get(key) is None, 'join-of-member', key)
            admitted = key in tips or admission['kind'] == 'open' or key in admission.get('keys', [])
            require(admitted, 'join-not-admitted', key)
            said = {name: join[name] for name in ('after', 'tip', 'evidence') if join[name]}
            self.restored(7818, key, {'type': 'join', **said}, join)
        for leave in o['leaves']:
            joined = [row[2] for row in self.members if row[0] == leave['key']]
            require(joined and joined[0] <= leave['last'] <= r, 'wrong-leave', leave['key'])
            self.restored(7818, leave['key'], {'type': 'leave', 'last': leave['last']}, leave)
        for index, manifest, reason in o['rejected']:
            try:
                why = self.contribution(index, manifest) and 'valid'
            except Refused as refused:
                why = str(refused)
            require(why == reason, 'untrue-reason', f'{manifest} is {why}')
        accepted, sent, earning = base64.b64decode(o['accepted']), {}, set()
        rows = list(struct.iter_unpack('>HB32s', accepted))
        require([row[0] for row in rows] == sorted({row[0] for row in rows}), 'malformed', 'accepted')
        require((o['result'] == 'final') == bool(rows), 'wrong-result')
        for index, flags, manifest in rows:
            weight, chunks = self.contribution(index, manifest.hex())
            key, empty = self.members[index][0], not any(map(any, chunks.values()))
            require(flags == 2 * empty, 'wrong-empty', manifest.hex())
            sent[key] = weight, chunks
            earning.update([] if empty else [key])
        require(o['rowSize'] == (self.step(list(sent.values())) if sent else 0), 'wrong-rowSize')
        self.advance(digest, o, {*sent, *signers} if rows else set(), earning, joins)
        require(o['modelRoot'] == self.root, 'wrong-modelRoot')
        require(o['ledgerRoot'] == H('nostrain/ledger/2', jcs(self.ledger)).hex(), 'wrong-ledgerRoot')

    def contribution(self, index, manifest):
        """Weight and chunks of a contribution; Refused with the reason why it does not count."""
        require(manifest in self.archive.contents, 'missing', manifest)
        m, event = self.archive.contents[manifest], self.archive.events[manifest]
        author = event['pubkey']
        require(index < len(self.members) and author == self.members[index][0], 'other-author', manifest)
        require(m is not None and event['kind'] == 7810, 'malformed')
        require(m['run'] == self.id, 'other-run')
        require(m['round'] == self.round, 'wrong-round')
        require('parent' in m, 'uncommitted')
        require((m['parent'], m['base']) == (self.parent, self.root), 'base-mismatch')
        require(m['bytes'] <= self.spec['limits']['payloadBytes'], 'too-large')
        require(m.get('roster') == self.roster, 'other-roster')
        payload = self.archive.body(m['root'], m['bytes'])
        if 'payload' in m or 'dense' in m:
            payload = base64.b64decode(m['payload']) if 'payload' in m else dense(m['dense'])[:m['bytes']]
        require(payload is not None, 'missing', f'payload of {manifest}')
        require(H(payload).hex() == m['hash'], 'malformed')
        weight = 1 if self.training['weights'] == 'equal' else min(self.spec['limits']['weightCap'], m['examples'])
        return weight, decode(payload, m['codec'], author, self)

    def step(self, rows):
        """Bounds the contributions, takes the outer step over their mean and returns their typical size."""
        c, past = self.spec['limits']['normBoundC'], self.ledger['rowSizes']
        sizes = [root_mean_square([value for chunk in sorted(chunks) for value in chunks[chunk]]) for _, chunks in rows]
        lower = lambda some: sorted(some)[-(-len(some) // 2) - 1] if some else 0
        there = sorted(size for size, (_, chunks) in zip(sizes, rows) if chunks)
        most = math.inf if not past else 4 * max(past) if len(past) < 8 else 2 * lower(past)
        first = root_mean_square(self.parameters) or 1000
        bound = min(most, c * lower(there))
        if len(there) < 3:
            bound = min(most, max(lower(past), lower(there))) if past else min(first, max(first, lower(there)))
        bound = bound if c > 0 else math.inf
        rate, decay = self.training['outerLearningRate'], self.training['momentum']
        for chunk in sorted({chunk for _, chunks in rows for chunk in chunks}):
            total, at = [0.0] * len(range(len(self.parameters))[chunk * BLOCK:][:BLOCK]), chunk * BLOCK
            for size, (weight, chunks) in zip(sizes, rows):
                factor = weight * (bound / size if size > bound else 1)
                total = [t + factor * value for t, value in zip(total, chunks[chunk])] if chunk in chunks else total
            weights = sum(weight for weight, chunks in rows if chunk in chunks)
            old, mean = self.momentum[at:at + len(total)], [value / weights for value in total]
            v = [before * decay + delta for before, delta in zip(old, mean)]
            moved = [p - (delta + now * decay) * rate for p, delta, now in zip(self.parameters[at:], mean, v)]
            require(all(map(math.isfinite, moved + v)), 'not-finite')
            self.momentum[at:at + len(v)], self.parameters[at:at + len(v)] = f32(v), f32(moved)
        return min(bound, there[len(there) // 2]) if there else 0

    def advance(self, digest, o, seen, contributed, joins):
        """Makes the ledger of the next round."""
        r, old, final = self.round, self.ledger, o['result'] == 'final'
        finals = (old['finals'] + [r] * final)[-max(self.spec['liveRounds'] + 1, self.spec['absentRounds']):]
        since = finals[-self.spec['absentRounds']] if len(finals) >= self.spec['absentRounds'] else -1
        left, rows = {leave['key'] for leave in o['leaves']}, []
        for key, tip, joined, last, _, seat in self.members:
            if tip is None:
                seat = seat if r == 0 and key in joins else -1
            elif seat < 0 and key in contributed:
                seat = r + 2
            rows.append([key, tip or joins.get(key, {}).get('tip'), joined, r if key in seen else last, last, seat])
        rows += [[key, join['tip'], r + 1, -1, -1, -1] for key, join in joins.items() if key not in self.sends]
        stay = [row for row in sorted(rows) if row[0] not in left and not (row[2] <= since and row[3] < since)]
        grown = min(o['rowSize'], 1.1 * max(old['rowSizes'])) if len(old['rowSizes']) == 8 else o['rowSize']
        self.ledger = {**old, 'round': r + 1, 'steps': old['steps'] + final, 'finals': finals, 'members': stay,
                       'mixed': {'entropy': self.entropy.hex(), 'reveal': o['reveal']},
                       'rowSizes': (old['rowSizes'] + [grown] * (o['rowSize'] > 0))[-8:]}
        reveal = key32(o['reveal'])
        self.entropy = H('nostrain/entropy/1', key32(self.id), u32(r + 1), self.entropy, bytes([len(reveal)]), reveal, b'\0')
        self.left.update({key: r for key in left})
        self.parent, self.digests[digest] = digest, r
        self.enter()

def follow(path):
    try:
        run = Run(Archive(path))
        while run.next():
            pass
        return {'run': run.id, 'rounds': run.round, 'outcome': run.parent, 'modelRoot': run.root}
    except (Refused, ValueError, KeyError, TypeError, struct.error) as why:
        return {'refused': str(why) if isinstance(why, Refused) else f'malformed {why!r}'}

if __name__ == '__main__':
    reports = [follow(path) for path in sys.argv[1:]]
    print('\n'.join(map(json.dumps, reports)))
    sys.exit(any('refused' in report for report in reports))
