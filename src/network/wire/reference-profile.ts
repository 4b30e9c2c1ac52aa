/** Profile `nostrain/0`: the events of the Python reference, one gradient (33333) per worker and round, whole. */
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import type { SignedEvent } from '../event.ts';
import { buildCheckpoint, checkpointFits, type TrainingCheckpoint } from './checkpoints.ts';
import { watchOutcomes } from './delivery.ts';
import { buildGradient, toContribution } from './gradients.ts';
import { buildHeartbeat, toBeat } from './heartbeats.ts';
import { contextOf, type Profile, type ProfileOptions } from './profile.ts';
import { roundRecord } from './round-record.ts';
import type { OwnCheckpoint } from './wire.ts';

/** What most relays take in one event; larger states stay on disk. */
const MAX_CHECKPOINT_BYTES = 65_536;

export function createReferenceProfile(options: ProfileOptions): Profile {
  const { run, layout, relays, signer, clock, ratio, signal } = options;
  const encoding = { ratio, zstd: options.codec === 'zstd' ? options.zstd : undefined };
  const worker = signer.publicKey;
  const nowSeconds = () => Math.floor(clock.now() / 1000);
  return {
    beatFilter: { kinds: [heartbeat.kind], '#s': [run] },
    capabilities: ['gradient-event'],
    gradientsBeat: false, // the reference looks at heartbeats alone
    buildBeat: (beat) => buildHeartbeat(run, beat),
    readBeat: (event) => toBeat(event, { run, nowSeconds: clock.now() / 1000 }),
    async seal({ delta, shares: _, ...own }) {
      const { draft, sent, payloadBytes, eventBytes } = buildGradient(
        { run, worker, ...own },
        { layout, values: delta },
        encoding,
        nowSeconds(),
      );
      const event = JSON.stringify(signer.sign(draft));
      return { event, payload: undefined, sent, payloadBytes, eventBytes };
    },
    open({ event }, { round }) {
      const own = JSON.parse(event) as SignedEvent;
      const any = { base: '', checkBase: false, nowSeconds: own.created_at };
      const judged = toContribution(own, { ...options, round, ...any });
      if (!judged.ok) throw new TypeError(`not a gradient of ours: ${judged.rejection.detail}`);
      return judged.value.delta;
    },
    send: ({ event }) =>
      watchOutcomes(relays.send(JSON.parse(event) as SignedEvent, { signal }), relays),
    openRound: (request) => ({
      filter: {
        kinds: [gradient.kind],
        '#s': [request.anyBase ? run : `${run}/${request.round}`],
      },
      roundOf: ({ tags }) => Number(tags.find(([name]) => name === 'round')?.[1]),
      read: (event, round) =>
        toContribution(event, { ...options, ...contextOf(request, round, clock.now()) }),
      close: () => undefined,
    }),
    checkpoint(own) {
      const checkpoint = trainingCheckpoint(own, {
        run,
        worker,
        relays: relays.relays,
        nowSeconds: nowSeconds(),
      });
      if (!checkpointFits(checkpoint, MAX_CHECKPOINT_BYTES)) return undefined;
      const draft = buildCheckpoint(checkpoint, checkpoint.updatedAt);
      return watchOutcomes(relays.send(signer.sign(draft), { signal }), relays);
    },
    close: () => undefined,
  };
}

/** Who the worker is and where it publishes, added to what it knows of its rounds. */
function trainingCheckpoint(
  { rounds, round, ...own }: OwnCheckpoint,
  {
    run,
    worker,
    relays,
    nowSeconds,
  }: { run: string; worker: string; relays: readonly string[]; nowSeconds: number },
): TrainingCheckpoint {
  const unknown = {
    gradientEventId: '',
    heartbeatEventId: '',
    examples: 0,
    totalWeight: 0,
    weighted: true,
  };
  return {
    ...own,
    run,
    worker,
    round,
    nextRound: round + 1,
    roundsCompleted: rounds.length,
    relays,
    rounds: rounds.map((record) =>
      roundRecord({ ...unknown, knownWorkers: record.collectedWorkers, relays, ...record }),
    ),
    lateGradients: [],
    lateReconciliations: [],
    lateGradientSince: nowSeconds,
    updatedAt: nowSeconds,
  };
}
