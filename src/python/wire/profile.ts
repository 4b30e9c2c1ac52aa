/**
 * Profile nostrain/0, the wire protocol of the Python reference: one gradient event (33333) with the whole payload per
 * worker and round, heartbeats, checkpoints, and the query for late gradients.
 */
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { isHex32 } from '../../base/bytes.ts';
import type { PythonObject } from '../../formats/python-json.ts';
import type { SignedEvent } from '../../network/event.ts';
import { type Sending, trackOutcomes } from '../../network/transport/delivery.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { createWire } from '../../network/wire/create-wire.ts';
import { judgeClaim, newer, slotOf } from '../../network/wire/judged.ts';
import {
  contextOf,
  type Profile,
  type ProfileOptions,
  type Wire,
  type WireOptions,
} from '../../network/wire/wire.ts';
import type { Heartbeat } from '../../run/contribution.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { BlockCodec, Zstd } from '../codec/container.ts';
import {
  buildCheckpoint,
  checkpointFits,
  contentOf,
  MAX_CHECKPOINT_BYTES,
  type TrainingCheckpoint,
} from './checkpoints.ts';
import { buildGradient, buildHeartbeat, toContribution, toHeartbeat } from './messages.ts';
import type { LateGradient } from './records.ts';

/** Maximum age of events queried without scope tags: such a query returns the events of all runs on a relay. */
const LOOKBACK_SECONDS = 3600;
/** Number of earlier rounds whose late gradients are queried. */
const LATE_ROUNDS = 8;
/** Maximum number of late gradients kept from one query; a run among friends has far fewer. */
const MAX_LATE = 1024;

/** A checkpoint and the event that carries it. */
export interface CheckpointSent {
  /** The checkpoint in the Python reference's JSON. */
  readonly content: PythonObject;
  /** Undefined if the state is too large for an event. */
  readonly sending: Sending | undefined;
}

/** A query for late gradients. */
interface LateRequest {
  /** Gradients of rounds before this one are late. */
  readonly round: number;
  /** Date of the oldest gradient to query, in Unix seconds. */
  readonly since: number | undefined;
  /** How long the relays may take to answer. */
  readonly waitMs: number;
}

/** How a worker takes part in a regression run of the Python reference. */
interface ReferenceWire {
  /** Name of the worker if it is not its key; peers that check keys refuse it. */
  readonly worker?: string | undefined;
  /** Accepts the same events as the Python reference: without scope tags, under any name, made from any state. */
  readonly isCompatible: boolean;
  /** Kind of model, for the worker's heartbeats. */
  readonly runtime: string;
  /** Relays named in its heartbeats; default the relays it uses. */
  readonly advertised?: readonly string[] | undefined;
}

export interface PythonWireSettings {
  /** Absent if the worker trains another model, or keeps no records of the Python reference. */
  readonly reference?: ReferenceWire | undefined;
  /** Share of the delta values that is sent, the largest ones, in (0, 1]. */
  readonly ratio: number;
  /** Compression of payloads; default zlib. */
  readonly codec?: BlockCodec | undefined;
  /** The zstd codec, to read zstd payloads and to write them if `codec` is zstd; without it they are refused. */
  readonly zstd?: Zstd | undefined;
}

/** Events that only this profile has. */
export interface PythonEvents {
  /** Publishes the state with as much of its history as fits into one event. */
  checkpoint(fields: Omit<TrainingCheckpoint, 'relays'>): CheckpointSent;
  /** Queries relays for gradients of earlier rounds; returns them by round and worker. */
  late(request: LateRequest): Promise<readonly LateGradient[]>;
}

type ReferenceProfileOptions = ProfileOptions & PythonWireSettings;

/** Creates the core's wire over this profile, and the events that only this profile has. */
export function createPythonWire(
  options: Omit<WireOptions, 'packing' | 'erasure' | 'eventBudget'> & PythonWireSettings,
): { readonly wire: Wire; readonly events: PythonEvents } {
  const { reference, ratio, codec, zstd } = options;
  let events: PythonEvents | undefined;
  const wire = createWire(options, (wired) => {
    const { profile, ...fields } = createReferenceProfile({
      ...wired,
      reference,
      ratio,
      codec,
      zstd,
    });
    events = fields;
    return profile;
  });
  return { wire, events: events! };
}

function createReferenceProfile(
  options: ReferenceProfileOptions,
): PythonEvents & { readonly profile: Profile } {
  const { run, layout, relays, signer, clock, ratio, signal, reference } = options;
  const worker = reference?.worker ?? signer.publicKey;
  const anyKey = reference?.isCompatible ?? false;
  const encoding = { ratio, zstd: options.codec === 'zstd' ? options.zstd : undefined };
  const nowSeconds = () => Math.floor(clock.now() / 1000);
  const send = (event: SignedEvent): Sending =>
    trackOutcomes(event, relays.send(event, { signal }), relays);
  /** Events of the Python reference have only the `t` mark; ours can be queried by run and round. */
  const scopedTo = (...scopes: readonly string[]): Filter =>
    anyKey ? { '#t': ['nostrain'], since: nowSeconds() - LOOKBACK_SECONDS } : { '#s': scopes };
  const profile: Profile = {
    worker: reference?.worker,
    advertised: reference?.advertised ?? relays.relays,
    heartbeatFilter: { kinds: [heartbeat.kind], ...scopedTo(run) },
    capabilities: ['gradient-event', ...(reference ? [reference.runtime] : [])],
    gradientsAreHeartbeats: false, // the reference counts heartbeats only
    buildHeartbeat: (heartbeat) => buildHeartbeat(run, spelled(heartbeat)),
    readHeartbeat: (event) => toHeartbeat(event, { run, nowSeconds: clock.now() / 1000, anyKey }),
    async seal({ delta, assignment: _, ...fields }) {
      const gradient = { run, worker, ...fields };
      const built = buildGradient(gradient, { layout, values: delta }, encoding, nowSeconds());
      const { draft, sent, payloadBytes, eventBytes } = built;
      return { event: signer.sign(draft), payload: undefined, sent, payloadBytes, eventBytes };
    },
    open({ event }, { round }) {
      const any = { nowSeconds: event.created_at, anyKey };
      const judged = toContribution(event, { ...options, round, ...any });
      if (!judged.ok) throw new TypeError(`not our own gradient: ${judged.rejection.detail}`);
      return judged.value.delta;
    },
    send: ({ event }) => send(event),
    openRound: (request) => ({
      filter: {
        kinds: [gradient.kind],
        ...scopedTo(request.anyBase ? run : `${run}/${request.round}`),
      },
      keepsEvents: reference !== undefined,
      roundOf: ({ tags }) => Number(tags.find(([name]) => name === 'round')?.[1]),
      concerns: (event) => !anyKey || isOfRound(event, run, request.round),
      read(event, round) {
        const context = contextOf(request, round, clock.now());
        const base = anyKey ? undefined : context.base;
        return toContribution(event, { ...options, ...context, base, anyKey });
      },
      close: () => undefined,
    }),
    close: () => undefined,
  };
  return {
    profile,
    checkpoint(fields) {
      const checkpoint = { ...fields, relays: relays.relays };
      const fitting = shortened(checkpoint);
      const event = fitting && signer.sign(buildCheckpoint(fitting, fields.updatedAt));
      return { content: contentOf(checkpoint), sending: event && send(event) };
    },
    late: (request) =>
      findLateGradients(options, scopedTo(...scopesBefore(request.round, run)), request),
  };
}

/** Returns the scope tags of the last rounds before this one. */
const scopesBefore = (round: number, run: string): readonly string[] =>
  Array.from({ length: Math.min(round, LATE_ROUNDS) }, (_, i) => `${run}/${round - 1 - i}`);

/** Reports whether an event from a query by the `t` mark belongs to this run and round. */
function isOfRound({ tags }: SignedEvent, run: string, round: number): boolean {
  const values = new Map(tags.map(([name, value]) => [name, value]));
  return values.get('run') === run && values.get('round') === String(round);
}

/** Drops the cohort if a worker in it has a name: on the wire a cohort is a list of keys. */
const spelled = (heartbeat: Heartbeat): Heartbeat =>
  heartbeat.cohort?.every(isHex32) ? heartbeat : { ...heartbeat, cohort: undefined };

/** Returns the checkpoint with the newest history that fits an event; undefined if the state alone is too large. */
function shortened(whole: TrainingCheckpoint): TrainingCheckpoint | undefined {
  let checkpoint = whole;
  while (!checkpointFits(checkpoint, MAX_CHECKPOINT_BYTES)) {
    const { rounds, lateReconciliations, lateGradients } = checkpoint;
    if (rounds.length <= 1) return undefined;
    checkpoint = {
      ...checkpoint,
      rounds: rounds.slice(Math.ceil(rounds.length / 2)),
      lateReconciliations: lateReconciliations.slice(Math.ceil(lateReconciliations.length / 2)),
      // pending late gradients are part of the state and must be kept
      lateGradients: lateGradients.filter((late) => late.reconciliation_round === undefined),
    };
  }
  return checkpoint;
}

/**
 * Queries the newest gradient of each worker and earlier round; returns them by round, worker, date and id, the order
 * in which they are summed. Payloads stay encoded.
 */
async function findLateGradients(
  { run, relays, clock, signal, maxContainerBytes, reference }: ReferenceProfileOptions,
  scope: Filter,
  { round, since, waitMs }: LateRequest,
): Promise<readonly LateGradient[]> {
  const newest = new Map<string, LateGradient>();
  const ours = { run, nowSeconds: clock.now() / 1000, anyKey: reference?.isCompatible };
  const filter = { ...scope, kinds: [gradient.kind], ...(since === undefined ? {} : { since }) };
  const { events } = await relays.query([filter], { waitMs, signal });
  for (const event of events) {
    const parsed = gradient.parse(event);
    if (!parsed.ok || judgeClaim(event, parsed.value, ours)) continue;
    const { worker, model: base, examples, payload, round: its } = parsed.value;
    if (its >= round || payload.length > 2 * maxContainerBytes) continue;
    const dated = { eventId: event.id, createdAt: event.created_at };
    const late = { round: its, worker, base, examples, payload, ...dated };
    const slot = slotOf(late);
    const previous = newest.get(slot);
    if (previous ? newer(late, previous) : newest.size < MAX_LATE) newest.set(slot, late);
  }
  return [...newest.values()].sort(
    (a, b) =>
      a.round - b.round ||
      compareCodePoints(a.worker, b.worker) ||
      a.createdAt - b.createdAt ||
      compareCodePoints(a.eventId, b.eventId),
  );
}
