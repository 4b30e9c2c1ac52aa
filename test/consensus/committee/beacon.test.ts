import { bls12_381 } from '@noble/curves/bls12-381.js';
import { toHex } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import {
  beaconValue,
  drandRandomness,
  drandRoundAt,
  isDrandKey,
  quicknet,
} from '../../../src/consensus/committee/beacon.ts';

/** Round 1000 of quicknet, as published by its operators. */
const ROUND = 1000;
const SIGNATURE =
  'b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39';
const RANDOMNESS = 'fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd';

describe('drand', () => {
  it('a published round of quicknet proves itself', () => {
    expect(drandRandomness(quicknet, ROUND, SIGNATURE)).toEqual({ ok: true, value: RANDOMNESS });
  });

  it('refuses the signature of another round, a changed one, and other text', () => {
    const { Point } = bls12_381.G1;
    const other = Point.fromHex(SIGNATURE).add(Point.BASE);
    const bad = [SIGNATURE.replace('b4', 'b5'), SIGNATURE.slice(2), '', 'zz'.repeat(48), 'c0'.padEnd(96, '0'), other.toHex(true)]; // biome-ignore format: one list
    for (const each of bad) expect(drandRandomness(quicknet, ROUND, each).ok).toBe(false);
    expect(drandRandomness(quicknet, ROUND + 1, SIGNATURE).ok).toBe(false);
  });

  it('no second signature comes of adding a point outside the group', () => {
    const { Point } = bls12_381.G1;
    const order = Point.Fn.ORDER;
    let stray = Point.ZERO;
    for (let x = 1n; stray.is0(); x++) {
      const y = rootOf(x);
      // the part of the point that the group's order does not undo
      if (y !== undefined) stray = timesOrder(Point.fromAffine({ x, y }), order);
    }
    const genuine = Point.fromHex(SIGNATURE);
    expect(written(genuine)).toBe(SIGNATURE);
    const hex = written(genuine.add(stray));
    expect(hex).not.toBe(SIGNATURE);
    expect(drandRandomness(quicknet, ROUND, hex).ok).toBe(false);
  });

  it('the round at a moment is the first at or after it', () => {
    const { genesis } = quicknet;
    expect(drandRoundAt(quicknet, genesis - 100)).toBe(1);
    expect(drandRoundAt(quicknet, genesis)).toBe(1);
    expect(drandRoundAt(quicknet, genesis + 1)).toBe(2);
    expect(drandRoundAt(quicknet, genesis + 3)).toBe(2);
    expect(drandRoundAt(quicknet, genesis + 3 * (ROUND - 1))).toBe(ROUND);
  });

  it('a public key is a nonzero point of the right group', () => {
    const { G1, G2 } = bls12_381;
    expect(isDrandKey(quicknet.publicKey)).toBe(true);
    const zero = G2.Point.ZERO.toHex(true);
    for (const key of [zero, SIGNATURE, G1.Point.BASE.toHex(true), '', 'zz'.repeat(96)])
      expect(isDrandKey(key)).toBe(false);
  });
});

describe('the value of a beacon', () => {
  const time = quicknet.genesis + 3 * (ROUND - 1) - 30;
  const drand = { kind: 'drand', lagSeconds: 30, ...quicknet } as const;
  const block = { kind: 'block', lagSeconds: 30 } as const;

  it('is that of the drand round due after the outcome', () => {
    const proof = { signature: SIGNATURE };
    expect(beaconValue(drand, time, proof)).toEqual({ ok: true, value: RANDOMNESS });
    expect(beaconValue(drand, time + 3, proof)).toMatchObject({ ok: false });
    expect(beaconValue({ ...drand, lagSeconds: 0 }, time, proof)).toMatchObject({ ok: false });
  });

  it('is the hash of a block', () => {
    expect(beaconValue(block, time, { block: RANDOMNESS, height: 7 })).toEqual({
      ok: true,
      value: RANDOMNESS,
    });
    expect(beaconValue(block, time, { block: 'no hash', height: 7 })).toMatchObject({ ok: false });
  });

  it('takes no proof of another beacon', () => {
    const proofs = [{ signature: SIGNATURE }, { block: RANDOMNESS, height: 7 }];
    for (const [rules, own] of [
      [drand, 0],
      [block, 1],
      [{ kind: 'none' }, -1],
    ] as const)
      proofs.forEach((proof, i) => {
        if (i !== own) expect(beaconValue(rules, time, proof)).toMatchObject({ ok: false });
      });
  });
});

/** Returns a y on BLS12-381 for a given x, if there is one. */
function rootOf(x: bigint): bigint | undefined {
  const { Fp } = bls12_381.G1.Point;
  try {
    return Fp.sqrt(Fp.add(Fp.mul(Fp.sqr(x), x), 4n));
  } catch {
    return undefined;
  }
}

/** Encodes a point in 48 bytes, even outside the group, which the library refuses: x and two flags. */
function written(point: G1): string {
  const { Fp } = bls12_381.G1.Point;
  const { x, y } = point.toAffine();
  const bytes = Fp.toBytes(x);
  bytes[0]! |= 2n * y > Fp.ORDER ? 0xa0 : 0x80;
  return toHex(bytes);
}

type G1 = typeof bls12_381.G1.Point.BASE;

function timesOrder(point: G1, order: bigint): G1 {
  let sum = bls12_381.G1.Point.ZERO;
  for (const bit of order.toString(2)) {
    sum = sum.double();
    if (bit === '1') sum = sum.add(point);
  }
  return sum;
}
