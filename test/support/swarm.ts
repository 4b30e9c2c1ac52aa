/** Runs workers in one process over real relays; arithmetic replaces training, so only the network takes time. */
import { type Clock, philox, systemClock, unit } from 'nostrain/base';
import {
  createRelaySet,
  createSigner,
  createWire,
  type EventCrypto,
  type Mine,
  type OpenSocket,
  type ProfileName,
  type Signer,
  type Wire,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import type { Zstd } from 'nostrain/python';
import { createPythonWire } from 'nostrain/python/parts';
import { type PackingName, tierFeatures } from 'nostrain/run';
import { createLayout, type Layout } from 'nostrain/tensor';
import {
  genesis,
  type Plan,
  type Ports,
  runWorker,
  type Trainer,
  type WorkerEvent,
  type WorkerState,
} from 'nostrain/worker';
import type { ErasureCode } from '../../src/network/chunks/reed-solomon.ts';
import { runPythonWorker } from '../../src/python/worker/strategy.ts';
import { fullSize } from '../../src/tensor/params.ts';
import { plan } from './fake-ports.ts';

export const smallLayout = createLayout([
  { name: 'b', shape: [7] },
  { name: 'w', shape: [5, 10] },
]);

export function secretOf(index: number): Uint8Array {
  if (index < 250) return new Uint8Array(32).fill(index + 1);
  const secret = new Uint8Array(32).fill(1);
  new DataView(secret.buffer).setUint32(0, index);
  return secret;
}

const verdicts = new Map<string, boolean>();
const MAX_VERDICTS = 20_000;

/** Compiled crypto that checks a signature once for all workers of a test. */
export const sharedCrypto: EventCrypto = {
  ...nativeCrypto,
  schnorr: {
    ...nativeCrypto.schnorr,
    verify(...parts) {
      const name = parts.map((part) => Buffer.from(part).toString('latin1')).join();
      const known = verdicts.get(name);
      if (known !== undefined) return known;
      if (verdicts.size >= MAX_VERDICTS) verdicts.clear();
      const isRight = nativeCrypto.schnorr.verify(...parts);
      verdicts.set(name, isRight);
      return isRight;
    },
  },
};

const signers = new Map<number, Signer>();
/** Returns a cached signer, because deriving a public key is slow. */
export function signerOf(index: number): Signer {
  const known = signers.get(index);
  if (known) return known;
  const signer = createSigner(secretOf(index), nativeCrypto);
  signers.set(index, signer);
  return signer;
}

/** Returns the public key of worker `index`. */
export const keyOf = (index: number): string => signerOf(index).publicKey;

/** A layout whose delta does not fit into one event. */
export const largeLayout = createLayout([{ name: 'w', shape: [60_000] }]);

/** Moves every parameter by a draw that depends on the worker, the round and the parameter's value. */
export const arithmeticTrainer = (
  index: number,
  layout: Layout,
  { clock, trainMs }: { readonly clock: Clock; readonly trainMs: number },
): Trainer => ({
  device: { device: 'cpu', threads: 1 },
  layout,
  async train(task, _onProgress, signal) {
    await clock.sleep(trainMs, signal);
    const params = task.params.map(
      (value, i) => value * 0.9 + unit(philox([index, task.round], i, 0, 0, 0)[0]) - 0.5,
    );
    const losses = new Float32Array(task.steps).fill(1);
    return { params, moments: [], losses, examples: 8 + index, seconds: 0 };
  },
  evaluate: async () => 1,
  sample: async () => new Uint8Array(),
  close: async () => undefined,
});

export interface Member {
  readonly id: string;
  readonly events: WorkerEvent[];
  readonly saved: WorkerState[];
  readonly wire: Wire;
  readonly finished: Promise<WorkerState>;
  stop(): void;
}

export interface MemberOptions {
  readonly index: number;
  readonly relays: readonly string[];
  readonly plan: Partial<Plan>;
  readonly trainMs?: number;
  readonly start?: WorkerState;
  readonly trainer?: Trainer;
  readonly profile?: ProfileName;
  readonly erasure?: ErasureCode;
  readonly packing?: PackingName;
  /** Payloads in zstd, of profile `nostrain/0`. */
  readonly zstd?: Zstd;
  readonly layout?: Layout;
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Limit of events per minute to a relay, like `--set relayRate`. */
  readonly eventsPerMinute?: number;
  /** Opens the sockets to relays; a test can intercept messages here. */
  readonly openSocket?: OpenSocket;
  /** Does proof of work; default in turns. */
  readonly mine?: Mine;
}

/** Starts one worker; it closes its connections when it ends. */
export function startMember(options: MemberOptions): Member {
  const { index, trainMs = 0, start, layout = smallLayout, clock = systemClock } = options;
  const signer = signerOf(index);
  const run = options.plan.run ?? 'swarm';
  const relays = createRelaySet(options.relays, {
    openSocket: options.openSocket ?? openSocket,
    clock,
    crypto: sharedCrypto,
    ...(options.eventsPerMinute === undefined ? {} : { eventsPerMinute: options.eventsPerMinute }),
  });
  const [events, saved]: [WorkerEvent[], WorkerState[]] = [[], []];
  const onNotice = (message: string) => void events.push({ type: 'notice', message });
  const wireOptions = {
    ...{ run, layout, relays, signer, clock, sha256: nativeSha256 },
    ...{ packing: options.packing, erasure: options.erasure, peers: options.plan.peers },
    ...{ mine: options.mine, onNotice },
    ...(layout.slices && { features: tierFeatures }),
    ratio: 0.5,
    maxContainerBytes: 10_000 + 6 * fullSize(layout),
  };
  const zstd = { zstd: options.zstd, codec: options.zstd && ('zstd' as const) };
  const python =
    options.profile === 'nostrain/0' ? createPythonWire({ ...wireOptions, ...zstd }) : undefined;
  const wire = python?.wire ?? createWire(wireOptions);
  const ports: Ports = {
    clock,
    trainer: options.trainer ?? arithmeticTrainer(index, layout, { clock, trainMs }),
    wire,
    store: { load: async () => undefined, save: async (state) => void saved.push(state) },
    report: (event) => void events.push(event),
  };
  const abort = new AbortController();
  const first = start ?? genesis({ layout, values: new Float32Array(layout.size) }, 1);
  const session = {
    plan: plan({
      run,
      weights: 'examples',
      weightCap: 100,
      roundTimeoutMs: 20_000,
      ...options.plan,
    }),
    ports,
    signal: abort.signal,
  };
  const finished = relays
    .ready()
    .then(() =>
      python
        ? runPythonWorker(first, { ...session, events: python.events })
        : runWorker(first, session),
    )
    .finally(() => relays.close());
  finished.catch(() => undefined);
  return {
    id: signer.publicKey,
    events,
    saved,
    wire,
    finished,
    stop: () => abort.abort(new Error('stopped')),
  };
}

export const roundsOf = ({ events }: Member) => events.filter((event) => event.type === 'round');

export const divergencesOf = ({ events }: Member) =>
  events.filter((event) => event.type === 'divergence');
