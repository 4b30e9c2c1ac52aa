/** Builds delegations for tests, signed with the owner's key. */
import { draftDelegation, readDelegation } from 'nostrain/certified/parts';
import type { Signer } from 'nostrain/network';
import type { Digest, RunSpec } from 'nostrain/run';
import type { SessionOf } from '../../src/certified/wire/messages.ts';
import type { Delegation } from '../../src/run/spec/feature-fields.ts';
import { signerOf } from './signers.ts';

const AT = 1_790_000_000;
/** In whose name newcomers of synthetic runs take part, where those have sessions. */
export const OWNER = signerOf(50);

/** What a join of the session key shows. */
export function delegatedBy(owner: Signer, of: SessionOf, until: number): Delegation {
  const read = readDelegation(owner.sign(draftDelegation(of, until, AT)), of);
  if (!read.ok) throw new TypeError(read.issue.message);
  return read.value;
}

/** What joins of this key show: in runs with sessions a delegation, founders none; in runs with tiers the full model. */
export function shownIn(
  { sessions, tiers, founders, training }: RunSpec,
  run: Digest,
  session: string,
) {
  const delegation = () =>
    founders.includes(session) ? null : delegatedBy(OWNER, { run, session }, training.rounds - 1);
  const features = {
    ...(sessions && { sessions: { by: delegation() } }),
    ...(tiers > 0 && { widths: { tier: 0 } }),
  };
  return sessions || tiers > 0 ? { features } : {};
}
