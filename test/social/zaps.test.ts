/** Zap splits: integer weights from a run, who is left out, and tags that are forged. */

import { createSigner } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import {
  type Contributor,
  checkZaps,
  splitZaps,
  takesZaps,
  zapShares,
  zapTags,
} from '../../src/social/zaps.ts';

const keyOf = (digit: string) => digit.repeat(64);
const [a, b, c, owner] = ['a', 'b', 'c', 'd'].map(keyOf) as [string, string, string, string];
const row = (worker: string, counted: number, rest: Partial<Contributor> = {}): Contributor => ({
  worker,
  counted,
  ...rest,
});
const RELAY = 'wss://relay.example.org';

describe('zap weights', () => {
  it('N-63: are scores where a worker has a positive one, otherwise counts, summed by owner', () => {
    const counts = [
      row(a, 3),
      row(b, 5),
      row(c, 2, { principal: owner }),
      row(owner, 1),
      row('0'.repeat(64), 0),
    ];
    expect(zapShares(counts)).toEqual([
      { key: b, weight: 5 },
      { key: a, weight: 3 },
      { key: owner, weight: 3 },
    ]);
    const scored = [row(a, 3, { score: 120 }), row(b, 5, { score: -40 }), row(c, 2)];
    expect(zapShares(scored)).toEqual([{ key: a, weight: 120 }]);
    // order does not matter
    expect(zapShares([...counts].reverse())).toEqual(zapShares(counts));
  });

  it('N-63: go to a limited number of receivers', () => {
    const many = Array.from({ length: 500 }, (_, i) => row(i.toString(16).padStart(64, '0'), i));
    expect(zapShares(many)).toHaveLength(64);
    expect(zapShares(many)[0]!.weight).toBe(499);
  });

  it('N-63: leave out members without a Lightning address, and say so', () => {
    const [one, two] = [
      createSigner(new Uint8Array(32).fill(1)),
      createSigner(new Uint8Array(32).fill(2)),
    ];
    const shares = zapShares([row(one.publicKey, 3), row(two.publicKey, 2)]);
    const profile = (signer: typeof one, content: object, created_at: number) =>
      signer.sign({ kind: 0, created_at, tags: [], content: JSON.stringify(content) });
    const profiles = [
      profile(one, { lud16: 'one@example.org' }, 2),
      profile(one, {}, 1),
      profile(two, { lud16: 'javascript:alert(1)' }, 1),
    ];
    const split = splitZaps(shares, profiles);
    expect(split.shares.map(({ key }) => key)).toEqual([one.publicKey]);
    expect(split.leftOut).toEqual([two.publicKey]);
    expect(takesZaps({ kind: 0, content: `{"lud16":"${'x'.repeat(100_000)}@y.z"}` })).toBe(false);
    const verdict = checkZaps(
      zapTags(split.shares, RELAY).map((tag) => [...tag]),
      shares,
    );
    expect(verdict).toEqual({ isRight: true, leftOut: [two.publicKey], problems: [] });
  });

  it('N-63: that are forged are found: another weight, a stranger, a key twice, no key', () => {
    const shares = zapShares([row(a, 3), row(b, 1)]);
    const check = (...tags: string[][]) => checkZaps(tags, shares);
    expect(check(['zap', a, RELAY, '30'], ['zap', b, RELAY, '1'])).toMatchObject({
      isRight: false,
      problems: [`${a} has weight 30, not 3`],
    });
    expect(check(['zap', c, RELAY, '3']).problems).toEqual([
      `${c} contributed nothing that counts`,
    ]);
    expect(check(['zap', a, RELAY, '3'], ['zap', a, RELAY, '3']).isRight).toBe(false);
    expect(check(['zap', 'x', RELAY, '3']).problems).toEqual(['a zap tag has no key']);
    expect(check(['zap', a, RELAY]).isRight).toBe(false);
    expect(check(['t', 'nostrain']).isRight).toBe(false);
  });
});
