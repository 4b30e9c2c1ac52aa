/** Profile `nostrain/0`: the events of the Python reference, one gradient (33333) per worker and round, whole; and the core's wire over it. */
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { isHex32 } from '../../base/bytes.ts';
import type { SignedEvent } from '../../network/event.ts';
import { type Sending, trackOutcomes } from '../../network/transport/delivery.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { createWire } from '../../network/wire/create-wire.ts';
import { contextOf, type Profile, type Wire } from '../../network/wire/wire.ts';
import type { Heartbeat } from '../../run/heartbeat.ts';
import {
  buildCheckpoint,
  checkpointFits,
  contentOf,
  type TrainingCheckpoint,
} from './checkpoints.ts';
import { buildGradient, toContribution } from './gradients.ts';
import { buildHeartbeat, toHeartbeat } from './heartbeats.ts';
import { findLateGradients } from './late-gradients.ts';
import { lateGradientJson, reconciliationJson } from './late-record.ts';
import type {
  CheckpointSent,
  OwnCheckpoint,
  PythonEvents,
  PythonWireOptions,
  ReferenceProfileOptions,
} from './python-events.ts';
import { roundRecord } from './round-record.ts';

/** What most relays take in one event; larger states stay on disk. */
const MAX_CHECKPOINT_BYTES = 65_536;
/** How old events without our scope tags may be: relays have those of all runs, and cannot tell them apart. */
const LOOKBACK_SECONDS = 3600;
/** Gradients that are later than this many rounds are not looked for. */
const LATE_ROUNDS = 8;

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
    async seal({ delta, assignment: _, ...own }) {
      const { draft, sent, payloadBytes, eventBytes } = buildGradient(
        { run, worker, ...own },
        { layout, values: delta },
        encoding,
        nowSeconds(),
      );
      const event = signer.sign(draft);
      return { event, payload: undefined, sent, payloadBytes, eventBytes };
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
    checkpoint: (own) => sendCheckpoint(own, { options, worker, nowSeconds: nowSeconds(), send }),
    late: (request) =>
      findLateGradients(options, scopedTo(...scopesBefore(request.round, run)), request),
  };
}

/** The last rounds before this one. */
const scopesBefore = (round: number, run: string): readonly string[] =>
  Array.from({ length: Math.min(round, LATE_ROUNDS) }, (_, i) => `${run}/${round - 1 - i}`);

/** Whether an event that came by the marker alone is of this run and round. */
function isOfRound({ tags }: SignedEvent, run: string, round: number): boolean {
  const said = new Map(tags.map(([name, value]) => [name, value]));
  return said.get('run') === run && said.get('round') === String(round);
}

/** Cohorts are lists of keys on the wire: with a named worker among them there is none. */
const spelled = (heartbeat: Heartbeat): Heartbeat =>
  heartbeat.cohort?.every(isHex32) ? heartbeat : { ...heartbeat, cohort: undefined };

interface CheckpointSender {
  readonly options: ReferenceProfileOptions;
  readonly worker: string;
  readonly nowSeconds: number;
  send(event: SignedEvent): Sending;
}

function sendCheckpoint(own: OwnCheckpoint, sender: CheckpointSender): CheckpointSent {
  const checkpoint = trainingCheckpoint(own, sender);
  const { signer } = sender.options;
  const shorter = shortened(checkpoint);
  return {
    content: contentOf(checkpoint),
    sending: shorter && sender.send(signer.sign(buildCheckpoint(shorter, checkpoint.updatedAt))),
  };
}

/** As much of the history, newest first, as fits an event beside the state; undefined where the state alone does not. */
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

/** Who the worker is and where it publishes, added to what it knows of its rounds. */
function trainingCheckpoint(
  { rounds, round, late, reconciliations, lateSince, ...own }: OwnCheckpoint,
  { options: { run, relays }, worker, nowSeconds }: CheckpointSender,
): TrainingCheckpoint {
  return {
    ...own,
    run,
    worker,
    round,
    nextRound: round + 1,
    roundsCompleted: rounds.length,
    relays: relays.relays,
    rounds: rounds.map(roundRecord),
    lateGradients: late.map(lateGradientJson),
    lateReconciliations: reconciliations.map(reconciliationJson),
    lateGradientSince: lateSince ?? nowSeconds,
    updatedAt: nowSeconds,
  };
}

export function createPythonWire(options: PythonWireOptions): {
  readonly wire: Wire;
  readonly events: PythonEvents;
} {
  const { reference, codec, zstd } = options;
  let events: PythonEvents | undefined;
  const wire = createWire(options, (wired) => {
    const { profile, ...own } = createReferenceProfile({ ...wired, reference, codec, zstd });
    events = own;
    return profile;
  });
  return { wire, events: events! };
}
