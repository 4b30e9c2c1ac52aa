/** Verified events as nouns of a certified run; proofs of faults are judged on the way. */
import { judgeFault } from '../consensus/round/faults.ts';
import { type BodyOf, noBodies } from '../network/attachments/bodies.ts';
import type { SignedEvent } from '../network/event.ts';
import { type EventCrypto, pureCrypto } from '../network/event-crypto.ts';
import { toCertifiedEvent } from '../network/wire/certified-events.ts';
import { type FeatureSet, noFeatures } from '../run/features.ts';
import type { Digest } from '../run/ids.ts';
import type { Noun } from './evidence.ts';

/** What a verified event says in this run; undefined for what is not of the run, and while its body is not here. */
export function toNoun(
  event: SignedEvent,
  run: Digest,
  crypto: EventCrypto = pureCrypto,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
): Noun | undefined {
  const said = toCertifiedEvent(event, run, crypto, bodyOf, features);
  if (said?.type !== 'accusation') return said;
  const fault = judgeFault(...said.statements);
  const signed = { id: said.id, key: said.key };
  if (fault === undefined) return { ...signed, type: 'unreadable', reason: 'malformed' };
  const { kind, events, key: culprit } = fault;
  return { ...signed, type: 'fault', run, kind, culprit, events };
}
