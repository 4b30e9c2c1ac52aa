/** Runs the workers of a certified run in one process over real relays; simple arithmetic replaces training. */
import { type Clock, systemClock } from 'nostrain/base';
import type { Entry, Journal, RefreshPort, RunEvent } from 'nostrain/certified';
import {
  type applyOutcome,
  type Certified,
  type CertifiedState,
  type CheckpointChunks,
  Control,
  chainHeadOf,
  fromCheckpoint,
  genesisOf,
  type toProtocolMessage,
} from 'nostrain/certified/parts';
import { createRevealChain, revealOf, tipOf } from 'nostrain/consensus';
import {
  createRelaySet,
  createWire,
  type EventCrypto,
  type OpenSocket,
  type RelaySet,
  type Signer,
} from 'nostrain/network';
import { nativeSha256, openSocket } from 'nostrain/node';
import { createNativeSha256 } from 'nostrain/node/parts';
import {
  completeDocument,
  completeSettings,
  featureSet,
  keptSeconds,
  presets,
  type RunSpec,
  readSpec,
  runIdOf,
  sharedNames,
  type Untyped,
  writeSettings,
} from 'nostrain/run';
import type { Layout, Vector } from 'nostrain/tensor';
import { genesis, type Plan, runWorker, type Trainer } from 'nostrain/worker';

import { tierOf } from '../../src/certified/decisions/slices.ts';
import type { FeatureMachine } from '../../src/certified/features/feature.ts';
import { createHistory } from '../../src/certified/history/branches.ts';
import { createMember, type MemberOptions } from '../../src/certified/member.ts';
import type { CertifiedPorts } from '../../src/certified/rounds/events.ts';
import { createCertifiedStrategy } from '../../src/certified/strategy.ts';
import { checkpointFeatures, holdState } from '../../src/certified/wire/checkpoints.ts';
import { createView, fold } from '../../src/dashboard/view.ts';
import { type Attack, misbehave } from './adversary.ts';
import { plan } from './fake-ports.ts';
import {
  arithmeticTrainer,
  keyOf,
  secretOf,
  sharedCrypto,
  signerOf,
  smallLayout,
} from './swarm.ts';

export { keyOf };

export interface SpecOptions {
  readonly founders: readonly number[];
  readonly rounds: number;
  readonly training?: Untyped;
  /** Over the usual ones. */
  readonly document?: Untyped;
  readonly timing?: Untyped;
}

/** Returns a spec with short times; workers still wait for each other. */
export function certifiedSpec(options: SpecOptions): RunSpec {
  const { founders, rounds, training = {}, document = {}, timing = {} } = options;
  const settings = completeSettings(presets.linear, {
    model: 'linear',
    relay: [],
    run: 'run',
    rounds,
  });
  const shared = Object.fromEntries(
    Object.entries(writeSettings(settings)).filter(([name]) => sharedNames.some((n) => n === name)),
  );
  const keys = founders.map(keyOf).sort();
  const cap = settings.innerSteps * settings.batchSize;
  return readSpec(
    completeDocument(
      {
        name: 'test',
        author: keys[0],
        founders: keys,
        training: { ...shared, ...training },
        ...document,
        timing: {
          ...{ graceMinMs: 1500, graceMaxMs: 8000, viewMs: 2000, recoveryMs: 0, ...timing },
        },
      },
      {
        data: { kind: 'made', shards: founders.length },
        limits: { payloadBytes: 1_000_000, weightCap: cap },
      },
    ),
  );
}

/** Data on disk that survives when the process of a worker is killed. */
export interface Disk {
  state: CertifiedState | undefined;
  entry: Entry | undefined;
  /** What decided each round. */
  backfill?: Map<number, string>;
  /** Its inner phase in the middle. */
  phase?: Uint8Array;
}

export interface CertifiedMember {
  readonly id: string;
  readonly clock: Clock;
  readonly events: RunEvent[];
  readonly disk: Disk;
  readonly finished: Promise<CertifiedState>;
  /** Stops like a killed process: sends nothing more, and keeps the disk. */
  stop(): void;
}

export interface CertifiedOptions {
  readonly index: number;
  /** Addresses of relays, or an open relay set. */
  readonly relays: readonly string[] | RelaySet;
  readonly spec: RunSpec;
  /** Default: the system clock. */
  readonly clock?: Clock;
  readonly layout?: Layout;
  /** Parameters to start from; default zeros. */
  readonly first?: Vector;
  readonly trainMs?: number;
  readonly wantsSeats?: () => boolean;
  /** The tier that its join names; default the one it trains. */
  readonly tier?: number;
  /** The index of the group that its join names. */
  readonly group?: number;
  /** What its joins show, in runs that ask for something. */
  readonly admission?: MemberOptions['admission'];
  readonly trainer?: Trainer;
  /** What features get beyond measured losses. */
  readonly machine?: Partial<FeatureMachine>;
  readonly disk?: Disk;
  /** Sees every state that is saved. */
  readonly onSave?: (state: CertifiedState) => void;
  readonly plan?: Partial<Plan>;
  readonly openSocket?: OpenSocket;
  /** Default `sharedCrypto`. */
  readonly crypto?: EventCrypto;
  /** Default that of worker `index`. */
  readonly signer?: Signer;
  /** What an event says; default read anew. */
  readonly read?: typeof toProtocolMessage;
  /** How outcomes are applied; default by computing everything. */
  readonly apply?: typeof applyOutcome;
  /** Default in memory, what is on `disk`. */
  readonly journal?: Journal;
  /** Hears what is else kept in `events`. */
  readonly onEvent?: (event: RunEvent) => void;
  /** How a hostile worker is made. */
  readonly attack?: Attack;
  /** Documents of stakes: read from a chain, found, published. */
  readonly refresh?: RefreshPort;
  /** Returns the beacon value that follows an outcome of this time. */
  readonly beacon?: (time: number) => Promise<string>;
  /** The outcome whose branch somebody chose. */
  readonly through?: string;
  /** Where chunks of checkpoints go and come from, in a run with places. */
  readonly chunks?: CheckpointChunks;
  /** Looks for a certified checkpoint before it starts from round 0. */
  readonly fetchesCheckpoint?: boolean;
}

/** Copies through JSON where the disk would: nothing of a live object survives. */
const memoryJournal = (disk: Disk): Journal => ({
  load: async () => disk.entry,
  save: async (entry) => {
    disk.entry = structuredClone(entry);
  },
  backfill: {
    load: async (round) => disk.backfill?.get(round),
    save: async (round, text) => {
      disk.backfill = (disk.backfill ?? new Map()).set(round, text);
    },
    remove: async (round) => void disk.backfill?.delete(round),
    sizes: async () => new Map([...(disk.backfill ?? [])].map(([at, { length }]) => [at, length])),
  },
});

const connect = (options: CertifiedOptions, clock: Clock): RelaySet =>
  'subscribe' in options.relays
    ? options.relays
    : createRelaySet(options.relays, {
        openSocket: options.openSocket ?? openSocket,
        clock,
        crypto: options.crypto ?? sharedCrypto,
      });

/** Starts one worker; it closes its connections when it ends. */
export function startCertified(options: CertifiedOptions): CertifiedMember {
  const { index, spec, trainMs = 0, layout = smallLayout, clock = systemClock } = options;
  const disk: Disk = options.disk ?? { state: undefined, entry: undefined };
  const { signer = signerOf(index) } = options;
  const run = runIdOf(spec);
  const honest = connect(options, clock);
  const relays = options.attack ? misbehave(honest, signer, options.attack) : honest;
  const { packing, eventBudget, topk: ratio, rounds, innerSteps, seed } = spec.training;
  const wire = createWire({
    ...{ run, layout, relays, signer, clock, sha256: nativeSha256 },
    ...{ packing, eventBudget, ratio, maxContainerBytes: spec.limits.payloadBytes },
    features: featureSet(spec.features),
  });
  const abort = new AbortController();
  const { signal } = abort;
  const events: RunEvent[] = [];
  const report = options.onEvent ?? ((event: RunEvent) => void events.push(event));
  const { crypto = sharedCrypto } = options;
  const features = featureSet(spec.features);
  const control = new Control({
    ...{ run, relays, signer, clock, sha256: nativeSha256, crypto, signal },
    keptSeconds: keptSeconds(spec),
    features,
    read: options.read,
    ...checkpointFeatures(spec, options.chunks, {
      signal,
      report,
      createSha256: createNativeSha256,
    }),
  });
  const ports: CertifiedPorts = {
    clock,
    trainer: options.trainer ?? arithmeticTrainer(index, layout, { clock, trainMs }),
    wire,
    store: {
      load: async () => disk.state,
      save: async (state) => {
        if (signal.aborted) return;
        disk.state = state as CertifiedState;
        options.onSave?.(disk.state);
      },
      phase: {
        load: async () => disk.phase,
        save: async (bytes) => {
          if (!signal.aborted) disk.phase = bytes;
        },
      },
    },
    report,
  };
  const chain = createRevealChain(secretOf(index), run, rounds);
  const { measure } = ports.trainer;
  const member = createMember({
    ...{ wantsSeats: options.wantsSeats, apply: options.apply },
    tier: options.tier ?? tierOf(spec, layout),
    group: options.group,
    admission: options.admission,
    machine: {
      sha256: nativeSha256,
      measuring: measure && { measure, secret: `${index}` },
      ...options.machine,
    },
    ...{ spec, control, journal: options.journal ?? memoryJournal(disk), ports, signal, crypto },
    hold: (state) => holdState(state, options.chunks?.holder, createNativeSha256),
    chain: { tip: tipOf(chain), reveal: (round) => revealOf(chain, round) },
    refresh: options.refresh ?? {
      find: () => Promise.reject(new Error('no stakes here')),
      publish: async () => undefined,
    },
    beacon: options.beacon ?? (() => Promise.reject(new Error('no beacon here'))),
    history: createHistory(spec, {
      ...{ relays, signal, clock, crypto, sha256: nativeSha256, parse: options.read },
      genesis: () => genesisIn(spec, layout, options.first),
    }),
    through: options.through,
  });
  const firstOf = async (): Promise<CertifiedState> => {
    const state = disk.state ?? firstState(spec, layout, options.first);
    if (!options.fetchesCheckpoint) return state;
    const start = genesisIn(spec, layout, options.first);
    const onNotice = (message: string) => void events.push({ type: 'notice', message });
    const asked = { relays, signal, clock, crypto, sha256: nativeSha256, chunks: options.chunks };
    const later = await fromCheckpoint(spec, { ...asked, genesis: start, onNotice });
    if (!later) return state;
    const { round, params, momentum } = later.state;
    const head = chainHeadOf(later.state, later.votes);
    return { ...state, round, params, momentum, head };
  };
  const session = {
    plan: plan({
      run,
      rounds,
      innerSteps,
      seed,
      residual: spec.training.residual,
      ...options.plan,
    }),
    ...{ ports, signal },
  };
  const finished = relays
    .ready(signal, { waitMs: 600_000 })
    .then(() => options.chunks?.holder?.announce(relays, signal))
    .then(async () => runWorker(await firstOf(), session, createCertifiedStrategy(member, session)))
    .finally(() => {
      member.close();
      return relays.close();
    });
  finished.catch(() => undefined);
  return {
    ...{ id: signer.publicKey, clock, events, disk, finished },
    stop: () => abort.abort(new Error('stopped')),
  };
}

/** Of the first parameters that several workers were given. */
const begun = new WeakMap<Vector, Certified>();

function genesisIn(spec: RunSpec, layout: Layout, given?: Vector): Certified {
  const values = given ?? new Float32Array(layout.size);
  const known = begun.get(values);
  if (known?.spec === spec) return known;
  const made = genesisOf(spec, { layout, values }, nativeSha256);
  begun.set(values, made);
  return made;
}

function firstState(spec: RunSpec, layout: Layout, first?: Vector): CertifiedState {
  const start = genesisIn(spec, layout, first);
  return { ...genesis(start.params, 1), head: chainHeadOf(start, null) };
}

export const certifiedRounds = ({ events }: CertifiedMember) =>
  events.filter((event) => event.type === 'round');

/** The model roots that its rounds were certified with. */
export const rootsOf = (member: CertifiedMember) =>
  certifiedRounds(member).map(({ certified }) => certified!.root);

/** Resolves once the worker has finished `count` rounds. */
export const finishedRounds = (member: CertifiedMember, count: number): Promise<void> =>
  until(member, () => certifiedRounds(member).length >= count);

/** Resolves once it holds; rejects when the worker fails, or ends without. */
async function until(member: CertifiedMember, holds: () => boolean): Promise<void> {
  const over = member.finished.then(() => true);
  const soon = () => member.clock.sleep(20).then(() => false);
  while (!holds()) {
    const isOver = await Promise.race([over, soon()]);
    if (isOver && !holds()) throw new Error('the worker has ended, and it does not hold');
  }
}

/** Stops a worker like a killed process, and keeps its disk. */
export async function kill(member: CertifiedMember): Promise<void> {
  member.stop();
  await member.finished.catch(() => undefined);
}

/** What the live view says below its table. */
export const noticesOf = ({ events }: CertifiedMember): readonly string[] =>
  events
    .reduce((view, event) => fold(view, 'alice', event), createView(['alice']))
    .notices.map(({ message }) => message);
