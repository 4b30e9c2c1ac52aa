/** Single events of the Python reference, signed or not: read whole, with whatever is inside them, or refused. */
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import type { Kind } from '../../../kinds/index.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { type ForeignNstr, type ForeignNstrLimits, readNstr } from '../codec/nstr-foreign.ts';
import { type EventCrypto, pureCrypto } from '../event-crypto.ts';
import { type LooseEvent, readLooseEvent } from '../loose-event.ts';
import { type CheckpointBody, readCheckpointBody } from './checkpoints.ts';
import { mismatch } from './gradients.ts';

type Said<K> = K extends Kind<infer T> ? T : never;

/** What one event says; tags are those of the kind, checked against what is inside. */
export type ReferenceEvent = { readonly event: LooseEvent } & (
  | {
      readonly type: 'gradient';
      readonly said: Said<typeof gradient>;
      /** Improvement (after - before), as the wire has it. */
      readonly payload: ForeignNstr;
    }
  | { readonly type: 'heartbeat'; readonly said: Said<typeof heartbeat> }
  | {
      readonly type: 'checkpoint';
      readonly said: Said<typeof checkpoint>;
      readonly body: CheckpointBody;
    }
);

export interface ReferenceEventOptions {
  /** Bounds of a payload, which may be of any model. */
  readonly limits: ForeignNstrLimits;
  readonly crypto?: EventCrypto;
}

/**
 * A gradient, heartbeat or checkpoint in JSON from anyone. Says nothing about who may speak for a worker: look at the event's
 * signing state and compare `said.worker` with its author. Never throws.
 */
export function readReferenceEvent(
  json: unknown,
  { limits, crypto = pureCrypto }: ReferenceEventOptions,
): Result<ReferenceEvent> {
  const event = readLooseEvent(json, crypto);
  return event.ok ? openReferenceEvent(event.value, limits) : event;
}

/** The same of an event whose id and signature were verified before. */
export function openReferenceEvent(
  event: LooseEvent,
  limits: ForeignNstrLimits,
): Result<ReferenceEvent> {
  switch (event.kind) {
    case gradient.kind:
      return readGradient(event, limits);
    case heartbeat.kind: {
      const said = heartbeat.parse(event);
      return said.ok ? ok({ type: 'heartbeat', event, said: said.value }) : said;
    }
    case checkpoint.kind:
      return readCheckpoint(event);
    default: {
      const known = `${gradient.kind}, ${heartbeat.kind} or ${checkpoint.kind}`;
      return refuse('wrong-kind', 'kind', `kind ${event.kind} is not ${known}`);
    }
  }
}

function readGradient(event: LooseEvent, limits: ForeignNstrLimits): Result<ReferenceEvent> {
  const said = gradient.parse(event);
  if (!said.ok) return said;
  const payload = readNstr(said.value.payload, limits);
  if (!payload.ok) return payload;
  const untrue = mismatch(said.value, payload.value.stats);
  if (untrue !== undefined) return refuse('bad-tag', 'tags', untrue);
  return ok({ type: 'gradient', event, said: said.value, payload: payload.value });
}

function readCheckpoint(event: LooseEvent): Result<ReferenceEvent> {
  const said = checkpoint.parse(event);
  if (!said.ok) return said;
  const body = readCheckpointBody(said.value);
  return body.ok ? ok({ type: 'checkpoint', event, said: said.value, body: body.value }) : body;
}
