/**
 * What a signature check costs: compiled, in JavaScript, and in batches that end in one equation (BIP-340, by Pippenger's algorithm). Processor
 * time, the best of some turns: `npm run bench:checks`.
 */
import { pippenger } from '@noble/curves/abstract/curve.js';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { philox } from 'nostrain/base';
import { pureCrypto } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';

const COUNT = 128;
const TURNS = 5;
const { Point } = secp256k1;
const ORDER = Point.Fn.ORDER;
const { lift_x: lift, taggedHash } = schnorr.utils;

interface Signed {
  readonly signature: Uint8Array;
  readonly message: Uint8Array;
  readonly key: Uint8Array;
}

const toNumber = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);

const all: readonly Signed[] = Array.from({ length: COUNT }, (_, i) => {
  const secret = new Uint8Array(32).fill(1 + (i % 200));
  const message = new Uint8Array(32).map((_, at) => i * 7 + at);
  const key = schnorr.getPublicKey(secret);
  return { signature: nativeCrypto.schnorr.sign(message, secret), message, key };
});

/** Whether all of them hold, by one equation over random multiples. */
function holdTogether(batch: readonly Signed[]): boolean {
  const points = [Point.BASE];
  const scalars = [0n];
  batch.forEach(({ signature, message, key }, i) => {
    const r = signature.subarray(0, 32);
    const challenge = toNumber(taggedHash('BIP0340/challenge', r, key, message)) % ORDER;
    const [high, low] = philox([i, 9], i, 0, 0, 0);
    const factor = i === 0 ? 1n : (BigInt(high) << 96n) | (BigInt(low) << 32n) | 1n;
    scalars[0] = (scalars[0]! + factor * toNumber(signature.subarray(32))) % ORDER;
    points.push(lift(toNumber(r)), lift(toNumber(key)));
    scalars.push(ORDER - factor, (ORDER - ((factor * challenge) % ORDER)) % ORDER);
  });
  return pippenger(Point, points, scalars).equals(Point.ZERO);
}

/** Milliseconds of the processor for each signature. */
function costOf(checkAll: () => boolean): number {
  let best = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < TURNS; turn++) {
    const before = process.cpuUsage();
    if (!checkAll()) throw new Error('a good signature does not hold');
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / 1000 / COUNT);
  }
  return best;
}

const one = ({ schnorr: { verify } }: typeof nativeCrypto) =>
  costOf(() => all.every(({ signature, message, key }) => verify(signature, message, key)));
const batches = (size: number) =>
  costOf(() =>
    Array.from({ length: COUNT / size }, (_, i) => all.slice(i * size, (i + 1) * size)).every(
      holdTogether,
    ),
  );

console.log('| check | ms of the processor for a signature |\n| --- | --- |');
console.log(`| compiled | ${one(nativeCrypto).toFixed(3)} |`);
console.log(`| JavaScript | ${one(pureCrypto).toFixed(2)} |`);
for (const size of [16, 64, 128]) {
  console.log(`| JavaScript, ${size} together | ${batches(size).toFixed(2)} |`);
}
