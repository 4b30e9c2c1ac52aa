/** Evidence with one bit changed: it is refused, or says what the unchanged evidence says. */

import { isDeepStrictEqual } from 'node:util';
import type { MachineEvidence } from '../../src/attest/evidence.ts';
import { verifyEvidence } from '../../src/attest/vendors.ts';
import { below, deriveKey, philox } from '../../src/base/rng.ts';
import { evidenceOf, genuine } from './genuine.ts';

/** Draws a number below the bound for the n-th draw of a flip. */
const drawn = (seed: number, n: number, bound: number): number =>
  below(philox(deriveKey('flips'), seed, n, 0, 0)[0], bound);

function flipped(bytes: Uint8Array, bit: number): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[bit >> 3]! ^= 1 << (bit & 7);
  return copy;
}

/** Changes one bit of the report, of a certificate, or of a letter of the collateral. */
function changed(evidence: MachineEvidence, seed: number): MachineEvidence {
  const { report, certificates, collateral } = evidence;
  const texts = Object.keys(collateral);
  const part = drawn(seed, 0, 1 + certificates.length + texts.length);
  if (part === 0)
    return { ...evidence, report: flipped(report, drawn(seed, 1, 8 * report.length)) };
  const certificate = certificates[part - 1];
  if (certificate !== undefined) {
    const other = flipped(certificate, drawn(seed, 1, 8 * certificate.length));
    return { ...evidence, certificates: certificates.with(part - 1, other) };
  }
  const name = texts[part - 1 - certificates.length]!;
  const text = collateral[name]!;
  const at = drawn(seed, 1, text.length);
  const letter = String.fromCharCode(text.charCodeAt(at) ^ (1 << drawn(seed, 2, 7)));
  return {
    ...evidence,
    collateral: { ...collateral, [name]: text.slice(0, at) + letter + text.slice(at + 1) },
  };
}

/** Tries these seeds; returns those whose changed evidence was accepted with other claims, and how many were refused. */
export async function tryFlips(from: number, count: number) {
  const originals = await Promise.all(
    genuine.map(async ({ file, at }) => {
      const evidence = evidenceOf(file);
      return { evidence, at, claims: await verifyEvidence(evidence, at) };
    }),
  );
  const broken: number[] = [];
  let refused = 0;
  for (let seed = from; seed < from + count; seed++) {
    const { evidence, at, claims } = originals[seed % originals.length]!;
    const verdict = await verifyEvidence(changed(evidence, seed), at);
    if (!verdict.ok) refused++;
    else if (!isDeepStrictEqual(verdict, claims)) broken.push(seed);
  }
  return { broken, refused };
}
