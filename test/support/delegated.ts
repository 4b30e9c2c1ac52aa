/** Builds what joins show in tests: delegations signed with the owner's key, and invitations by the first anchor. */
import { draftDelegation, readDelegation } from 'nostrain/certified/parts';
import type { Signer } from 'nostrain/network';
import type { Digest, RunSpec } from 'nostrain/run';
import { invitationTo } from '../../src/certified/invitations.ts';
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

/**
 * Returns what joins of this key show: in runs with sessions a delegation, in runs by invitation an invitation of signer
 * 1, founders neither; in runs with tiers the full model.
 */
export function shownIn(
  { admission, sessions, tiers, founders, training }: RunSpec,
  run: Digest,
  key: string,
) {
  const isFounder = founders.includes(key);
  const delegation = () =>
    isFounder ? null : delegatedBy(OWNER, { run, session: key }, training.rounds - 1);
  const isTrust = admission.kind === 'trust';
  const features = {
    ...(sessions && { sessions: { by: delegation() } }),
    ...(tiers > 0 && { widths: { tier: 0 } }),
    ...(isTrust && { trust: { proof: isFounder ? [] : [invitation(signerOf(1), key)] } }),
  };
  return Object.keys(features).length > 0 ? { features } : {};
}

/** Returns the invitation of a key as a join shows it. */
export function invitation(anchor: Signer, key: string) {
  const { tags, ...event } = anchor.sign(invitationTo(key, AT));
  return { ...event, tags: tags.map((tag) => [...tag]) };
}
