import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toHex } from '../../src/base/bytes.ts';
import { bodyDigest, outcomeBody, outcomeDigest, parseOutcome } from '../../src/run/outcome.ts';

const hex = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(toHex);
const ids = fc.uniqueArray(hex, { maxLength: 4 }).map((list) => list.sort());
const u32 = fc.integer({ min: 0, max: 0xffffffff });
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
  votes: ids,
  joins: ids,
  leaves: ids,
  faults: ids,
  snapshot: fc.oneof(hex, fc.constant('')),
  modelRoot: hex,
  ledgerRoot: hex,
});

test('reading a body gives the outcome back, and its digest', () => {
  fc.assert(
    fc.property(outcomes, (outcome) => {
      const body = outcomeBody(outcome);
      expect(parseOutcome(body)).toEqual({ ok: true, value: outcome });
      expect(bodyDigest(body)).toBe(outcomeDigest(outcome));
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
  const outcome = {
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
    votes: [h('8'), h('9')],
    joins: [],
    leaves: [],
    faults: [],
    snapshot: '',
    modelRoot: h('a'),
    ledgerRoot: h('b'),
  };
  const body = outcomeBody(outcome);

  test('as bytes that never change', () => {
    expect(outcomeDigest(outcome)).toBe(
      'bc00ea3af3a8ead12cb265b05bd45742dc9e629f452a6180059eb306c6f70f14',
    );
  });

  test.each([
    ['no JSON', body.slice(1)],
    ['a list', '[]'],
    ['a space', body.replace(',', ', ')],
    ['another member', body.replace('{', '{"a":1,')],
    ['a member less', body.replace('"joins":[],', '')],
    ['a float', body.replace('"round":3', '"round":3.0')],
    ['a round below 0', body.replace('"round":3', '"round":-1')],
    ['a round beyond u32', body.replace('"round":3', '"round":4294967296')],
    ['a digest in capitals', body.replaceAll(h('a'), h('A'))],
    ['a result of its own', body.replace('"final"', '"maybe"')],
    ['a void one that accepts', body.replace('"final"', '"void"')],
    ['ids out of order', body.replace(`"${h('8')}","${h('9')}"`, `"${h('9')}","${h('8')}"`)],
    ['an id twice', body.replace(h('9'), h('8'))],
    ['ids that are no list', body.replace('"joins":[]', '"joins":""')],
    ['a reason with blanks', body.replace('not-finite', 'not finite')],
    ['a rejected row of four', body.replace('"not-finite"]', '"not-finite",1]')],
    ['rows out of order', outcomeBody({ ...outcome, accepted: [...outcome.accepted].reverse() })],
    ['rows cut short', body.replace(/"accepted":"..../, '"accepted":"')],
  ])('with %s', (_, text) => {
    expect(parseOutcome(text).ok).toBe(false);
  });

  test('unless it is as written', () => {
    expect(parseOutcome(body)).toEqual({ ok: true, value: outcome });
  });
});
