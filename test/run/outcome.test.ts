import fc from 'fast-check';
import { toHex } from 'nostrain/base';
import { featureSet } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  bodyDigest,
  type Outcome,
  outcomeBody,
  outcomeDigest,
  parseOutcome,
} from '../../src/run/outcome.ts';

const set = featureSet(['defer', 'stake']);
const hex = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(toHex);
const ids = fc.uniqueArray(hex, { maxLength: 4 }).map((list) => list.sort());
const u32 = fc.integer({ min: 0, max: 0xffffffff });
const u16 = fc.integer({ min: 0, max: 0xffff });
const moment = fc.integer({ min: 1, max: 2 ** 40 });
const signature = fc
  .record({
    createdAt: moment,
    kept: moment,
    sig: fc.uint8Array({ minLength: 64, maxLength: 64 }).map(toHex),
    nonce: fc.option(fc.tuple(fc.nat().map(String), fc.nat(64).map(String)), { nil: undefined }),
  })
  .map(({ createdAt, kept, sig, nonce }) => ({
    ...{ createdAt, expiration: createdAt + kept, sig },
    ...(nonce && { nonce }),
  }));
const byKey = { selector: ({ key }: { readonly key: string }) => key, maxLength: 3 };
const listed = <T extends { readonly key: string }>(said: fc.Arbitrary<T>) =>
  fc
    .uniqueArray(
      fc.tuple(said, signature).map(([a, b]) => ({ ...a, ...b })),
      byKey,
    )
    .map((list) => list.sort((a, b) => (a.key < b.key ? -1 : 1)));
const evidence = fc.constantFrom('', 'invited', 'é"\\\u{1f600}');
const joins = listed(fc.record({ key: hex, after: hex, tip: hex, evidence }));
const leaves = listed(fc.record({ key: hex, last: u32 }));
const unlisted = fc.uniqueArray(u16, { maxLength: 4 }).map((list) => list.sort((a, b) => a - b));
const vote = fc
  .tuple(fc.record({ index: u16, unlisted }), signature)
  .map(([a, b]) => ({ ...a, ...b }));
const votes = fc.option(
  fc.record({
    attempt: u32,
    view: u32,
    ctx: hex,
    rows: fc
      .uniqueArray(vote, { selector: ({ index }) => index, maxLength: 4 })
      .map((list) => list.sort((a, b) => a.index - b.index)),
  }),
);
const rows = fc
  .uniqueArray(
    fc.record({ index: fc.integer({ min: 0, max: 0xffff }), manifest: hex, late: fc.boolean() }),
    {
      maxLength: 5,
      selector: ({ index, late }) => `${index} ${late}`,
    },
  )
  .map((list) => list.sort((a, b) => a.index - b.index || Number(a.late) - Number(b.late)));

const outcomes = fc.record({
  run: hex,
  round: u32,
  parent: hex,
  base: hex,
  result: fc.constant('final' as const),
  time: u32,
  proposer: hex,
  reveal: fc.oneof(hex, fc.constant('')),
  ballots: ids,
  accepted: rows,
  rejected: fc
    .uniqueArray(
      fc.record({
        index: fc.integer({ min: 0, max: 0xffff }),
        manifest: hex,
        reason: fc.constantFrom('not-finite', 'norm'),
      }),
      { maxLength: 3, selector: ({ manifest }) => manifest },
    )
    .map((list) => list.sort((a, b) => (a.manifest < b.manifest ? -1 : 1))),
  votes,
  joins,
  leaves,
  faults: ids,
  features: fc.record({ stake: fc.record({ snapshot: hex }) }),
  rowSize: fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }).map((size) => size + 0),
  modelRoot: hex,
  ledgerRoot: hex,
});

test('reading a body gives the outcome back, and its digest', () => {
  fc.assert(
    fc.property(outcomes, (outcome) => {
      const body = outcomeBody(outcome);
      expect(parseOutcome(body, set)).toEqual({ ok: true, value: outcome });
      expect(bodyDigest(body)).toBe(outcomeDigest(outcome));
    }),
  );
});

test('T-12: the digest of a round depends on every field: contributions, result, votes, members, model and ledger', () => {
  fc.assert(
    fc.property(outcomes, outcomes, (outcome, other) => {
      const digest = outcomeDigest(outcome);
      for (const name of Object.keys(outcome) as (keyof Outcome)[]) {
        const changed = { ...outcome, [name]: other[name] };
        const isSame = JSON.stringify(other[name]) === JSON.stringify(outcome[name]);
        expect([name, outcomeDigest(changed) === digest]).toEqual([name, isSame]);
      }
      expect(outcomeDigest({ ...outcome, result: 'void' })).not.toBe(digest);
    }),
  );
});

test('two outcomes that differ anywhere have two digests', () => {
  fc.assert(
    fc.property(outcomes, outcomes, (a, b) => {
      expect(outcomeDigest(a) === outcomeDigest(b)).toBe(outcomeBody(a) === outcomeBody(b));
    }),
  );
});

describe('a body is refused', () => {
  const h = (digit: string) => digit.repeat(64);
  const signed = { createdAt: 1_700_000_000, expiration: 1_700_009_000, sig: h('e') + h('f') };
  const outcome: Outcome = {
    run: h('1'),
    round: 3,
    parent: h('2'),
    base: h('3'),
    result: 'final' as const,
    time: 1_700_000_000,
    proposer: h('4'),
    reveal: '',
    ballots: [],
    accepted: [
      { index: 1, late: false, manifest: h('5') },
      { index: 258, late: true, manifest: h('6') },
    ],
    rejected: [{ index: 2, manifest: h('7'), reason: 'not-finite' }],
    votes: {
      ...{ attempt: 0, view: 1, ctx: h('c') },
      rows: [
        { index: 0, unlisted: [], ...signed },
        { index: 3, unlisted: [1, 2], ...signed },
      ],
    },
    joins: [
      { key: h('1'), after: h('2'), tip: h('3'), evidence: '', ...signed },
      { key: h('2'), after: h('2'), tip: h('3'), evidence: 'x', ...signed },
    ],
    leaves: [{ key: h('4'), last: 3, ...signed }],
    faults: [h('8'), h('9')],
    features: { stake: { snapshot: h('d') } },
    rowSize: 0.25,
    modelRoot: h('a'),
    ledgerRoot: h('b'),
  };
  const body = outcomeBody(outcome);

  test('as bytes that never change', () => {
    expect(outcomeDigest(outcome)).toBe(
      '2bb11ce591887f12ea33a81fab869ad57ba9c2ee3af3653ce9b777c30a640ca2',
    );
  });

  test.each([
    ['no JSON', body.slice(1)],
    ['a list', '[]'],
    ['a space', body.replace(',', ', ')],
    ['another member', body.replace('{', '{"a":1,')],
    ['a member less', body.replace('"ballots":[],', '')],
    ['a float', body.replace('"round":3', '"round":3.0')],
    ['a round below 0', body.replace('"round":3', '"round":-1')],
    ['a round beyond u32', body.replace('"round":3', '"round":4294967296')],
    ['a digest in capitals', body.replaceAll(h('a'), h('A'))],
    ['a result of its own', body.replace('"final"', '"maybe"')],
    ['a void one that accepts', body.replace('"final"', '"void"')],
    ['ids out of order', body.replace(`"${h('8')}","${h('9')}"`, `"${h('9')}","${h('8')}"`)],
    ['an id twice', body.replace(h('9'), h('8'))],
    ['ids that are no list', body.replace(/"ballots":\[\]/, '"ballots":""')],
    ['a feature that the run has not', body.replace('"stake":{', '"beacon":{},"stake":{')],
    ['a feature less', body.replace(/"features":\{.*?\}\},/, '')],
    ['a field of a feature less', body.replace(/"stake":\{.*?\}/, '"stake":{}')],
    ['a key that joins twice', body.replace(`"key":"${h('2')}"`, `"key":"${h('1')}"`)],
    ['evidence with a line break', body.replace('"evidence":"x"', '"evidence":"\\n"')],
    ['a signature cut short', body.replace(`${h('e')}${h('f')}`, h('e'))],
    [
      'an expiry before the event',
      body.replace('"expiration":1700009000', '"expiration":1700000000'),
    ],
    ['votes out of order', body.replace('[[0,', '[[7,')],
    ['places out of order', body.replace('[1,2]', '[2,1]')],
    ['a vote of a roster there cannot be', body.replace('[3,1700000000', '[65536,1700000000')],
    ['a reason with blanks', body.replace('not-finite', 'not finite')],
    ['a rejected row of four', body.replace('"not-finite"]', '"not-finite",1]')],
    ['rows out of order', outcomeBody({ ...outcome, accepted: [...outcome.accepted].reverse() })],
    ['rows cut short', body.replace(/"accepted":"..../, '"accepted":"')],
  ])('with %s', (_, text) => {
    expect(parseOutcome(text, set).ok).toBe(false);
  });

  test('with a late row where the run does not defer', () => {
    const strict = featureSet(['stake']);
    expect(parseOutcome(body, strict).ok).toBe(false);
    const onTime = { ...outcome, accepted: outcome.accepted.slice(0, 1) };
    expect(parseOutcome(outcomeBody(onTime), strict)).toEqual({ ok: true, value: onTime });
  });

  test('unless it is as written', () => {
    expect(parseOutcome(body, set)).toEqual({ ok: true, value: outcome });
  });
});
