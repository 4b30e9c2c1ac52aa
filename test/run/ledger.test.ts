import fc from 'fast-check';
import { concatBytes, sha256Hex, utf8 } from 'nostrain/base';
import { featureSet } from 'nostrain/run';
import { describe, expect, it, test } from 'vitest';
import { completeLedger } from '../../src/consensus/round/membership.ts';
import { ledgerBytes, ledgerRoot, parseLedger } from '../../src/run/ledger.ts';
import { keyOf } from '../support/members.ts';
import { joinOf, play, rulesOf } from '../support/run-history.ts';

const rules = rulesOf({ late: 'defer', stake: { source: 'file', snapshot: keyOf(70) } });
const ledger = play(
  rules,
  {},
  { joins: [joinOf(9)], accepted: [] },
  { faults: [keyOf(2)], accepted: [], viewChangeKeys: [keyOf(0), keyOf(1)] },
);
const set = featureSet(['defer', 'stake']);
const text = new TextDecoder().decode(ledgerBytes(ledger));
const rootOf = (bytes: Uint8Array) => sha256Hex(concatBytes(utf8('nostrain/ledger/2'), bytes));
const parse = (changed: string) => parseLedger(utf8(changed), rootOf(utf8(changed)), set);

describe('a ledger', () => {
  it('reads back as it was, but for the entropy, which follows from it', () => {
    const parsed = parseLedger(ledgerBytes(ledger), ledgerRoot(ledger), set);
    if (!parsed.ok) throw new Error(parsed.issue.message);
    expect(parsed.value).toEqual({ ...ledger, entropy: null });
    expect(completeLedger(rules, parsed.value, '')).toEqual(ledger);
  });

  it('has another root when anything in it is another', () => {
    const { members } = ledger;
    const first = members[0]!;
    const others = [
      { ...ledger, round: 4 },
      { ...ledger, steps: 1 },
      { ...ledger, mixed: null },
      { ...ledger, features: {} },
      {
        ...ledger,
        features: { ...ledger.features, stake: { snapshot: keyOf(1), next: keyOf(70) } },
      },
      {
        ...ledger,
        features: { ...ledger.features, stake: { snapshot: keyOf(70), next: keyOf(1) } },
      },
      { ...ledger, finals: [] },
      { ...ledger, ballots: null },
      { ...ledger, features: { ...ledger.features, defer: { late: [] } } },
      { ...ledger, faulted: [] },
      { ...ledger, members: members.slice(1) },
      ...(['joined', 'lastSeen', 'seenBefore', 'seatFrom'] as const).map((name) => {
        return { ...ledger, members: [{ ...first, [name]: 77 }, ...members.slice(1)] };
      }),
      { ...ledger, members: [{ ...first, tip: null }, ...members.slice(1)] },
    ];
    const roots = new Set([ledger, ...others].map(ledgerRoot));
    expect(roots.size).toBe(1 + others.length);
    expect(ledgerRoot({ ...ledger, entropy: null })).toBe(ledgerRoot(ledger));
  });

  it('is refused under another root', () => {
    const parsed = parseLedger(ledgerBytes(ledger), keyOf(1), set);
    expect(parsed).toMatchObject({ ok: false, issue: { code: 'wrong-root' } });
  });

  test.each([
    ['a space', text.replace('{', '{ ')],
    ['a field more', text.replace('{', '{"a":1,')],
    ['a field less', text.replace(/"steps":\d+,?/, '')],
    ['a float', text.replace('"steps":3', '"steps":3.0')],
    ['a fraction', text.replace('"steps":3', '"steps":3.5')],
    ['a feature less', text.replace(/"defer":\{.*?\},/, '')],
    ['a feature more', text.replace('"defer":{', '"beacon":{},"defer":{')],
    ['a field of a feature more', text.replace('"next":', '"more":1,"next":')],
    ['a round below 0', text.replace('"round":3', '"round":-1')],
    ['a key that is none', text.replace(keyOf(0), keyOf(0).toUpperCase())],
    ['members in another order', reversed(text)],
    ['not an object', '[]'],
    ['not JSON', '{'],
  ])('is refused with %s, whatever root is claimed', (_, changed) => {
    expect(changed).not.toBe(text);
    expect(parse(changed).ok).toBe(false);
  });

  it('no text makes the reader throw', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(parse(json).ok).toBe(false);
      }),
    );
    const fields = Object.keys(JSON.parse(text));
    fc.assert(
      fc.property(fc.constantFrom(...fields), fc.jsonValue(), (name, value) => {
        parse(JSON.stringify({ ...JSON.parse(text), [name]: value }));
      }),
    );
  });
});

function reversed(canonical: string): string {
  const value = JSON.parse(canonical);
  return canonical.replace(
    JSON.stringify(value.members),
    JSON.stringify([...value.members].reverse()),
  );
}
