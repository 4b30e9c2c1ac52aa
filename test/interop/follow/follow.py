"""
Follows certified training runs from their archives and verifies every round, written from
docs/nip.md alone: python3 follow.py run.jsonl [other.jsonl ...]. It does not follow models other
than gpt, recovery epochs, fault proofs and features that the page does not have; it refuses them.
Prints one line of JSON for each archive; exit code 1: it refuses one.
"""
import base64, json, math, re, struct, sys

import numpy

from standards import H, Refused, jcs, key32, philox, require, tags, verify

CHUNK, BLOCK, M32 = 45056, 4096, 0xFFFFFFFF
u32, le32 = struct.Struct('>I').pack, struct.Struct('<I').pack

def content_of(event):
    """The content, with its tags checked; None if the event has not the form of its kind."""
    try:
        content, scopes, hashes = json.loads(event['content']), [], []
        if event['kind'] in (7810, 7813, 7814):
            scopes = [f"{content['run']}/{content['round']}"]
            hashes = [content['root' if event['kind'] == 7810 else 'digest']]
        tagged = tags(event, 's') == [content['run'], *scopes] and tags(event, 'x') == hashes
        canonical = jcs(content) == event['content'] and len(jcs(event)) <= 131072
        return content if canonical and tagged else None
    except (ValueError, KeyError, TypeError):
        return None

def tree_root(data):
    parts = [data[i:i + CHUNK] for i in range(0, len(data), CHUNK)]
    level = [H('nostrain:leaf:', part) for part in parts]
    while len(level) > 1:
        pairs = [level[i:i + 2] for i in range(0, len(level), 2)]
        level = [H('nostrain:node:', *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    sizes = le32(len(parts)) + struct.pack('<Q', len(data))
    return H('nostrain:root:', sizes, level[0]).hex()

class Archive:
    def __init__(self, path):
        self.events, self.contents, self.parts = {}, {}, {}
        for event in map(json.loads, open(path, encoding='utf-8')):
            require('beacon' not in event, 'unknown-feature', 'beacon')
            verify(event)
            self.events[event['id']] = event
            if event['kind'] == 7811:
                at = tags(event, 'x')[0], int(tags(event, 'index')[0])
                self.parts[at] = base64.b64decode(event['content'])
            elif event['kind'] != 37810:
                self.contents[event['id']] = content_of(event)

    def of(self, kind, **members):
        """Events of a kind whose contents have these members, each with its content."""
        for id, content in self.contents.items():
            found = content is not None and self.events[id]['kind'] == kind
            if found and all(content.get(name) == value for name, value in members.items()):
                yield self.events[id], content

    def body(self, root, size):
        """The bytes of a root, checked as a whole; None unless all chunks are here."""
        data = b''.join(self.parts.get((root, i), b'') for i in range(-(-size // CHUNK)))
        return data if len(data) == size and tree_root(data) == root else None

def dense(letters):
    alphabet, out = [chr(code) for code in range(33, 127) if chr(code) not in '"&<>\\'], b''
    for at in range(0, len(letters), 26):
        digits = map(alphabet.index, letters[at:at + 26])
        out += sum(digit * 89 ** (25 - i) for i, digit in enumerate(digits)).to_bytes(21, 'big')
    return out

def f32(values):
    return values.astype('<f4').astype(float)

def root_mean_square(values):
    """The sum goes from value to value; sum() of numpy would add in another order."""
    return math.sqrt(numpy.cumsum(values * values)[-1] / len(values)) if len(values) else 0.0

def tensors(t):
    """Shape of each tensor by its name."""
    require(t['model'] in ('gpt', 'char-gpt'), 'unknown-model', t['model'])
    d, f, v = t['width'], t['ffn'], 256 if t['tokens'] == 'bytes' else 95
    block = {'attention.norm': [d], 'attention.qkv': [d, 3 * d], 'attention.output': [d, d],
             'feedforward.norm': [d], 'feedforward.hidden': [d, f], 'feedforward.output': [f, d]}
    shapes = {'embedding.tokens.weight': [v, d], 'embedding.positions.weight': [t['context'], d],
              'head.weight': [d, v], 'norm.weight': [d], 'norm.bias': [d]}
    for name, shape in block.items():
        for at in (f'blocks.{i}.{name}' for i in range(t['layers'])):
            shapes.update({at + '.weight': shape, at + '.bias': shape[-1:]})
    return shapes

def first_parameters(training):
    values, deviation = [], math.sqrt(8 * (2**32 - 1) / 12)
    for name, shape in sorted(tensors(training).items()):
        count = math.prod(shape)
        fields = b'nostrain/initial', str(training['seed']).encode(), name.encode()
        key = H(*(part for field in fields for part in (le32(len(field)), field)))
        words = philox(struct.unpack_from('<2I', key), numpy.arange(count, dtype='u8'), 0, 0, 0)
        total = sum((word >> 16) + (word & 0xFFFF) for word in words).astype(float)
        is_constant = name.endswith(('norm.weight', '.bias'))
        constant = numpy.full(count, float(name.endswith('.weight')))
        values.append(constant if is_constant else (total - 262140) / deviation * 0.02)
    return f32(numpy.concatenate(values))

def decode_trellis(codes, scale, length, key, counter):
    bits = numpy.unpackbits(numpy.frombuffer(codes, 'u1'), bitorder='little')
    padded = numpy.concatenate([numpy.zeros(9, 'u8'), bits])
    states = sum(padded[9 - i:9 - i + len(bits)] << i for i in range(10))
    first = numpy.arange(len(bits) + 1) * length // len(bits)
    t = numpy.repeat(numpy.arange(len(bits)), numpy.diff(first))
    j = (numpy.arange(length) - first[t]).astype('u8')
    m = (0x9E3779B1 * states[t] + 0x85EBCA6B * j) & M32
    h = 0x7FEB352D * (m ^ m >> 16) & M32
    values = scale * (sum(h >> 8 * i & 255 for i in range(4)).astype(float) - 510)
    levels = length.bit_length() - 1
    for _ in range(levels):  # neighbours' sums, then differences, are neighbours of the next level
        a, b = values[::2], values[1::2]
        values = numpy.concatenate([a + b, a - b])
    words = philox(key, *counter, numpy.arange(-(-length // 128), dtype='u8'), 0)
    i = numpy.arange(length)
    signs = numpy.stack(words, 1).ravel()[i // 32] >> (i % 32).astype('u8') & 1
    return values * 2.0 ** -(levels // 2) * numpy.where(signs, -1.0, 1.0)

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
        require(at + 2 + width <= len(payload), 'malformed')
        bits, codes = int.from_bytes(payload[at:at + 2], 'little'), payload[at + 2:at + 2 + width]
        at += 2 + width
        scale = struct.unpack('<f', le32(bits << 16))[0]
        largest = 0x7F7F if code == 1 else 0x7780
        require(0x80 <= bits <= largest or bits == 0 and not any(codes), 'malformed')
        if code == 36:
            out[chunk] = decode_trellis(codes, scale, length, key, (round_, chunk))[:n]
            continue
        q = numpy.frombuffer(codes, 'i1').astype(float)
        require(min(q) > -128 and (bits == 0 or max(abs(q)) == 127), 'malformed')
        out[chunk] = scale * q
    require(at == len(payload), 'malformed')
    return out

class Run:
    def __init__(self, archive):
        specs = [event for event in archive.events.values() if event['kind'] == 37810]
        specs = {(event['content'], *tags(event, 'd')) for event in specs}
        require(len(specs) == 1, 'no-spec', f'{len(specs)} specs')
        ((text, named),) = specs
        self.id, self.spec, self.archive = H(text).hex(), json.loads(text), archive
        require(self.id == named and jcs(self.spec) == text, 'other-run')
        unknown = set(self.spec['features']) - {'trust', 'address', 'places', 'telemetry'}
        require(not unknown, 'unknown-feature', ' '.join(sorted(unknown)))
        self.training, self.name, self.parent = self.spec['training'], H(self.id), self.id
        self.digests, self.left, self.signers = {self.id: -1}, {}, {}
        self.parameters = first_parameters(self.training)
        self.momentum = numpy.zeros(len(self.parameters))
        members = [[key, None, 0, -1, -1, 0] for key in sorted(self.spec['founders'])]
        self.ledger = {'round': 0, 'steps': 0, 'mixed': None, 'members': members, 'faulted': [],
                       'finals': [], 'rowSizes': [], 'ballots': None}
        self.entropy = H('nostrain/entropy/1', key32(self.id))
        self.enter()

    def enter(self):
        """Derives who sits in the round and who sends which chunks."""
        self.round, self.members = r, members = self.ledger['round'], self.ledger['members']
        state = numpy.concatenate([self.parameters, self.momentum])
        self.root, live = tree_root(state.astype('<f4').tobytes()), self.spec['liveRounds']
        last = [final for final in self.ledger['finals'] if final < r - 1][-live:]
        since = last[0] if len(last) == live else -1
        self.eligible = [key for key, tip, joined, _, seen, seat in members
                         if r == 0 or tip and 0 <= seat <= r and seen >= since
                         and (joined == 0 or seen >= joined)]
        size = self.spec['committee']['size']
        self.committee = sorted(self.eligible, key=self.score)[:size]
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
        keys = [key32(key) for key in owners]
        parts = fields, le32(rho), b'\1', le32(len(owners)), *keys
        self.roster = H('nostrain:roster:', *parts).hex()
        seeds = {key: H('nostrain:owner:', fields, key32(key)) for key in owners}
        share, rest = divmod(each * c, len(owners))
        more = sorted(owners, key=seeds.get, reverse=True)[:rest]
        seats, owned = {key: share + (key in more) for key in owners}, {key: [] for key in owners}
        for j in range(c):
            score = {key: H(seeds[key], le32(j // 8))[j % 8 * 4:][:4] for key in owners}
            for _ in range(each):
                free = [key for key in owners if seats[key] and j not in owned[key]]
                full = [key for key in free if seats[key] == c - j]
                taker = full[0] if full else max(free, key=score.get)
                owned[taker].append(j)
                seats[taker] -= 1
        others = [key for key in self.sends if key not in seeds]
        dealt = max(1, min(rho, len(self.sends)) * c * len(others) // len(self.sends))
        a, b = struct.unpack_from('>2I', H('nostrain:beside:', fields))
        for p, key in enumerate(others):
            q = (p + b) % len(others)
            mine = range(q * dealt // len(others), (q + 1) * dealt // len(others))
            owned[key] = sorted((a + i) % c for i in mine)
        self.sends = {key: [moving[j] for j in chunks] for key, chunks in owned.items()}

    def quorum(self, n):
        return (2 * n // 3 if self.spec['committee']['quorum'] == 'bft' else n // 2) + 1

    def restored(self, kind, key, content, listed, scopes=(), x=()):
        """Checks the signature of an event that an outcome lists."""
        tagged = [['t', 'nostrain'], *(['s', each] for each in (self.id, *scopes))]
        tagged += [*(['x', each] for each in x), ['expiration', str(listed['expiration'])]]
        tagged += [['nonce', *listed['nonce']]] if listed.get('nonce') else []
        content = jcs({'run': self.id, **content})
        verify({'pubkey': key, 'kind': kind, 'content': content, 'sig': listed['sig'],
                'created_at': listed['createdAt'], 'tags': tagged})

    def listed_signers(self, digest, votes):
        """Who signed the votes that a later outcome lists; None if they do not certify."""
        cast = {name: votes[name] for name in ('attempt', 'view', 'ctx')}
        cast.update(round=self.round, parent=self.parent, digest=digest, justify=-1, step='commit')
        keys = {self.members[row[0]][0]: row for row in votes['rows'] if row[0] < len(self.members)}
        known = len(keys) == len(votes['rows']) and set(keys) <= set(self.committee)
        if not known or not self.is_quorum(votes, keys):
            return None
        for key, (_, created, expires, sig, unlisted, *nonce) in keys.items():
            listed = {'createdAt': created, 'expiration': expires, 'nonce': sum(nonce, []),
                      'sig': base64.b64decode(sig).hex()}
            content = {**cast, 'unlisted': unlisted} if unlisted else cast
            self.restored(7813, key, content, listed, [f'{self.id}/{self.round}'], [digest])
        return keys

    def is_quorum(self, cast, keys):
        enough = len(keys) >= self.quorum(len(self.committee))
        return cast['attempt'] == 0 and cast['ctx'] == self.ctx and enough

    def outcomes(self, round_, parent):
        """Proposed outcomes of a round, by digest."""
        for _, p in self.archive.of(7814, run=self.id, round=round_, parent=parent):
            body = p.get('body')
            if body is None:
                body = (self.archive.body(p['root'], p['bytes']) or b'').decode()
            if H('nostrain/outcome/2', body).hex() == p['digest'] and jcs(json.loads(body)) == body:
                yield p['digest'], json.loads(body)

    def next(self):
        """Verifies the next round; False after the last one."""
        certified, signers = {}, {}
        for digest, outcome in self.outcomes(self.round, self.parent):
            groups, named = {}, {'run': self.id, 'digest': digest, 'parent': self.parent}
            for event, vote in self.archive.of(7813, step='commit', **named):
                if event['pubkey'] in self.committee:
                    group = groups.setdefault((vote['view'], vote['ctx']), [vote, set()])
                    group[1].add(event['pubkey'])
            later = self.outcomes(self.round + 1, digest)
            listed = {each: self.listed_signers(digest, o['votes']) for each, o in later}
            signers.update(listed)
            if any(listed.values()) or any(self.is_quorum(*group) for group in groups.values()):
                certified[digest] = outcome
        if not certified:
            every = [c for kind in (7813, 7814) for _, c in self.archive.of(kind, run=self.id)]
            last = max(c['round'] for c in every)
            require(last <= self.round, 'not-certified', f'round {self.round}')
            return False
        require(len(certified) == 1, 'fork', f'round {self.round}')
        self.apply(*certified.popitem())
        self.signers = signers
        return True

    def apply(self, digest, o):
        """Checks an outcome against the state and takes its step."""
        r, tips = self.round, {row[0]: row[1] for row in self.members}
        require(not o['ballots'] and not o['faults'], 'unknown-feature', 'recovery or fault')
        require(o['base'] == self.root, 'wrong-base')
        signers = self.signers.get(digest) if r else {}
        require(signers is not None and (r > 0) == (o['votes'] is not None), 'no-quorum')
        require(o['proposer'] in self.committee, 'not-a-member', 'the proposer has no seat')
        link = key32(o['reveal'])
        for _ in range(r + 1 if r else 0):
            link = H('nostrain/reveal/1', link)
        require(link.hex() == (tips[o['proposer']] if r else ''), 'wrong-reveal')
        joins = self.joined(o['joins'], tips)
        for leave in o['leaves']:
            key, last = leave['key'], leave['last']
            joined = [row[2] for row in self.members if row[0] == key]
            require(joined and joined[0] <= last <= r, 'wrong-leave', key)
            self.restored(7818, key, {'type': 'leave', 'last': last}, leave)
        for index, manifest, reason in o['rejected']:
            try:
                why = self.contribution(index, manifest) and 'valid'
            except Refused as refused:
                why = str(refused)
            require(why == reason, 'untrue-reason', f'{manifest} is {why}')
        rows = list(struct.iter_unpack('>HB32s', base64.b64decode(o['accepted'])))
        sent, earning = {}, set()
        require([row[0] for row in rows] == sorted({row[0] for row in rows}), 'malformed')
        require((o['result'] == 'final') == bool(rows), 'wrong-result')
        for index, flags, manifest in rows:
            weight, chunks = self.contribution(index, manifest.hex())
            key, empty = self.members[index][0], not any(map(numpy.any, chunks.values()))
            require(flags == 2 * empty, 'wrong-empty', manifest.hex())
            sent[key] = weight, chunks
            earning.update([] if empty else [key])
        size = self.step(list(sent.values())) if sent else 0
        require(o['rowSize'] == size, 'wrong-rowSize')
        self.advance(digest, o, {*sent, *signers} if rows else set(), earning, joins)
        require(o['modelRoot'] == self.root, 'wrong-modelRoot')
        root = H('nostrain/ledger/2', jcs(self.ledger)).hex()
        require(o['ledgerRoot'] == root, 'wrong-ledgerRoot')

    def joined(self, listed, tips):
        """The joins of an outcome by key, all checked."""
        r, joins, new = self.round, {join['key']: join for join in listed}, 0
        for key, join in joins.items():
            after, features = self.digests.get(join['after'], -2), join.get('features', {})
            require(after >= max(r - 16, self.left.get(key, -1)), 'old-join', key)
            require(key not in self.ledger['faulted'] and not tips.get(key), 'join-of-member', key)
            require(self.admits(key, features), 'join-not-admitted', key)
            names = 'after', 'tip', 'evidence', 'features'
            content = {name: join[name] for name in names if join.get(name)}
            self.restored(7818, key, {'type': 'join', **content}, join)
            new += key not in tips
        limit = min(1024, self.spec['joinsPerRound'] or max(1, len(tips) // 4))
        require(len(joins) == len(listed) and new <= limit, 'too-many-joins')
        require(r or len(joins) - new >= self.quorum(len(tips)), 'too-few-founders')
        return joins

    def admits(self, key, features):
        """Whether the spec names a key or the events in its join lead from an anchor to it."""
        rule, founder = self.spec['admission'], key in self.spec['founders']
        if rule['kind'] != 'trust':
            named = rule['kind'] == 'open' or founder or key in rule.get('keys', [])
            return named and not features
        proof = features['trust']['proof']
        if founder or not 1 <= len(proof) <= rule['hops'] or len(jcs(proof)) > 12288:
            return founder and proof == []
        kind, name = (3, 'p') if rule['by'] == 'follows' else (30382, 'd')
        authors = [event['pubkey'] for event in proof]
        for event, target in zip(proof, [*authors[1:], key]):
            verify(event)
            require(len(event) == 7, 'malformed', event['id'])
            named, rank = tags(event, name), (tags(event, 'rank') or [''])[0]
            if event['kind'] != kind or event['created_at'] < rule['since'] or target not in named:
                return False
            if kind == 30382 and (len(named) != 1 or not re.fullmatch('0|[1-9][0-9]?|100', rank)
                                  or int(rank) < rule['rank']):
                return False
        return authors[0] in rule['anchors']

    def contribution(self, index, manifest):
        """Weight and chunks of a contribution; Refused with the reason why it does not count."""
        require(manifest in self.archive.contents, 'missing', manifest)
        m, event = self.archive.contents[manifest], self.archive.events[manifest]
        author, keys = event['pubkey'], [row[0] for row in self.members]
        require(keys[index:index + 1] == [author], 'other-author', manifest)
        require(m is not None and event['kind'] == 7810, 'malformed')
        require(m['run'] == self.id, 'other-run')
        require(m['round'] == self.round, 'wrong-round')
        require('parent' in m, 'uncommitted')
        require((m['parent'], m['base']) == (self.parent, self.root), 'base-mismatch')
        require(m['bytes'] <= self.spec['limits']['payloadBytes'], 'too-large')
        require(m.get('roster') == self.roster, 'other-roster')
        payload = self.archive.body(m['root'], m['bytes'])
        if 'payload' in m:
            payload = base64.b64decode(m['payload'])
        elif 'dense' in m:
            payload = dense(m['dense'])[:m['bytes']]
        require(payload is not None, 'missing', f'payload of {manifest}')
        require(H(payload).hex() == m['hash'], 'malformed')
        equal = self.training['weights'] == 'equal'
        weight = 1 if equal else min(self.spec['limits']['weightCap'], m['examples'])
        return weight, decode(payload, m['codec'], author, self)

    def step(self, rows):
        """Bounds the contributions, takes the outer step and returns their typical size."""
        c, past = self.spec['limits']['normBoundC'], self.ledger['rowSizes']
        empty, lower = numpy.zeros(0), lambda some: sorted(some)[-(-len(some) // 2) - 1]
        sizes = [root_mean_square(numpy.concatenate([empty, *map(chunks.get, sorted(chunks))]))
                 for _, chunks in rows]
        there = sorted(size for size, (_, chunks) in zip(sizes, rows) if chunks)
        middle = lower(there) if there else 0
        most = math.inf
        if past:
            most = 4 * max(past) if len(past) < 8 else 2 * lower(past)
        first = root_mean_square(self.parameters) or 1000
        bound = min(most, c * middle)
        if len(there) < 3:
            bound = min(most, max(lower(past), middle)) if past else min(first, max(first, middle))
        bound = bound if c > 0 else math.inf
        rate, decay = self.training['outerLearningRate'], self.training['momentum']
        for chunk in sorted({chunk for _, chunks in rows for chunk in chunks}):
            at, total, weights = slice(chunk * BLOCK, (chunk + 1) * BLOCK), 0.0, 0
            for size, (weight, chunks) in zip(sizes, rows):
                if chunk in chunks:
                    scale = bound / size if size > bound else 1
                    total, weights = total + weight * scale * chunks[chunk], weights + weight
            mean = total / weights
            v = self.momentum[at] * decay + mean
            self.parameters[at] = f32(self.parameters[at] - (mean + v * decay) * rate)
            self.momentum[at] = f32(v)
        finite = numpy.isfinite(self.parameters).all() and numpy.isfinite(self.momentum).all()
        require(finite, 'not-finite')
        return min(bound, there[len(there) // 2]) if there else 0

    def advance(self, digest, o, seen, contributed, joins):
        """Makes the ledger of the next round."""
        r, old, absent = self.round, self.ledger, self.spec['absentRounds']
        final = o['result'] == 'final'
        finals = (old['finals'] + [r] * final)[-max(self.spec['liveRounds'] + 1, absent):]
        since = finals[-absent] if len(finals) >= absent else -1
        left, rows = {leave['key'] for leave in o['leaves']}, []
        for key, tip, joined, last, _, seat in self.members:
            if tip is None:
                seat = seat if r == 0 and key in joins else -1
            elif seat < 0 and key in contributed:
                seat = r + 2
            tip = tip or joins.get(key, {}).get('tip')
            rows.append([key, tip, joined, r if key in seen else last, last, seat])
        new = [key for key in joins if key not in self.sends]
        rows += [[key, joins[key]['tip'], r + 1, -1, -1, -1] for key in new]
        stay = [row for row in sorted(rows) if row[0] not in left and not row[2] <= since > row[3]]
        sizes = old['rowSizes']
        grown = min(o['rowSize'], 1.1 * max(sizes) if len(sizes) == 8 else math.inf)
        mixed = {'entropy': self.entropy.hex(), 'reveal': o['reveal']}
        self.ledger = {**old, 'round': r + 1, 'steps': old['steps'] + final, 'finals': finals,
                       'members': stay, 'mixed': mixed,
                       'rowSizes': (sizes + [grown] * (o['rowSize'] > 0))[-8:]}
        reveal = key32(o['reveal'])
        fields = key32(self.id), u32(r + 1), self.entropy, bytes([len(reveal)]), reveal, b'\0'
        self.entropy = H('nostrain/entropy/1', *fields)
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
    numpy.seterr(all='ignore')
    reports = [follow(path) for path in sys.argv[1:]]
    print('\n'.join(map(json.dumps, reports)))
    sys.exit(any('refused' in report for report in reports))
