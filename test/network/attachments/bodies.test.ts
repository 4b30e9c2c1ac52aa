/**
 * Outcomes and proofs in their events and beside them: where the border is, and what is refused on either side of it.
 */
import fc from 'fast-check';
import { utf8 } from 'nostrain/base';
import {
  buildFault,
  buildMessage,
  buildProposal,
  proofBody,
  toProposal,
  toProtocolMessage,
} from 'nostrain/certified/parts';
import { fault, proposal } from 'nostrain/kinds';
import {
  buildManifest,
  chunkTree,
  heapChunks,
  planChunks,
  type SignedEvent,
} from 'nostrain/network';
import {
  type Outcome,
  outcomeBody,
  outcomeDigest,
  type Prepare,
  type Proposal,
} from 'nostrain/run';
import { describe, expect, it, test } from 'vitest';
import { fitsInside, MOST_CONTENT_BYTES } from '../../../kinds/_shared.ts';
import {
  apartIn,
  type BodyOf,
  carryBody,
  noBodies,
  openBody,
} from '../../../src/network/attachments/bodies.ts';
import { signerOf } from '../../support/certified-run.ts';
import { largeProposal, outcomeWith, proposalOf } from '../../support/large-bodies.ts';

const life = { createdAt: 1_790_000_000, expiresAt: 1_790_086_400 };
const run = '1'.repeat(64);
const me = signerOf(1);
const culprit = me.publicKey;

const signed = (made: Proposal): SignedEvent => me.sign(buildProposal(made, life));
/** As a reader that has this text, whatever it is asked for. */
const having =
  (text: string): BodyOf =>
  () =>
    utf8(text);
const bodyOf = ({ outcome }: Proposal): BodyOf => having(outcomeBody(outcome));

/** The same event with another content. */
function withContent(event: SignedEvent, change: Record<string, unknown>): SignedEvent {
  const said = { ...JSON.parse(event.content), ...change };
  const members = Object.entries(said).sort(([a], [b]) => (a < b ? -1 : 1));
  return me.sign({ ...event, content: JSON.stringify(Object.fromEntries(members)) });
}

/** Bytes of the content of a proposal in its event, were the outcome inside. */
function contentBytes(outcome: Outcome): number {
  const small = buildProposal(proposalOf(outcomeWith(1)), life);
  const body = outcomeBody(outcome);
  const said = { ...JSON.parse(small.content), body, digest: outcomeDigest(outcome) };
  return utf8(JSON.stringify(JSON.stringify(said))).length;
}

/** One that just has room, by the length of its reasons; with a character more it has none. */
function outcomeAtBorder(): Outcome {
  const rows = Math.floor(((MOST_CONTENT_BYTES - contentBytes(outcomeWith(1))) * 3) / (35 * 4));
  for (let more = 0; more > -12; more--) {
    for (const reasons of [['x'], ['x', 'x']]) {
      const missing = MOST_CONTENT_BYTES - contentBytes(outcomeWith(rows + more, reasons));
      if (missing < 0 || missing > 30 * reasons.length) continue;
      const first = Math.min(30, missing);
      const lengths = [1 + first, 1 + missing - first];
      return outcomeWith(
        rows + more,
        reasons.map((_, i) => 'x'.repeat(lengths[i]!)),
      );
    }
  }
  throw new Error('no outcome of that size');
}
const fits = outcomeAtBorder();
const isOver: Outcome = {
  ...fits,
  rejected: fits.rejected.map((row, i) => (i === 0 ? { ...row, reason: `${row.reason}x` } : row)),
};

describe('an outcome', () => {
  it('of the last size for which there is room is in the proposal', () => {
    const made = proposalOf(fits);
    const event = signed(made);
    expect(apartIn(event)).toBeUndefined();
    expect(utf8(JSON.stringify(event.content)).length).toBe(MOST_CONTENT_BYTES);
    expect(JSON.stringify(event).length).toBeLessThan(65_536);
    expect(toProtocolMessage(event, made.run)).toMatchObject(made);
  });

  it('one byte larger is beside it, and read when it is here', () => {
    const made = proposalOf(isOver);
    const event = signed(made);
    const { root, bytes } = chunkTree(utf8(outcomeBody(made.outcome)));
    expect(apartIn(event)).toEqual({ root, bytes, expiresAt: life.expiresAt });
    expect(JSON.stringify(event).length).toBeLessThan(2000);
    expect(toProtocolMessage(event, made.run)).toBeUndefined();
    const read = toProtocolMessage(event, made.run, undefined, bodyOf(made));
    expect(read).toEqual({ ...made, id: event.id, key: culprit });
  });

  it('has one form: what belongs inside is refused beside it, and the other way round', () => {
    const small = proposalOf(fits);
    const { root, bytes } = chunkTree(utf8(outcomeBody(small.outcome)));
    const beside = withContent(signed(small), { body: undefined, root, bytes });
    expect(proposal.parse(beside)).toMatchObject({ ok: true });
    expect(toProposal(beside)).toBeUndefined();
    expect(toProposal(beside, bodyOf(small))).toMatchObject({
      rejection: {
        reason: 'malformed',
        detail: `a body of ${bytes} bytes must be inside the content`,
      },
    });
    const large = proposalOf(isOver);
    const body = outcomeBody(large.outcome);
    const inside = withContent(signed(large), { body, root: undefined, bytes: undefined });
    expect(proposal.parse(inside)).toMatchObject({ ok: false });
  });

  it('is refused when it is another one than the digest says, no text, or of another round', () => {
    const made = largeProposal();
    const event = signed(made);
    const other = outcomeBody(outcomeWith(2000));
    const refused = (of: SignedEvent, body: BodyOf) =>
      toProtocolMessage(of, made.run, undefined, body);
    const malformed = { type: 'unreadable', reason: 'malformed', key: culprit };
    expect(refused(event, having(other))).toMatchObject(malformed);
    expect(refused(event, () => new Uint8Array(70_000).fill(0xff))).toMatchObject(malformed);
    const later = signed({ ...made, round: made.round + 1 });
    expect(refused(later, bodyOf(made))).toMatchObject(malformed);
  });

  it('of many ballots stays in an event all the same', () => {
    const ballots = Array.from({ length: 800 }, (_, i) => i.toString(16).padStart(64, '0'));
    const made = { ...proposalOf(outcomeWith(200)), attempt: 1, ballots };
    const event = signed(made);
    expect(apartIn(event)).toBeDefined();
    expect(JSON.stringify(event).length).toBeLessThan(65_536);
    expect(toProposal(event, bodyOf(made))).toMatchObject({ ok: true, value: made });
  });

  it('over the cap is refused before anything is asked for', () => {
    const event = withContent(signed(largeProposal()), { bytes: 4_194_305 });
    expect(apartIn(event)).toBeUndefined();
    expect(toProtocolMessage(event, run)).toMatchObject({ type: 'unreadable' });
  });
});

describe('a fault proof', () => {
  const base = { run, round: 0, parent: run, base: run, codec: 'nstr', examples: 1, steps: 1 };
  const manifest = (fill: number, bytes = 42_000) =>
    me.sign(buildManifest(base, new Uint8Array(bytes).fill(fill), life).draft);
  const prove = (pair: readonly [SignedEvent, SignedEvent]) =>
    signerOf(9).sign(buildFault(run, pair, life));
  const proven = { type: 'fault', kind: 'equivocation', culprit };

  it('of two manifests with payloads inside is in chunks, the same for every sender', () => {
    const [a, b] = [manifest(1), manifest(2)];
    const event = prove([a, b]);
    expect(JSON.stringify(event).length).toBeLessThan(1500);
    expect(toProtocolMessage(event, run)).toBeUndefined();
    const body = proofBody([a, b]);
    expect(toProtocolMessage(event, run, undefined, having(body))).toMatchObject(proven);
    const { id, ...rest } = b;
    const reordered = { seen: 'on', ...rest, id };
    expect(proofBody([reordered, a])).toBe(body);
    expect(apartIn(event)).toMatchObject(chunkRoot(body));
  });

  it('of two proposals needs neither outcome', () => {
    const made = largeProposal();
    const other = proposalOf(outcomeWith(1500));
    const [a, b] = [signed(made), signed(other)];
    for (const each of [a, b]) expect(apartIn(each)).toBeDefined();
    expect(toProtocolMessage(prove([a, b]), made.run)).toMatchObject(proven);
    const again = me.sign(buildMessage(made, { ...life, createdAt: life.createdAt + 1 }));
    expect(toProtocolMessage(prove([a, again]), made.run)).toMatchObject({ type: 'unreadable' });
  });

  it('is no proof in any other spelling, in the other order, of more or fewer, or forged', () => {
    const [a, b] = [manifest(1), manifest(2)].sort((x, y) => (x.id < y.id ? -1 : 1));
    const body = proofBody([a!, b!]);
    const [first, second] = JSON.parse(body);
    const bodies = [
      JSON.stringify([second, first]),
      JSON.stringify([first, first]),
      JSON.stringify([first, second, second]),
      JSON.stringify([first]),
      JSON.stringify([{ ...first, seen: 'on' }, second]),
      JSON.stringify([first, { ...second, sig: first.sig }]),
      body.replace(',', ', '),
      `${body} `,
    ];
    for (const text of bodies) {
      const draft = { run, ...carryOf(text), scope: [run], expiration: life.expiresAt };
      const event = signerOf(9).sign(fault.build(draft, life.createdAt));
      const message = toProtocolMessage(event, run, undefined, having(text));
      expect(message).toMatchObject({ type: 'unreadable', reason: 'malformed' });
    }
  });

  it('need not hold more than what is read: an event of over 128 KiB says nothing', () => {
    const prepare: Prepare = {
      ...{ type: 'vote', step: 'prepare', justify: -1 },
      ...{ run, round: 0, attempt: 0, parent: run, ctx: run, view: 0, digest: run },
    };
    const padded = (characters: number) => {
      const draft = buildMessage(prepare, life);
      const pads = Array.from({ length: 17 }, () => ['pad', '\\'.repeat(characters / 34)]);
      return me.sign({ ...draft, tags: [...draft.tags, ...pads] });
    };
    const [full, over] = [padded(128_000), padded(131_072)];
    expect(toProtocolMessage(full, run)).toMatchObject({ type: 'vote' });
    expect(toProtocolMessage(over, run)).toMatchObject({ type: 'unreadable', reason: 'too-large' });
    const other = me.sign(buildMessage({ ...prepare, digest: '2'.repeat(64) }, life));
    const proof = prove([full, other]);
    expect(JSON.stringify(proof).length).toBeLessThan(65_536);
    const body = having(proofBody([full, other]));
    expect(toProtocolMessage(proof, run, undefined, body)).toMatchObject(proven);
  });

  const carryOf = (text: string) =>
    carryBody(text, (carried) => fault.declaration.content.write({ run, ...carried }));
  const chunkRoot = (text: string) => {
    const { root, bytes } = chunkTree(utf8(text));
    return { root, bytes };
  };
});

describe('any body', () => {
  const write = (carried: object) => JSON.stringify(carried);
  const text = fc
    .string({ unit: 'grapheme', maxLength: 20 })
    .chain((piece) =>
      fc.nat(70_000).map((length) => `{${piece.repeat(length / Math.max(1, piece.length))}}`),
    );

  it('comes back as it was, inside or from its chunks in any order', () => {
    fc.assert(
      fc.property(
        text.filter((body) => body.isWellFormed()),
        (body) => {
          const carried = carryBody(body, write);
          expect(carried.body === undefined).toBe(!fitsInside(write({ body })));
          if (carried.body !== undefined) {
            expect(openBody(carried, write, noBodies)).toEqual({ ok: true, value: body });
            return;
          }
          const plan = planChunks(utf8(body), life);
          const chunks = [...Array(plan.count).keys()].map((i) => signerOf(3).sign(plan.draft(i)));
          const whole = heapChunks([...chunks].reverse(), 1_000_000);
          expect(openBody(carried, write, whole)).toEqual({ ok: true, value: body });
          expect(openBody(carried, write, heapChunks(chunks.slice(1), 1_000_000))).toBeUndefined();
        },
      ),
      { numRuns: 40 },
    );
  });

  test('of any kind, inside or beside, never makes a reader throw', () => {
    const any = fc.oneof(fc.string(), fc.json(), fc.constant('[{},{}]'), fc.constant('{"a":1}'));
    const bytes = fc.oneof(
      any.map(utf8),
      fc.uint8Array({ maxLength: 99 }),
      fc.nat(90_000).map((length) => new Uint8Array(length + 1).fill(123)),
    );
    const change = fc.record(
      {
        body: fc.oneof(any, fc.jsonValue()),
        root: fc.oneof(fc.constant(run), fc.jsonValue()),
        bytes: fc.oneof(fc.integer({ min: -1, max: 5_000_000 }), fc.jsonValue()),
      },
      { requiredKeys: [] },
    );
    const made = largeProposal();
    const events = [
      signed(made),
      signed(proposalOf(outcomeWith(1))),
      signerOf(2).sign(buildFault(run, [signed(made), signed(proposalOf(outcomeWith(1)))], life)),
    ];
    fc.assert(
      fc.property(fc.constantFrom(...events), change, bytes, (event, members, found) => {
        const message = toProtocolMessage(withContent(event, members), run, undefined, () => found);
        expect([undefined, 'unreadable', 'proposal', 'fault']).toContain(message?.type);
      }),
      { numRuns: 200 },
    );
  });
});
