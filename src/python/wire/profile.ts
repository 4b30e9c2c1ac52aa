/**
 * Profile nostrain/0, the wire of the Python reference: one whole gradient event (33333) per worker and round,
 * heartbeats, checkpoints, and the search for late gradients.
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

/** Maximum age of events without our scope tags: relays hold those of all runs, and cannot tell them apart. */
const LOOKBACK_SECONDS = 3600;
/** Rounds back that late gradients are looked for. */
const LATE_ROUNDS = 8;
/** Late gradients kept from one query; a run among friends has far fewer. */
const MAX_LATE = 1024;

/** A checkpoint, and the event that carries it. */
export interface CheckpointSent {
  /** In the Python reference's JSON. */
  readonly content: PythonObject;
  /** Undefined where the state is too large for an event. */
  readonly sending: Sending | undefined;
}

/** Which late gradients are looked for. */
interface LateRequest {
  /** Only those of rounds before this one are late. */
  readonly round: number;
  /** Unix seconds; older ones are not looked for. */
  readonly since: number | undefined;
  /** How long the relays may take to answer. */
  readonly waitMs: number;
}

/** How a worker takes part in a run of the Python reference's regressions. */
interface ReferenceWire {
  /** Its name where that is not its key: peers that check keys refuse it. */
  readonly worker?: string | undefined;
  /**
   * Accepts whom the Python reference accepts: no scope tags, names that are not keys, gradients made from any state.
   */
  readonly isCompatible: boolean;
  /** What the worker trains, for its heartbeats. */
  readonly runtime: string;
  /** Relays named in its heartbeats; default those it uses. */
  readonly advertised?: readonly string[] | undefined;
}

interface PythonWireSettings {
  /** Absent where the worker trains anything else, or keeps no summaries of the Python reference. */
  readonly reference?: ReferenceWire | undefined;
  /** How payloads are compressed; default zlib. */
  readonly codec?: BlockCodec | undefined;
  /** Reads zstd payloads, and writes them where the codec says so; without it they are refused. */
  readonly zstd?: Zstd | undefined;
}

/** What only this profile sends and looks for. */
export interface PythonEvents {
  /** Publishes the state with as much of its history as fits one event. */
  checkpoint(fields: Omit<TrainingCheckpoint, 'relays'>): CheckpointSent;
  /** Gradients of earlier rounds that the relays hold, by round and worker. */
  late(request: LateRequest): Promise<readonly LateGradient[]>;
}

type ReferenceProfileOptions = ProfileOptions & PythonWireSettings;

/** The core's wire over this profile, and what only the profile has. */
export function createPythonWire(
  options: Omit<WireOptions, 'packing' | 'erasure' | 'eventBudget'> & PythonWireSettings,
): { readonly wire: Wire; readonly events: PythonEvents } {
  const { reference, codec, zstd } = options;
  let events: PythonEvents | undefined;
  const wire = createWire(options, (wired) => {
    const { profile, ...fields } = createReferenceProfile({ ...wired, reference, codec, zstd });
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
  /** Events of the Python reference carry the marker alone; ours can be asked for by run and round. */
  const scopedTo = (...scopes: readonly string[]): Filter =>
    anyKey ? { '#t': ['nostrain'], since: nowSeconds() - LOOKBACK_SECONDS } : { '#s': scopes };
  const profile: Profile = {
    worker: reference?.worker,
    advertised: reference?.advertised ?? relays.relays,
    heartbeatFilter: { kinds: [heartbeat.kind], ...scopedTo(run) },
    capabilities: ['gradient-event', ...(reference ? [reference.runtime] : [])],
    gradientsAreHeartbeats: false, // the reference looks at heartbeats alone
    buildHeartbeat: (heartbeat) => buildHeartbeat(run, spelled(heartbeat)),
    readHeartbeat: (event) => toHeartbeat(event, { run, nowSeconds: clock.now() / 1000, anyKey }),
    async seal({ delta, assignment: _, ...fields }) {
      const gradient = { run, worker, ...fields };
      const built = buildGradient(gradient, { layout, values: delta }, encoding, nowSeconds());
      const { draft, sent, payloadBytes, eventBytes } = built;
      return { event: signer.sign(draft), payload: undefined, sent, payloadBytes, eventBytes };
    },
    open({ event }, { round }) {
      const any = { base: '', checkBase: false, nowSeconds: event.created_at, anyKey };
      const judged = toContribution(event, { ...options, round, ...any });
      if (!judged.ok) throw new TypeError(`not a gradient of ours: ${judged.rejection.detail}`);
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
        const checkBase = context.checkBase && !anyKey;
        return toContribution(event, { ...options, ...context, checkBase, anyKey });
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

/** The last rounds before this one. */
const scopesBefore = (round: number, run: string): readonly string[] =>
  Array.from({ length: Math.min(round, LATE_ROUNDS) }, (_, i) => `${run}/${round - 1 - i}`);

/** Whether an event that came by the marker alone is of this run and round. */
function isOfRound({ tags }: SignedEvent, run: string, round: number): boolean {
  const values = new Map(tags.map(([name, value]) => [name, value]));
  return values.get('run') === run && values.get('round') === String(round);
}

/** Cohorts are lists of keys on the wire: with a named worker among them there is none. */
const spelled = (heartbeat: Heartbeat): Heartbeat =>
  heartbeat.cohort?.every(isHex32) ? heartbeat : { ...heartbeat, cohort: undefined };

/**
 * The checkpoint with as much of its history, newest first, as fits an event; undefined if the state alone does not.
 */
function shortened(whole: TrainingCheckpoint): TrainingCheckpoint | undefined {
  let checkpoint = whole;
  while (!checkpointFits(checkpoint, MAX_CHECKPOINT_BYTES)) {
    const { rounds, lateReconciliations, lateGradients } = checkpoint;
    if (rounds.length <= 1) return undefined;
    checkpoint = {
      ...checkpoint,
      rounds: rounds.slice(Math.ceil(rounds.length / 2)),
      lateReconciliations: lateReconciliations.slice(Math.ceil(lateReconciliations.length / 2)),
      // what still waits to be folded in is more than history
      lateGradients: lateGradients.filter((late) => late.reconciliation_round === undefined),
    };
  }
  return checkpoint;
}

/**
 * The newest gradient of each worker and earlier round, by round, worker, date and id: the order they are summed in.
 * Payloads are decoded where they are used.
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
