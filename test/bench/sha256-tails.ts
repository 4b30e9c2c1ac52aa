/**
 * What drawing a committee hashes: SHA-256 of 64 shared bytes and 32 bytes of each key, three ways, in processor time.
 *
 *   npx tsx test/bench/sha256-tails.ts [keys]        default 100000; docs/decisions/0012-… quotes it, bundled by esbuild
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { hashTails } from '../../src/base/hash.ts';

const keys = Number(process.argv[2] ?? 100_000);
const prefix = Uint8Array.from({ length: 64 }, (_, i) => i);
const tails = Uint32Array.from({ length: 8 * keys }, (_, i) => Math.imul(i, 2_654_435_761));

/** Every key by `hash`, which is given its 32 bytes. */
function each(hash: (tail: Uint8Array) => Uint8Array): Uint32Array {
  const out = new Uint32Array(tails.length);
  const tail = new DataView(new ArrayBuffer(32));
  for (let at = 0; at < tails.length; at += 8) {
    for (let i = 0; i < 8; i++) tail.setUint32(4 * i, tails[at + i]!);
    const digest = hash(new Uint8Array(tail.buffer));
    const view = new DataView(digest.buffer, digest.byteOffset);
    for (let i = 0; i < 8; i++) out[at + i] = view.getUint32(4 * i);
  }
  return out;
}

const begun = sha256.create().update(prefix);
const whole = new Uint8Array(96);
whole.set(prefix);
const ways: Readonly<Record<string, () => Uint32Array>> = {
  'hashTails (src/base)': () => hashTails(prefix, tails),
  'noble, midstate by clone()': () => each((tail) => begun.clone().update(tail).digest()),
  'noble, every message whole': () =>
    each((tail) => {
      whole.set(tail, 64);
      return sha256(whole);
    }),
};

const expected = String(hashTails(prefix, tails));
for (const [name, way] of Object.entries(ways)) {
  if (String(way()) !== expected) throw new Error(`${name}: other digests`);
  const runs = Array.from({ length: 7 }, () => {
    const before = process.cpuUsage();
    way();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  console.log(`${name}: ${Math.min(...runs).toFixed(0)} ms for ${keys} keys`);
}
