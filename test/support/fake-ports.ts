/** Ports of a worker without network, disk or engine; the test supplies everything that arrives. */

import { type Clock, createNotifier } from 'nostrain/base';
import type { RoundInbox, SignedEvent, Wire } from 'nostrain/network';
import type { Contribution, Heartbeat, Rejection } from 'nostrain/run';
import { createLayout, type Layout } from 'nostrain/tensor';
import {
  assignChunks,
  completePlan,
  type Plan,
  type Ports,
  type Trainer,
  type WorkerEvent,
  type WorkerState,
} from 'nostrain/worker';
import type { LocalHeartbeat } from '../../src/network/wire/wire.ts';
import { contribution } from './contributions.ts';

export const ME = 'a'.repeat(64);

export const plan = (more: Partial<Plan> = {}): Plan =>
  completePlan({
    ...{ run: 'test', task: 'linear', runtime: 'linear-regression' },
    ...{ rounds: 2, innerSteps: 3, seed: 1, roundTimeoutMs: 10_000, joinTimeoutMs: 5_000 },
    ...more,
  });

/** Every worker sends everything. */
export const everything = assignChunks({
  ...{ run: 'test', round: 0, base: ME, roster: [], owners: 0, fragments: 1, size: 2 },
});

export const layout: Layout = createLayout([{ name: 'w', shape: [2] }]);

export interface FakePorts extends Ports {
  readonly events: WorkerEvent[];
  readonly heartbeatsSent: (LocalHeartbeat & { readonly atMs: number })[];
  readonly saved: WorkerState[];
  readonly sent: SignedEvent[];
  /** Number of rounds whose subscription is open. */
  readonly openRounds: () => number;
  /** A peer's gradient arrives for the round in progress. */
  arrive(one: Contribution): void;
  refuse(rejection: Rejection): void;
  hear(heartbeat: Partial<Heartbeat> & { worker: string }): void;
  /** Unrelated traffic: waiters wake, nothing has changed. */
  noise(): void;
  catchUp(): void;
}

/** A trainer whose H steps move every parameter by -0.5 per round, taking `trainMs` of the clock. */
function fakeTrainer(clock: Clock, trainMs: number): Trainer {
  return {
    device: { device: 'cpu', threads: 1 },
    layout,
    async train(task, onProgress, signal) {
      await clock.sleep(trainMs, signal);
      onProgress({ step: task.steps, steps: task.steps, loss: 1, tokensPerSecond: 1 });
      return {
        params: task.params.map((value) => value - 0.5),
        moments: [],
        losses: new Float32Array(task.steps).fill(1),
        examples: task.steps,
        seconds: trainMs / 1000,
      };
    },
    evaluate: async () => 1,
    sample: async () => new Uint8Array(),
    close: async () => undefined,
  };
}

const delivered = () => ({
  taken: Promise.resolve(true),
  settled: Promise.resolve({ accepted: ['fake'], failed: [] }),
});

export interface FakeOptions {
  readonly trainMs?: number;
  readonly isRateLimited?: boolean;
  /** Share of every value that is sent. */
  readonly sends?: number;
  /** Whether the own gradient is among those averaged. */
  readonly counts?: boolean;
  /** What the inbox of a round does instead. */
  readonly inbox?: Partial<RoundInbox>;
  readonly wire?: Partial<Wire>;
}

export function fakePorts(
  clock: Clock,
  { trainMs = 0, isRateLimited = false, sends = 1, counts = true, ...given }: FakeOptions = {},
): FakePorts {
  const changed = createNotifier();
  const heartbeats = new Map<string, Heartbeat>();
  const contributions = new Map<string, Contribution>();
  const rejections: Rejection[] = [];
  let caughtUp = false;
  let openRounds = 0;
  let signMs = clock.now();
  const [events, heartbeatsSent, saved, sent]: [
    WorkerEvent[],
    (LocalHeartbeat & { atMs: number })[],
    WorkerState[],
    SignedEvent[],
  ] = [[], [], [], []];
  const wire: Wire = {
    me: ME,
    changed,
    heartbeats,
    get silentMs() {
      return clock.now() - signMs;
    },
    isRateLimited,
    isKeyInUse: false,
    queryGradients: async () => [],
    sendHeartbeat(heartbeat) {
      signMs = clock.now();
      heartbeatsSent.push({ ...heartbeat, atMs: clock.now() });
      return delivered();
    },
    seal: async ({ delta, round, base, examples }) => {
      const values = Array.from(delta, (value) => value * sends);
      const own = contribution(ME, values, { round, base, examples });
      const event = ownEvent(`${round}`.repeat(64), values);
      const sizes = { payloadBytes: 1, eventBytes: 2 };
      return { event, payload: undefined, sent: own.delta, ...sizes };
    },
    open: ({ event }) => contribution(ME, JSON.parse(event.content)).delta,
    lacksWork: () => false,
    resend: async () => undefined,
    renew: async (event) => event,
    send({ event }) {
      sent.push(event);
      signMs = clock.now();
      const delta = JSON.parse(event.content);
      if (counts) contributions.set(ME, contribution(ME, delta, { eventId: event.id }));
      else rejections.push({ reason: 'other-roster', worker: ME, detail: 'refused by the test' });
      changed.notify();
      return delivered();
    },
    relays: ['fake'],
    reachable: () => ['fake'],
    troubles: () => [],
    openRound: () => {
      openRounds++;
      contributions.clear();
      rejections.length = 0;
      return {
        contributions,
        events: new Map(),
        rejections,
        get caughtUp() {
          return caughtUp;
        },
        pulling: () => undefined,
        giveUp: () => undefined,
        close: () => void openRounds--,
        ...given.inbox,
      };
    },
    traffic: () => ({ bytesSent: 0, bytesReceived: 0 }),
    close: async () => undefined,
    ...given.wire,
  };
  return {
    clock,
    wire,
    trainer: fakeTrainer(clock, trainMs),
    store: { load: async () => undefined, save: async (state) => void saved.push(state) },
    report: (event) => void events.push(event),
    events,
    heartbeatsSent,
    saved,
    sent,
    openRounds: () => openRounds,
    arrive: (one) => {
      contributions.set(one.worker, one);
      changed.notify();
    },
    refuse: (rejection) => {
      rejections.push(rejection);
      changed.notify();
    },
    hear: (heartbeat) => {
      heartbeats.set(heartbeat.worker, {
        round: 0,
        intervalSeconds: 60,
        examples: undefined,
        capabilities: [],
        relays: [],
        digest: undefined,
        cohort: undefined,
        leaving: false,
        createdAt: Math.floor(clock.now() / 1000),
        ...heartbeat,
      });
      changed.notify();
    },
    noise: () => changed.notify(),
    catchUp: () => {
      caughtUp = true;
      changed.notify();
    },
  };
}

/** Nobody verifies it: only its id and what it carries are looked at. */
const ownEvent = (id: string, delta: readonly number[]): SignedEvent => ({
  ...{
    id,
    pubkey: ME,
    created_at: 0,
    kind: 7810,
    tags: [],
    content: JSON.stringify(delta),
    sig: '',
  },
});
