/**
 * Converts gradient and heartbeat events to contributions and heartbeats, and back. The wire carries after - before,
 * all other code uses Δ = before - after: signs flip here, once in each direction.
 */
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { utf8 } from '../../base/bytes.ts';
import { type EventDraft, type SignedEvent, signedEventBytes } from '../../network/event.ts';
import {
  accept,
  type ClaimContext,
  codecReason,
  type Judged,
  judgeClaim,
  reject,
} from '../../network/wire/judged.ts';
import type { Contribution, Heartbeat } from '../../run/contribution.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Layout, Params, Vector } from '../../tensor/params.ts';
import { type PartialVector, partialOf } from '../../tensor/partial-vector.ts';
import type { ContainerLimits } from '../codec/container.ts';
import { decodeNstr, encodeNstr, type NstrEncoding, type NstrStats } from '../codec/nstr.ts';

/** Returns 0 - x for each value, so that zero stays +0 in both directions. */
export function flipped<T extends Vector>(values: T): T;
export function flipped(values: Vector): Vector {
  return values.map((value) => 0 - value);
}

/** What a gradient event must agree with to count. */
export interface GradientContext extends ClaimContext, ContainerLimits {
  readonly layout: Layout;
}

/** Reads the contribution from a verified event, or returns why it does not count. The payload is decoded last. */
export function toContribution(event: SignedEvent, context: GradientContext): Judged<Contribution> {
  const parsed = gradient.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const tags = parsed.value;
  const rejected = judgeClaim(event, { ...tags, base: tags.model }, context);
  if (rejected !== undefined) return rejected;
  const decoded = decodeNstr(tags.payload, context);
  if (!decoded.ok) {
    const { code, at, message } = decoded.issue;
    return reject(event, codecReason(code), `${code} at ${at}: ${message}`);
  }
  const { delta, stats } = decoded.value;
  const untrue = mismatch(tags, stats);
  if (untrue !== undefined) return reject(event, 'malformed', untrue);
  return accept({
    worker: tags.worker,
    eventId: event.id,
    round: tags.round,
    base: tags.model,
    delta: partialOf({ ...delta, values: flipped(delta.values) }),
    examples: tags.examples,
    steps: tags.steps,
    createdAt: event.created_at,
    payloadBytes: stats.containerBytes,
    eventBytes: utf8(JSON.stringify(event)).length,
  });
}

/** Returns a sentence about the first tag that contradicts the payload, if any. */
export function mismatch(
  tags: { compression: string; params: number; values: number; selected: number },
  stats: NstrStats,
): string | undefined {
  if (tags.compression !== stats.label) {
    return `compression is ${stats.label}, the tag says ${tags.compression}`;
  }
  if (tags.params !== stats.tensors) return `${stats.tensors} tensors, the tag says ${tags.params}`;
  if (tags.values !== stats.total) return `${stats.total} values, the tag says ${tags.values}`;
  if (tags.selected === stats.selected) return undefined;
  return `${stats.selected} values sent, the tag says ${tags.selected}`;
}

/** The tags that describe the payload. */
export const payloadTags = ({ label, tensors, total, selected }: NstrStats) => ({
  compression: label,
  params: tensors,
  values: total,
  selected,
});

/** Fields of a worker's own gradient. */
export interface GradientDraft {
  readonly run: string;
  readonly round: number;
  readonly worker: WorkerId;
  readonly base: Digest;
  readonly steps: number;
  readonly examples?: number | undefined;
}

/** An unsigned gradient event with its sizes and what receivers decode. */
export interface BuiltGradient {
  readonly draft: EventDraft;
  /** Δ = before - after, exactly as receivers decode it; the delta minus this is the residual. */
  readonly sent: PartialVector;
  readonly stats: NstrStats;
  /** Bytes of the container before base64. */
  readonly payloadBytes: number;
  /** Bytes of the signed event as JSON. */
  readonly eventBytes: number;
}

/** Builds an unsigned gradient event that carries Δ = before - after. */
export function buildGradient(
  fields: GradientDraft,
  delta: Params,
  encoding: NstrEncoding,
  createdAt: number,
): BuiltGradient {
  const wireDelta = { layout: delta.layout, values: flipped(delta.values) };
  const { payload, sent, stats } = encodeNstr(wireDelta, encoding);
  const { base: model, ...tags } = fields;
  const draft = gradient.build(
    { ...tags, model, ...payloadTags(stats), payload, scope: true },
    createdAt,
  );
  return {
    draft,
    sent: partialOf({ ...sent, values: flipped(sent.values) }),
    stats,
    payloadBytes: stats.containerBytes,
    eventBytes: signedEventBytes(draft),
  };
}

/** Reads the heartbeat from a verified event, or returns why it does not count. */
export function toHeartbeat(event: SignedEvent, context: ClaimContext): Judged<Heartbeat> {
  const parsed = heartbeat.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const tags = parsed.value;
  const rejected = judgeClaim(event, tags, context);
  if (rejected !== undefined) return rejected;
  return accept({
    worker: tags.worker,
    round: tags.round,
    intervalSeconds: tags.interval,
    examples: tags.examples,
    capabilities: tags.capabilities ?? [],
    relays: tags.relays ?? [],
    digest: tags.model,
    cohort: tags.cohort,
    leaving: tags.leaving ?? false,
    createdAt: event.created_at,
  });
}

/** Builds an unsigned heartbeat event with the values and the date of the heartbeat. */
export function buildHeartbeat(run: string, fields: Heartbeat): EventDraft {
  const { capabilities, relays } = fields;
  return heartbeat.build(
    {
      run,
      worker: fields.worker,
      round: fields.round,
      interval: fields.intervalSeconds,
      examples: fields.examples,
      capabilities: capabilities.length > 0 ? capabilities : undefined,
      relays: relays.length > 0 ? relays : undefined,
      model: fields.digest,
      cohort: fields.cohort,
      leaving: fields.leaving ? true : undefined,
      scope: true,
    },
    fields.createdAt,
  );
}
