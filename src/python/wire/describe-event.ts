/** Events of the Python reference as the JSON members of inspect-event, of collections, and of event files. */
import { type JsonObject, parseJson } from '../../formats/python-json.ts';
import type { EventCrypto } from '../../network/event-crypto.ts';
import {
  fingerprint,
  type LooseEvent,
  type ReferenceEvent,
  signingState,
} from './reference-event.ts';

/** The members `inspect-event --json` prints, in its order. */
export function inspectedEvent(read: ReferenceEvent, crypto?: EventCrypto): JsonObject {
  const { event, type, said } = read;
  const state = signingState(event);
  return {
    event_id: fingerprint(event, crypto),
    type,
    kind: BigInt(event.kind),
    created_at: BigInt(event.created_at),
    signed: state === 'signed',
    signing_state: state,
    pubkey: event.pubkey ?? null,
    worker: said.worker,
    run: said.run,
    round: BigInt(said.round),
    ...detailsOf(read),
  };
}

/** The members a collected event has in the summaries of collect-events and the discover commands, in their order. */
export function collectedEvent(read: ReferenceEvent, crypto?: EventCrypto): JsonObject {
  const { event, said } = read;
  const round = BigInt(said.round);
  const [run, worker] = [said.run, said.worker];
  const identity = {
    gradient: { run, round, worker },
    heartbeat: { run, worker, current_round: round },
    checkpoint: { run, worker, round },
  }[read.type];
  return {
    event_id: fingerprint(event, crypto),
    kind: BigInt(event.kind),
    created_at: BigInt(event.created_at),
    signed: signingState(event) === 'signed',
    pubkey: event.pubkey ?? null,
    ...identity,
    ...detailsOf(read),
  };
}

/** The same with the event itself and, of a checkpoint, its content. */
export function collectedWhole(read: ReferenceEvent, crypto?: EventCrypto): JsonObject {
  const whole = { ...collectedEvent(read, crypto), event: eventJson(read.event) };
  if (read.type !== 'checkpoint') return whole;
  const content = parseJson(read.said.body);
  return { ...whole, checkpoint: content.ok ? content.value : null };
}

/** An event as the Python reference writes it into files. */
export const eventJson = ({
  kind,
  created_at,
  tags,
  content,
  ...author
}: LooseEvent): JsonObject => ({
  kind: BigInt(kind),
  created_at: BigInt(created_at),
  tags,
  content,
  ...(author.pubkey === undefined ? {} : { pubkey: author.pubkey }),
  ...(author.id === undefined ? {} : { id: author.id }),
  ...(author.sig === undefined ? {} : { sig: author.sig }),
});

function detailsOf(read: ReferenceEvent): JsonObject {
  switch (read.type) {
    case 'gradient': {
      const { model, steps, examples, compression } = read.said;
      const { stats } = read.payload;
      return {
        model,
        steps: BigInt(steps),
        example_count: whole(examples),
        aggregation_weight: BigInt(examples ?? 1),
        compression,
        parameter_count: BigInt(stats.tensors),
        total_values: BigInt(stats.total),
        selected_values: BigInt(stats.selected),
        density: stats.density,
        wire_bytes: BigInt(stats.containerBytes),
        compression_ratio: stats.compressionRatio,
      };
    }
    case 'heartbeat':
      return {
        heartbeat_interval: BigInt(read.said.interval),
        example_count: whole(read.said.examples),
        capabilities: read.said.capabilities ?? [],
        advertised_relays: read.said.relays ?? [],
      };
    case 'checkpoint':
      return {
        history_slot: whole(read.said.slot),
        next_round: BigInt(read.said.nextRound),
        model: read.said.model,
        rounds_completed: BigInt(read.said.roundsCompleted),
        checkpoint_updated_at: BigInt(read.body.updatedAt),
      };
  }
}

const whole = (value: number | undefined): bigint | null =>
  value === undefined ? null : BigInt(value);
