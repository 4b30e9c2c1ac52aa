/** Starts validators that merge over relays in memory; a quadratic loss replaces the model. */
import { type Clock, philox, unit } from 'nostrain/base';
import {
  createMerging,
  type MergingGroup,
  type Timing,
  ValidatorLink,
} from 'nostrain/merging/parts';
import {
  createPacker,
  createRelaySet,
  createWire,
  type OpenSocket,
  type SignedEvent,
} from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { createLayout } from 'nostrain/tensor';
import {
  completePlan,
  genesis,
  type Ports,
  runWorker,
  type Trainer,
  type WorkerEvent,
  type WorkerState,
} from 'nostrain/worker';
import { keyOf, sharedCrypto, signerOf } from './swarm.ts';

const mergingLayout = createLayout([
  { name: 'a', shape: [4096] },
  { name: 'b', shape: [4096] },
]);

/** When round 0 begins on the clock of a timed stage, after relays have connected. */
export const timingFrom = (nowMs: number, more: Partial<Timing> = {}): Timing => ({
  ...{ startMs: nowMs + 20_000, trainMs: 10_000, scoreMs: 4000, timeoutMs: 8000, retries: 2 },
  ...more,
});

export interface MergingMemberOptions {
  readonly index: number;
  readonly validators: readonly number[];
  readonly relays: readonly string[];
  readonly timing: Timing;
  readonly rounds: number;
  readonly most?: number;
  readonly clock?: Clock;
  readonly openSocket?: OpenSocket;
  /** Difference of this member's clock in milliseconds. */
  readonly skewMs?: number;
  readonly group?: MergingGroup;
  readonly start?: WorkerState;
  /** Returns the parameters after training instead of a step towards the optimum. */
  readonly train?: (params: Float32Array, round: number) => Float32Array;
  /** Starts once this has resolved. */
  readonly after?: Promise<unknown>;
  /** Changes the merge that it sends. */
  readonly lie?: (mean: Float64Array) => Float64Array;
  /** Replaces the losses that it measures in a round. */
  readonly measures?: (loss: number, nowMs: number) => number;
}

export interface MergingMember {
  readonly key: string;
  readonly events: WorkerEvent[];
  /** Digest at the start of each round. */
  readonly digests: Map<number, string>;
  /** States at the start of each round. */
  readonly states: Map<number, WorkerState>;
  /** Time of the clock at which each round ended. */
  readonly endedMs: Map<number, number>;
  readonly finished: Promise<WorkerState>;
  send(event: SignedEvent): Promise<unknown>;
  stop(): void;
}

/** Steps a tenth of the way to 1, with noise of its own. */
const usualTrain = (index: number) => (params: Float32Array, round: number) =>
  params.map(
    (value, i) =>
      value + 0.1 * (1 - value) + 0.01 * (unit(philox([index, round], i, 0, 0, 0)[0]) - 0.5),
  );

function trainerOf(
  { index, train = usualTrain(index), group, measures = (loss) => loss }: MergingMemberOptions,
  clock: Clock,
): Trainer {
  const isTrained = (i: number) =>
    group === undefined || group.trains.some(({ from, to }) => from <= i && i < to);
  return {
    device: { device: 'cpu', threads: 1 },
    layout: mergingLayout,
    async train(task) {
      const before = Float32Array.from(task.params);
      const after = train(before, task.round);
      const params = before.map((value, i) => (isTrained(i) ? after[i]! : value));
      return { params, moments: [], losses: new Float32Array([1]), examples: 1, seconds: 0 };
    },
    evaluate: async () => 1,
    async measure(params, _on, { key, rows }) {
      let sum = 0;
      for (const value of params) sum += (value - 1) ** 2;
      const loss = measures(sum / params.length, clock.now());
      return Float32Array.from(
        { length: rows },
        (_, row) => loss * (1 + 0.01 * unit(philox(key, row, 0, 0, 0)[0])),
      );
    },
    sample: async () => new Uint8Array(),
    close: async () => undefined,
  };
}

export function startMergingMember(options: MergingMemberOptions): MergingMember {
  const { index, validators, timing, rounds, skewMs = 0, most = 8, group } = options;
  const stageClock = options.clock!;
  const clock: Clock = { now: () => stageClock.now() + skewMs, sleep: stageClock.sleep };
  const signer = signerOf(index);
  const relays = createRelaySet(options.relays, {
    openSocket: options.openSocket!,
    clock,
    crypto: sharedCrypto,
  });
  const run = 'merging';
  const common = { run, relays, signer, clock, sha256: nativeSha256 };
  const wire = createWire({ ...common, layout: mergingLayout, maxContainerBytes: 100_000 });
  const link = new ValidatorLink({
    ...common,
    validators: validators.map(keyOf),
    maxBytes: 100_000,
  });
  const events: WorkerEvent[] = [];
  const [digests, states, endedMs] = [new Map(), new Map(), new Map()];
  const ports: Ports = {
    clock,
    trainer: trainerOf(options, clock),
    wire,
    store: { load: async () => undefined, save: async () => undefined },
    report: (event) => void events.push(event),
  };
  const abort = new AbortController();
  const plan = completePlan({
    ...{ run, rounds, innerSteps: 1, residual: 'none', refusesLate: false },
    hearsFinalStates: false,
  });
  const session = { plan, ports, signal: abort.signal };
  const honest = createPacker({ ...common, layout: mergingLayout });
  const packer: typeof honest = options.lie
    ? { ...honest, packInTurns: (mean, how) => honest.packInTurns(options.lie!(mean), how) }
    : honest;
  const merging = createMerging(session, { link, packer, timing, most, cutoff: 0 }, group);
  const strategy: typeof merging = {
    ...merging,
    async prepare(state) {
      endedMs.set(state.round, clock.now());
      const standpoint = await merging.prepare(state);
      digests.set(standpoint.state.round, merging.digestOf(standpoint.state));
      states.set(standpoint.state.round, standpoint.state);
      return standpoint;
    },
  };
  const { size } = mergingLayout;
  const first = genesis({ layout: mergingLayout, values: new Float32Array(size) }, 1);
  const finished = (options.after ?? Promise.resolve())
    .then(() => relays.ready())
    .then(() => runWorker(options.start ?? first, session, strategy))
    .finally(() => {
      link.close();
      return wire.close();
    });
  finished.catch(() => undefined);
  return {
    ...{ key: signer.publicKey, events, digests, states, endedMs, finished },
    send: (event) => relays.publish(event),
    stop: () => abort.abort(new Error('stopped')),
  };
}

/** Notices that a member reported. */
export const noticesOf = ({ events }: MergingMember): readonly string[] =>
  events.flatMap((event) => (event.type === 'notice' ? [event.message] : []));

/** Refusals that a member reported, as `reason: detail`. */
export const refusalsOf = ({ events }: MergingMember): readonly string[] =>
  events.flatMap((event) => (event.type === 'refused' ? [`${event.reason}: ${event.detail}`] : []));
