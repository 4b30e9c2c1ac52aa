/** Reads back the events of a generated run: joins, leaves and commits as an outcome lists them. */
import { type ProtocolMessage, toProtocolMessage, toVote } from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import { anyFeatures, type Commit, type Digest, type Signed } from 'nostrain/run';
import type { ListedJoin, ListedLeave } from '../../src/run/listed.ts';
import { withFeatures } from '../../src/run/spec/features.ts';

/** The message in a generated event; throws if it has another type. */
function messageOf<T extends ProtocolMessage['type']>(event: SignedEvent, run: Digest, type: T) {
  const features = type === 'join' ? anyFeatures : undefined;
  const message = toProtocolMessage(event, run, undefined, undefined, features);
  if (message?.type !== type) throw new Error(`${event.id} is no ${type}`);
  return message as Extract<ProtocolMessage, { readonly type: T }>;
}

export function listedJoin(event: SignedEvent, run: Digest): ListedJoin {
  const { key, after, tip, evidence, features, signature } = messageOf(event, run, 'join');
  return { key, after, tip, evidence, ...withFeatures(features), ...signature! };
}

export function listedLeave(event: SignedEvent, run: Digest): ListedLeave {
  const { key, last, signature } = messageOf(event, run, 'leave');
  return { key, last, ...signature! };
}

export function commitOf(event: SignedEvent): Signed<Commit> {
  const read = toVote(event, anyFeatures);
  if (!read.ok || read.value.step !== 'commit') throw new Error(`${event.id} is no commit`);
  return read.value;
}
