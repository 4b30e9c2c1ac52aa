"""
Follows certified training runs from their archives and verifies every round, written from
docs/nip.md alone: python3 follow.py run.jsonl [other.jsonl ...]. It refuses what it does not
follow: models other than gpt, recovery epochs, fault proofs, features that the page does not have.
Prints one line of JSON for each archive; exit code 1: it refuses one.
"""

import base64, json, math, re, struct, sys
from hashlib import sha256

import coincurve, numpy, rfc8785

CHUNK, BLOCK, M32 = 45056, 4096, 0xFFFFFFFF
u32, le32, key32 = struct.Struct('>I').pack, struct.Struct('<I').pack, bytes.fromhex
JOIN, jcs = ('after', 'tip', 'evidence', 'features'), rfc8785.dumps


class Refused(Exception):
    """A run that breaks a rule; the first word is the reason."""


def require(condition, reason, detail=''):
    if not condition:
        raise Refused(f'{reason} {detail}'.strip())


def H(*parts):
    return sha256(b''.join(p.encode() if isinstance(p, str) else p for p in parts)).digest()


def verify(event):
    names = 'pubkey', 'created_at', 'kind', 'tags', 'content'
    id = H(jcs([0, *map(event.get, names)]))
    require(event.get('id', id.hex()) == id.hex(), 'bad-id', id.hex())
    key = coincurve.PublicKeyXOnly(key32(event['pubkey']))
    require(key.verify(key32(event['sig']), id), 'bad-signature', id.hex())


def tags(event, name):
    return [tag[1] for tag in event['tags'] if tag[0] == name]


def scopes(kind, content):
    """The tags that repeat members of the content."""
    run, named = content['run'], {7810: 'root', 7813: 'digest', 7814: 'digest'}.get(kind)
    of_round = [['s', f"{run}/{content['round']}"], ['x', content[named]]] if named else []
    return [['s', run], *of_round]


def content_of(event):
    """The content; None if the event has not the form of its kind."""
    try:
        content, tagged = json.loads(event['content']), [t for t in event['tags'] if t[0] in 'sx']
        is_canonical = jcs(content).decode() == event['content'] and len(jcs(event)) <= 131072
        return content if is_canonical and tagged == scopes(event['kind'], content) else None
    except (ValueError, KeyError, TypeError):
        return None


def tree_root(data):
    parts = [data[i : i + CHUNK] for i in range(0, len(data), CHUNK)]
    level = [H('nostrain:leaf:', part) for part in parts]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [H('nostrain:node:', *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return H('nostrain:root:', struct.pack('<IQ', len(parts), len(data)), *level).hex()


def dense(letters):
    alphabet, out = [chr(code) for code in range(33, 127) if chr(code) not in '"&<>\\'], b''
    for at in range(0, len(letters), 26):
        digits = map(alphabet.index, letters[at : at + 26])
        out += sum(digit * 89 ** (25 - i) for i, digit in enumerate(digits)).to_bytes(21, 'big')
    return out


def root_mean_square(values):
    """cumsum adds value to value; sum of numpy would add in another order."""
    squares = numpy.square(values, dtype=float)
    return math.sqrt(numpy.cumsum(squares)[-1] / len(squares)) if len(squares) else 0.0


def philox(key, a, b, c, d):
    """Philox4x32-10: the four words of a block; of each block if a word of the counter varies."""
    k0, k1 = key
    for _ in range(10):
        high, low = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = low >> 32 ^ b ^ k0, low & M32, high >> 32 ^ d ^ k1, high & M32
        k0, k1 = k0 + 0x9E3779B9 & M32, k1 + 0xBB67AE85 & M32
    return a, b, c, d


def first_parameters(t):
    require(t['model'] in ('gpt', 'char-gpt'), 'unknown-model', t['model'])
    d, f, v = t['width'], t['ffn'], 256 if t['tokens'] == 'bytes' else 95
    counts = {'embedding.tokens.weight': v * d, 'embedding.positions.weight': t['context'] * d}
    counts |= {'head.weight': d * v, 'norm.weight': d, 'norm.bias': d}
    for block in (f'blocks.{i}.' for i in range(t['layers'])):
        for part, inner, n, k in ('attention.', 'qkv', 3 * d, d), ('feedforward.', 'hidden', f, f):
            for name, rows, columns in ('norm', 1, d), (inner, d, n), ('output', k, d):
                counts[f'{block}{part}{name}.weight'] = rows * columns
                counts[f'{block}{part}{name}.bias'] = columns
    values, deviation = [], math.sqrt(8 * (2**32 - 1) / 12)
    for name, count in sorted(counts.items()):
        fields = b'nostrain/initial', str(t['seed']).encode(), name.encode()
        key = struct.unpack('<8I', H(*(le32(len(field)) + field for field in fields)))[:2]
        words = philox(key, numpy.arange(count, dtype='u8'), 0, 0, 0)
        total = sum((word >> 16) + (word & 0xFFFF) for word in words).astype(float)
        is_constant = name.endswith(('norm.weight', '.bias'))
        constant = numpy.full(count, float(name.endswith('.weight')))
        values.append(constant if is_constant else (total - 262140) / deviation * 0.02)
    return numpy.concatenate(values).astype('<f4')


def decode_trellis(codes, length, key, counter):
    """The values without their scale, which is exact before and after the rotation."""
    bits = numpy.unpackbits(numpy.frombuffer(codes, 'u1'), bitorder='little')
    padded = numpy.concatenate([numpy.zeros(9, 'u8'), bits])
    states = sum(padded[9 - i : 9 - i + len(bits)] << i for i in range(10))
    i, first = numpy.arange(length), numpy.arange(len(bits)) * length // len(bits)
    t = numpy.searchsorted(first, i, 'right') - 1
    m = 0x9E3779B1 * states[t] + 0x85EBCA6B * (i - first[t]).astype('u8') & M32
    h = 0x7FEB352D * (m ^ m >> 16) & M32
    values = sum(h >> 8 * byte & 255 for byte in range(4)).astype(float) - 510
    levels = length.bit_length() - 1
    for _ in range(levels):  # neighbours' sums, then differences, are neighbours of the next level
        values = numpy.concatenate([values[::2] + values[1::2], values[::2] - values[1::2]])
    words = philox(key, *counter, (i // 128).astype('u8'), 0)
    signs = 1 - 2.0 * (numpy.choose(i % 128 // 32, words) >> (i % 32).astype('u8') & 1)
    return values * 2.0 ** -(levels // 2) * signs


class Run:
    def __init__(self, path):
        self.events, self.parts, specs = {}, {}, set()
        for event in map(json.loads, open(path, encoding='utf-8')):
            verify(event)
            if event['kind'] == 37810:
                specs.add((event['content'], *tags(event, 'd')))
            elif event['kind'] == 7811:
                at = *tags(event, 'x'), *tags(event, 'index')
                self.parts[at] = base64.b64decode(event['content'])
            else:
                self.events[event['id']] = event, content_of(event)
        ((text, self.id),) = specs
        self.spec, self.parent, self.name = json.loads(text), self.id, H(self.id)
        require(H(text).hex() == self.id and jcs(self.spec) == text.encode(), 'other-run')
        unknown = set(self.spec['features']) - {'trust', 'address', 'places', 'telemetry'}
        require(not unknown, 'unknown-feature', ' '.join(sorted(unknown)))
        self.digests, self.left, self.signers = {self.id: -1}, {}, {}
        self.parameters = first_parameters(self.spec['training'])
        self.momentum = numpy.zeros_like(self.parameters)
        members = [[key, None, 0, -1, -1, 0] for key in sorted(self.spec['founders'])]
        self.ledger = {'round': 0, 'steps': 0, 'finals': [], 'rowSizes': [], 'members': members}
        self.ledger |= {'mixed': None, 'faulted': [], 'ballots': None}
        self.entropy = H('nostrain/entropy/1', key32(self.id))
        self.enter()

    def enter(self):
        """Derives who sits in the round and who sends which chunks."""
        self.round, self.members = r, members = self.ledger['round'], self.ledger['members']
        self.root = tree_root(self.parameters.tobytes() + self.momentum.tobytes())
        live, training = self.spec['liveRounds'], self.spec['training']
        since = ([-1] * live + [final for final in self.ledger['finals'] if final < r - 1])[-live]
        eligible = []
        for key, tip, joined, _, seen, seat in members:
            is_live = seen >= since and (joined == 0 or seen >= joined)
            eligible += [key] * bool(r == 0 or is_live and tip and 0 <= seat <= r)
        # a higher lot has a lower score; the first 64 binary digits of two logarithms never agree
        seed = H('nostrain/committee/1', key32(self.id), u32(r), u32(0), self.entropy)
        lots = {key: H(b'nostrain/draw/1'.ljust(32, b'\0'), seed, key32(key)) for key in eligible}
        seats = self.spec['committee']['size']
        self.committee = sorted(eligible, key=lots.get, reverse=True)[:seats]
        keys = u32(len(self.committee)), *map(key32, self.committee)
        fields = key32(self.id), u32(r), u32(0), key32(self.parent), *keys
        self.ctx = H('nostrain/ctx/1', *fields).hex()
        f, n = training['fragments'], -(-len(self.parameters) // BLOCK)
        moving = range(-(-(r % f) * n // f), -(-(r % f + 1) * n // f))
        self.roster, self.sends = None, {row[0]: moving for row in members}
        if training['owners'] > 0:
            self.assign(moving, training['owners'], eligible)

    def assign(self, moving, rho, owners):
        """Gives each member the chunks that it owns or sends in addition."""
        fields, c = self.name + le32(self.round) + self.entropy, len(moving)
        keys = le32(len(owners)), *map(key32, owners)
        self.roster = H('nostrain:roster:', fields, le32(rho), b'\1', *keys).hex()
        seeds = {key: H('nostrain:owner:', fields, key32(key)) for key in owners}
        share, rest = divmod(min(rho, len(owners)) * c, len(owners))
        more = sorted(owners, key=seeds.get, reverse=True)[:rest]
        seats = {key: share + (key in more) for key in owners}
        sends = {row[0]: [] for row in self.members}
        for j in range(c):
            score = {key: H(seeds[key], le32(j // 8))[j % 8 * 4 :][:4] for key in owners}
            score |= {key: b'\xff' * 5 for key in owners if seats[key] == c - j}
            free = [key for key in owners if seats[key]]
            for key in sorted(free, key=score.get, reverse=True)[: min(rho, len(owners))]:
                sends[key].append(moving[j])
                seats[key] -= 1
        others = [key for key in sends if key not in seeds]
        dealt = max(1, min(rho, len(sends)) * c * len(others) // len(sends))
        a, b = struct.unpack_from('>2I', H('nostrain:beside:', fields))
        for p, key in enumerate(others):
            q = (p + b) % len(others)
            mine = range(q * dealt // len(others), (q + 1) * dealt // len(others))
            sends[key] = sorted(moving[(a + i) % c] for i in mine)
        self.sends = sends

    def of(self, kind, **members):
        """Events of a kind whose contents have these members, each with its content."""
        for event, content in self.events.values():
            if event['kind'] == kind and content and members.items() <= content.items():
                yield event, content

    def body(self, root, size):
        """The bytes of a root, checked as a whole; None unless all chunks are here."""
        data = b''.join(self.parts.get((root, str(i)), b'') for i in range(-(-size // CHUNK)))
        return data if len(data) == size and tree_root(data) == root else None

    def outcomes(self, round_, parent):
        """Proposed outcomes of a round, by digest."""
        for _, p in self.of(7814, run=self.id, round=round_, parent=parent):
            body = p['body'].encode() if 'body' in p else self.body(p['root'], p['bytes']) or b''
            if H('nostrain/outcome/2', body).hex() == p['digest'] and jcs(json.loads(body)) == body:
                yield p['digest'], json.loads(body)

    def is_quorum(self, keys, among):
        n = len(among)
        quorum = (2 * n // 3 if self.spec['committee']['quorum'] == 'bft' else n // 2) + 1
        return len(keys) >= quorum and keys <= set(among)

    def restored(self, kind, key, content, listed):
        """Checks the signature of an event that an outcome lists."""
        content, expires = {'run': self.id, **content}, ['expiration', str(listed['expiration'])]
        tags = [['t', 'nostrain'], *scopes(kind, content), expires]
        tags += [['nonce', *listed['nonce']]] if listed.get('nonce') else []
        signed = {'sig': listed['sig'], 'created_at': listed['createdAt'], 'tags': tags}
        verify({'pubkey': key, 'kind': kind, 'content': jcs(content).decode(), **signed})

    def listed_signers(self, digest, votes):
        """Who signed the votes that a later outcome lists; none if they do not certify."""
        cast = {name: votes[name] for name in ('attempt', 'view', 'ctx')}
        cast.update(round=self.round, parent=self.parent, digest=digest, justify=-1, step='commit')
        keys = {self.members[row[0]][0] for row in votes['rows']}
        for index, created, expires, sig, unlisted, *nonce in votes['rows']:
            listed = {'createdAt': created, 'expiration': expires, 'nonce': sum(nonce, [])}
            listed['sig'] = base64.b64decode(sig).hex()
            content = {**cast, 'unlisted': unlisted} if unlisted else cast
            self.restored(7813, self.members[index][0], content, listed)
        here = (votes['attempt'], votes['ctx'], len(keys)) == (0, self.ctx, len(votes['rows']))
        return keys if here and self.is_quorum(keys, self.committee) else set()

    def next(self):
        """Verifies the next round; False after the last one."""
        certified, here = {}, {'parent': self.parent, 'ctx': self.ctx, 'attempt': 0}
        for digest, outcome in self.outcomes(self.round, self.parent):
            groups = {}
            for event, vote in self.of(7813, digest=digest, step='commit', **here):
                if event['pubkey'] in self.committee:
                    groups.setdefault(vote['view'], set()).add(event['pubkey'])
            for later, o in self.outcomes(self.round + 1, digest):
                groups[later] = self.signers[later] = self.listed_signers(digest, o['votes'])
            if any(self.is_quorum(keys, self.committee) for keys in groups.values()):
                certified[digest] = outcome
        if not certified:
            is_last = all(p['round'] <= self.round for _, p in self.of(7814, run=self.id))
            require(is_last, 'not-certified', f'round {self.round}')
            return False
        require(len(certified) == 1, 'fork', f'round {self.round}')
        self.apply(*certified.popitem())
        return True

    def apply(self, digest, o):
        """Checks an outcome against the state and takes its step."""
        r, tips = self.round, {row[0]: row[1] for row in self.members}
        state = {'run': self.id, 'round': r, 'parent': self.parent, 'base': self.root}
        require(state.items() <= o.items(), 'wrong-base')
        require(not o['ballots'] and not o['faults'], 'unknown-feature', 'recovery or fault')
        signers = self.signers.get(digest, set())
        require(signers if r else o['votes'] is None, 'no-quorum')
        require(o['proposer'] in self.committee, 'not-a-member', 'the proposer has no seat')
        link = key32(o['reveal'])
        for _ in range(r + 1 if r else 0):
            link = H('nostrain/reveal/1', link)
        require(link.hex() == (tips[o['proposer']] if r else ''), 'wrong-reveal')
        joins = self.joined(o['joins'], tips)
        for leave in o['leaves']:
            rows = [row for row in self.members if row[0] == leave['key']]
            require(rows and rows[0][2] <= leave['last'] <= r, 'wrong-leave', leave['key'])
            self.restored(7818, leave['key'], {'type': 'leave', 'last': leave['last']}, leave)
        for index, manifest, reason in o['rejected']:
            try:
                why = self.contribution(index, manifest) and 'valid'
            except Refused as refused:
                why = str(refused)
            require(why == reason, 'untrue-reason', f'{manifest} is {why}')
        rows = list(struct.iter_unpack('>HB32s', base64.b64decode(o['accepted'])))
        require([row[0] for row in rows] == sorted({row[0] for row in rows}), 'malformed')
        require((o['result'] == 'final') == bool(rows), 'wrong-result')
        sent = {self.members[i][0]: self.contribution(i, id.hex()) for i, _, id in rows}
        earning = {key for key, (_, _, values) in sent.items() if values.any()}
        empty = [2 * (key not in earning) for key in sent]
        require([flags for _, flags, _ in rows] == empty, 'wrong-empty')
        require(o['rowSize'] == self.step(list(sent.values())), 'wrong-rowSize')
        self.advance(digest, o, {*sent, *signers} if rows else set(), earning, joins)
        require(o['modelRoot'] == self.root, 'wrong-modelRoot')
        root = H('nostrain/ledger/2', jcs(self.ledger)).hex()
        require(o['ledgerRoot'] == root, 'wrong-ledgerRoot')

    def joined(self, listed, tips):
        """The joins of an outcome by key, all checked."""
        r, joins = self.round, {join['key']: join for join in listed}
        for key, join in joins.items():
            after, features = self.digests.get(join['after'], -2), join.get('features', {})
            require(after >= max(r - 16, self.left.get(key, -1)), 'old-join', key)
            require(key not in self.ledger['faulted'] and not tips.get(key), 'join-of-member', key)
            require(self.admits(key, features), 'join-not-admitted', key)
            content = {name: join[name] for name in JOIN if join.get(name)}
            self.restored(7818, key, {'type': 'join', **content}, join)
        limit = min(1024, self.spec['joinsPerRound'] or max(1, len(tips) // 4))
        new = set(joins) - set(tips)
        require(len(joins) == len(listed) and len(new) <= limit, 'too-many-joins')
        require(r or self.is_quorum(set(joins) - new, tips), 'too-few-founders')
        return joins

    def admits(self, key, features):
        """Whether the spec names a key or the events in its join lead from an anchor to it."""
        rule, founder = self.spec['admission'], key in self.spec['founders']
        if rule['kind'] != 'trust':
            named = rule['kind'] == 'open' or founder or key in rule.get('keys', [])
            return named and not features
        proof = features['trust']['proof']
        if founder or not 1 <= len(proof) <= rule['hops'] or len(jcs(proof).decode()) > 12288:
            return founder and proof == []
        authors = [event['pubkey'] for event in proof]
        for event, target in zip(proof, [*authors[1:], key]):
            verify(event)
            named, kind = tags(event, 'p'), 3
            if rule['by'] == 'assertions':
                ranks = map(str, range(rule['rank'], 101))
                named, kind = tags(event, 'd') * (tags(event, 'rank')[0] in ranks), 30382
            plain = len(event) == 7 and event['created_at'] >= rule['since']
            if not plain or event['kind'] != kind or target not in named:
                return False
        return authors[0] in rule['anchors']

    def contribution(self, index, manifest):
        """Weight, mask and values of a contribution; Refused with the reason if it is not valid."""
        require(manifest in self.events, 'missing', manifest)
        event, m = self.events[manifest]
        author, limits = event['pubkey'], self.spec['limits']
        require(self.members[index][0] == author, 'other-author', manifest)
        require(m is not None and event['kind'] == 7810, 'malformed')
        require(m['run'] == self.id, 'other-run')
        require(m['round'] == self.round, 'wrong-round')
        require('parent' in m, 'uncommitted')
        require((m['parent'], m['base']) == (self.parent, self.root), 'base-mismatch')
        require(m['bytes'] <= limits['payloadBytes'], 'too-large')
        require(m.get('roster') == self.roster, 'other-roster')
        payload = self.body(m['root'], m['bytes'])
        if 'payload' in m:
            payload = base64.b64decode(m['payload'])
        elif 'dense' in m:
            payload = dense(m['dense'])[: m['bytes']]
        require(payload is not None, 'missing', f'payload of {manifest}')
        require(H(payload).hex() == m['hash'], 'malformed')
        equal = self.spec['training']['weights'] == 'equal'
        weight = 1 if equal else min(limits['weightCap'], m['examples'])
        return weight, *self.decode(payload, m['codec'], author)

    def decode(self, payload, codec, author):
        """Which values an author sends, and the values."""
        require(re.fullmatch('int8|trellis(-[0-9]+)?', codec), 'unknown-codec')
        require(payload[:5] == b'NSPL\x01' and len(payload) >= 84, 'malformed')
        code, kept, round_, size, count, *names = struct.unpack_from('<BHIII32s32s', payload, 5)
        chunks, roster = self.sends[author], key32(self.roster or '00' * 32)
        shape = size == len(self.parameters), names[1] == roster, count == len(chunks)
        reasons = 'other-run', 'wrong-round', 'wrong-shape', 'other-roster', 'wrong-shape'
        for reason, holds in zip(reasons, (names[0] == self.name, round_ == self.round, *shape)):
            require(holds, reason)
        require((code, kept) == (1, 0) or code == 36 and 1 <= kept <= 1024, 'unknown-codec')
        require(codec == ('int8' if code == 1 else f'trellis-{kept}'), 'malformed')
        halves = zip(struct.unpack_from('<2I', self.name), struct.unpack_from('<2I', key32(author)))
        key, at = tuple(a ^ b for a, b in halves), 84
        sent, values = numpy.zeros(size, bool), numpy.zeros(size)
        for chunk in chunks:
            n, place = min(BLOCK, size - chunk * BLOCK), slice(chunk * BLOCK, (chunk + 1) * BLOCK)
            length = 1 << (n - 1).bit_length()
            width = n if code == 1 else max(1, (2 * kept * length + 4096) // 8192)
            bits, codes = payload[at : at + 2], payload[at + 2 : at + 2 + width]
            at += 2 + width
            require(at <= len(payload), 'malformed')
            (scale,) = struct.unpack('<f', b'\0\0' + bits)
            bits, largest = int.from_bytes(bits, 'little'), 0x7F7F if code == 1 else 0x7780
            require(0x80 <= bits <= largest or bits == 0 and not any(codes), 'malformed')
            q = numpy.frombuffer(codes, 'i1').astype(float)
            full = min(q) > -128 and (bits == 0 or max(abs(q)) == 127)
            require(code == 36 or full, 'malformed')
            if code == 36:
                q = decode_trellis(codes, length, key, (round_, chunk))[:n]
            values[place], sent[place] = scale * q, True
        require(at == len(payload), 'malformed')
        return sent, values

    def step(self, rows):
        """Bounds the contributions, takes the outer step and returns their typical size."""
        sizes = [root_mean_square(values[sent]) for _, sent, values in rows]
        there = sorted(size for size, (_, sent, _) in zip(sizes, rows) if sent.any())
        c, past = self.spec['limits']['normBoundC'], self.ledger['rowSizes']
        middle, usual = (sorted(x)[(len(x) - 1) // 2] if x else 0 for x in (there, past))
        most = (4 * max(past) if len(past) < 8 else 2 * usual) if past else math.inf
        bound = min(most, c * middle if len(there) >= 3 else max(usual, middle))
        if len(there) < 3 and not past:
            bound = root_mean_square(self.parameters) or 1000
        bound = bound if c > 0 else math.inf
        total, weights = numpy.zeros((2, len(self.parameters)))
        for size, (weight, sent, values) in zip(sizes, rows):
            total += weight * (bound / size if size > bound else 1) * values
            weights += weight * sent
        at, training = weights > 0, self.spec['training']
        mean, decay = total[at] / weights[at], numpy.float64(training['momentum'])
        v = self.momentum[at] * decay + mean
        self.parameters[at] -= (mean + v * decay) * training['outerLearningRate']
        self.momentum[at] = v
        require(numpy.isfinite([self.parameters, self.momentum]).all(), 'not-finite')
        return min(bound, there[len(there) // 2]) if there else 0

    def advance(self, digest, o, seen, earning, joins):
        """Makes the ledger of the next round."""
        r, old, absent = self.round, self.ledger, self.spec['absentRounds']
        final = o['result'] == 'final'
        finals = (old['finals'] + [r] * final)[-max(self.spec['liveRounds'] + 1, absent) :]
        since = ([-1] * absent + finals)[-absent]
        left, rows = {leave['key'] for leave in o['leaves']}, []
        for key, tip, joined, last, _, seat in self.members:
            if tip is None:
                seat = seat if r == 0 and key in joins else -1
            elif seat < 0 and key in earning:
                seat = r + 2
            tip = tip or joins.get(key, {}).get('tip')
            rows.append([key, tip, joined, r if key in seen else last, last, seat])
        new = [key for key in joins if key not in self.sends]
        rows += [[key, joins[key]['tip'], r + 1, -1, -1, -1] for key in new]
        stay = [row for row in sorted(rows) if row[0] not in left and not row[2] <= since > row[3]]
        most = 1.1 * max(old['rowSizes']) if len(old['rowSizes']) == 8 else math.inf
        sizes = (old['rowSizes'] + [min(o['rowSize'], most)] * (o['rowSize'] > 0))[-8:]
        old['mixed'] = {'entropy': self.entropy.hex(), 'reveal': o['reveal']}
        old.update(
            round=r + 1, steps=old['steps'] + final, finals=finals, members=stay, rowSizes=sizes
        )
        reveal = key32(o['reveal'])
        fields = key32(self.id), u32(r + 1), self.entropy, bytes([len(reveal)]), reveal, b'\0'
        self.entropy = H('nostrain/entropy/1', *fields)
        self.left.update({key: r for key in left})
        self.parent, self.digests[digest] = digest, r
        self.enter()


def follow(path):
    try:
        run = Run(path)
        while run.next():
            pass
        return {'run': run.id, 'rounds': run.round, 'outcome': run.parent, 'modelRoot': run.root}
    except (Refused, ValueError, LookupError, TypeError, struct.error) as why:
        return {'refused': str(why) if isinstance(why, Refused) else f'malformed {why!r}'}


if __name__ == '__main__':
    numpy.seterr(all='ignore')
    reports = [follow(path) for path in sys.argv[1:]]
    print('\n'.join(map(json.dumps, reports)))
    sys.exit(any('refused' in report for report in reports))
