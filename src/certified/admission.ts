/**
 * Who may join a certified run beside its founders, as far as a join itself shows it: a key that did the work the run asks for, once and for
 * this run alone, or that has the stake. Whoever is on a list is judged with the roster.
 */

import { utf8 } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { bytes32, taggedHash } from '../base/tagged-hash.ts';
import type { Stakes } from '../consensus/committee/committee.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { RunSpec } from '../run/run-spec.ts';

/** A join, as far as its admission goes. */
export interface Asking {
  readonly key: WorkerId;
  readonly evidence: string;
}

export type AdmissionFault = 'join-without-work' | 'join-without-stake';

/** Nonces are counted from 0. */
const NONCE = /^(0|[1-9][0-9]{0,15})$/;

/** Why a key is not admitted; undefined where it is, or where the roster says. */
export function refuseAdmission(
  { admission, founders }: Pick<RunSpec, 'admission' | 'founders'>,
  run: Digest,
  stakes: Stakes,
  { key, evidence }: Asking,
): AdmissionFault | undefined {
  const isFounder = founders.includes(key);
  if (admission.kind === 'work' && !isFounder) {
    const isDone = NONCE.test(evidence) && workOf(run, key, evidence) >= admission.bits;
    return isDone ? undefined : 'join-without-work';
  }
  if (admission.kind !== 'stake' || isFounder) return undefined;
  return (stakes?.get(key) ?? -1n) >= BigInt(admission.least) ? undefined : 'join-without-stake';
}

/** Leading zero bits of hash(run, key, nonce). */
function workOf(run: Digest, key: WorkerId, nonce: string): number {
  return zeroBits(taggedHash('nostrain/join-work/1', bytes32(run), bytes32(key), utf8(nonce)));
}

function zeroBits(hash: Uint8Array): number {
  const first = hash.findIndex((byte) => byte !== 0);
  return first < 0 ? 8 * hash.length : 8 * first + Math.clz32(hash[first]!) - 24;
}

/** Work is done in turns, between which others have theirs. */
const TURN_TRIES = 2000;

/** What a join of this key has to show; empty where the run asks for nothing. Rejects with the signal's reason. */
export async function evidenceFor(
  { admission, founders }: Pick<RunSpec, 'admission' | 'founders'>,
  run: Digest,
  key: WorkerId,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<string> {
  if (admission.kind !== 'work' || founders.includes(key)) return '';
  for (let nonce = 0; ; nonce++) {
    if (workOf(run, key, String(nonce)) >= admission.bits) return String(nonce);
    if (nonce % TURN_TRIES === TURN_TRIES - 1) await clock.sleep(0, signal);
  }
}
