/** The wire over real relays: signs, publishes, subscribes, and turns what comes in into beats and contributions. */
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { type Bell, createBell } from '../../base/bell.ts';
import type { Beat } from '../../run/beat.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { PublishOutcome } from '../transport/publishing.ts';
import type { Subscription } from '../transport/relay-set.ts';
import { buildCheckpoint, checkpointFits, type TrainingCheckpoint } from './checkpoints.ts';
import { buildGradient } from './gradients.ts';
import { buildHeartbeat, toBeat } from './heartbeats.ts';
import { type OpenInbox, openRoundInbox } from './round-inbox.ts';
import { roundRecord } from './round-record.ts';
import type { Delivery, OwnCheckpoint, Sending, Wire, WireOptions } from './wire.ts';

/** What most relays take in one event; larger states stay on disk. */
const MAX_CHECKPOINT_BYTES = 65_536;

/** Subscribes to the run's heartbeats at once; gradients are asked for round by round. */
export function createWire(options: WireOptions): Wire {
  const { run, layout, relays, signer, clock, ratio } = options;
  const bell = createBell();
  const beats = new Map<string, Beat>();
  const open = new Set<OpenInbox>();
  const nowSeconds = () => Math.floor(clock.now() / 1000);
  let lastBeatSeconds = 0;

  const hearing = hearBeats(options, beats, bell);
  const publish = (event: SignedEvent): Sending => watchOutcomes(relays.send(event));
  const sign = (draft: EventDraft): SignedEvent => signer.sign(draft);

  const me = signer.publicKey;
  return {
    me,
    bell,
    beats,
    beat(own) {
      // relays keep the newest heartbeat, so one worker's must never share a second
      lastBeatSeconds = Math.max(nowSeconds(), lastBeatSeconds + 1);
      const beat: Beat = {
        ...own,
        worker: signer.publicKey,
        relays: relays.relays,
        createdAt: lastBeatSeconds,
      };
      return publish(sign(buildHeartbeat(run, beat)));
    },
    seal({ delta, ...own }) {
      const { draft, sent, payloadBytes, eventBytes } = buildGradient(
        { run, worker: signer.publicKey, ...own },
        { layout, values: delta },
        { ratio },
        nowSeconds(),
      );
      return { event: JSON.stringify(sign(draft)), sent, payloadBytes, eventBytes };
    },
    send(text) {
      const event: SignedEvent = JSON.parse(text);
      // counted at once: no relay has to bring the own gradient back
      for (const inbox of open) inbox.take(event);
      return publish(event);
    },
    checkpoint(own) {
      const checkpoint = trainingCheckpoint(own, {
        run,
        worker: me,
        relays: relays.relays,
        nowSeconds: nowSeconds(),
      });
      if (!checkpointFits(checkpoint, MAX_CHECKPOINT_BYTES)) return undefined;
      return publish(sign(buildCheckpoint(checkpoint, checkpoint.updatedAt)));
    },
    openRound(request) {
      const inbox: OpenInbox = openRoundInbox(request, {
        ...options,
        bell,
        onClose: () => open.delete(inbox),
      });
      open.add(inbox);
      return inbox;
    },
    traffic() {
      const status = relays.status();
      return {
        bytesSent: status.reduce((sum, { bytesOut }) => sum + bytesOut, 0),
        bytesReceived: status.reduce((sum, { bytesIn }) => sum + bytesIn, 0),
      };
    },
    async close() {
      hearing.close();
      await relays.close();
    },
  };
}

/** Keeps the latest beat of every worker of the run. */
function hearBeats(
  { relays, run, clock }: WireOptions,
  beats: Map<string, Beat>,
  bell: Bell,
): Subscription {
  return relays.subscribe([{ kinds: [heartbeat.kind], '#s': [run] }], {
    onEvent(event) {
      const judged = toBeat(event, { run, nowSeconds: clock.now() / 1000 });
      if (!judged.ok) return;
      const held = beats.get(judged.value.worker);
      if (held && held.createdAt > judged.value.createdAt) return;
      beats.set(judged.value.worker, judged.value);
      bell.ring();
    },
  });
}

function watchOutcomes(outcomes: readonly Promise<PublishOutcome>[]): Sending {
  const takenBy = outcomes.map(async (outcome) => {
    if (!isTaken(await outcome)) throw new Error('not taken');
  });
  const taken = Promise.any(takenBy).then(
    () => true,
    () => false,
  );
  return { taken, settled: Promise.all(outcomes).then(toDelivery) };
}

const isTaken = ({ status }: PublishOutcome): boolean => status === 'accepted';

function toDelivery(outcomes: readonly PublishOutcome[]): Delivery {
  return {
    accepted: outcomes.filter(isTaken).map(({ relay }) => relay),
    failed: outcomes
      .filter((outcome) => !isTaken(outcome))
      .map(({ relay, status, message }) => ({ relay, message: message || status })),
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
