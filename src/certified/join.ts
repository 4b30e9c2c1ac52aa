/** Joins a certified run as one worker, from catching up to the last round, with given relays, trainer and store. */

import { anySignal, systemClock } from '../base/async.ts';
import { toHex } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { sha256 as pureSha256 } from '../base/hash.ts';
import { createSlowReporter, measuringReporter } from '../base/slow.ts';
import { createRevealChain, revealOf, tipOf } from '../consensus/committee/randomness.ts';
import { createSigner, type Signer } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { createWire } from '../network/wire/create-wire.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Delegation } from '../run/spec/feature-fields.ts';
import { featureSet } from '../run/spec/features.ts';
import { settingsOf } from '../run/spec/read-spec.ts';
import { keptSeconds, type RunSpec, runIdOf } from '../run/spec/run-spec.ts';
import { runWorker } from '../worker/loop.ts';
import { type Plan, planOf } from '../worker/plan.ts';
import { SHARD_BATCHES, type Store, type Trainer } from '../worker/ports.ts';
import { genesis } from '../worker/state.ts';
import type { FindCredentials } from './decisions/admission.ts';
import { type Chain, chainHeadOf, genesisOf, openingOf, startOf } from './decisions/chain.ts';
import type { Hashing } from './decisions/evidence.ts';
import { groupNamed } from './decisions/groups.ts';
import { pathOf } from './decisions/replay.ts';
import { tierOf } from './decisions/slices.ts';
import { memoryStates, unknownOrigin } from './features/disclosure.ts';
import type { FeatureMachine, RecomputationTrainers } from './features/feature.ts';
import { statesOn } from './features/rerun.ts';
import type { RefreshPort } from './features/stakes.ts';
import { createHistory } from './history/branches.ts';
import { fromCheckpoint } from './history/catch-up.ts';
import type { ReadOptions } from './history/from-relays.ts';
import { valueAfter } from './history/gather.ts';
import { decisionsOf } from './history/history.ts';
import { type CredentialSearch, seekCredentials } from './invitations.ts';
import { shardSettings } from './make-spec.ts';
import { createMember } from './member.ts';
import type { CertifiedPorts, CertifiedSession } from './rounds/events.ts';
import type { Entry, Journal } from './rounds/journal.ts';
import type { RunMember } from './rounds/round.ts';
import type { CertifiedState } from './state.ts';
import { createCertifiedStrategy } from './strategy.ts';
import { checkpointFeatures, holdState } from './wire/checkpoints.ts';
import { Control } from './wire/control.ts';

/** What a worker of a certified run needs, apart from its machine. */
export interface CertifiedOptions
  extends Hashing,
    Pick<CredentialSearch, 'machine'>,
    Pick<ReadOptions, 'tables' | 'beacon' | 'chunks'> {
  readonly spec: RunSpec;
  /** Parameters of round 0 if the run trains all of a published model; other runs derive them from the seed. */
  readonly first?: Float32Array | undefined;
  /** Source of stake tables; required in a run with stakes. */
  readonly stakes?: RefreshPort | undefined;
  /** Opens trainers that reproduce those of others; without it this worker checks nothing in a run with a jury. */
  readonly recomputation?: RecomputationTrainers | undefined;
  readonly deletedNotes?: FeatureMachine['deletedNotes'];
  /** If the run has forked: an outcome on the branch to follow. */
  readonly branch?: Digest | undefined;
  /** Outcome known from a trusted source: the worker refuses every history without it. */
  readonly trust?: Digest | undefined;
  /** Delegation by the principal in whose name this session key takes part, in a run with sessions. */
  readonly delegation?: Delegation | null | undefined;
  /** Returns whether this worker wants seats, in a run with seat wishes; called every round. Default true. */
  readonly wantsSeats?: (() => boolean) | undefined;
  /** Name of the group whose experts this worker trains, in a run with groups. */
  readonly group?: string | undefined;
}

/**
 * The machine a worker runs on. By default everything is in memory, so after a crash the worker cannot vote in that
 * round.
 */
export interface JoinOptions extends CertifiedOptions {
  /** Connected relays. */
  readonly relays: RelaySet;
  readonly secretKey: Uint8Array;
  readonly trainer: Trainer;
  /** Stores the worker's state; default in memory. */
  readonly store?: Store<CertifiedState> | undefined;
  /** Stores votes before they are sent; default in memory. */
  readonly journal?: Journal | undefined;
  /** Settings that the spec leaves to each worker. */
  readonly plan?: Partial<Plan> | undefined;
  readonly createSha256?: CertifiedPorts['createSha256'];
  report?: CertifiedPorts['report'];
  readonly clock?: CertifiedPorts['clock'] | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A worker that has caught up and is ready to train. */
export interface CertifiedWorker {
  readonly me: WorkerId;
  /** The saved state, else that of the newest certified checkpoint, else that of round 0. */
  readonly start: CertifiedState;
  /** Plays the remaining rounds; resolves with the final state, rejects when the signal aborts. */
  run(): Promise<CertifiedState>;
  close(): Promise<void>;
}

/**
 * Joins a run as one worker: catches up from relays, then trains, votes, and ends each round in the certified state.
 *
 * @example
 * ```ts
 * import { createRelaySet, createSigner, systemClock } from 'nostrain';
 * import { archiveRun, explainRound, formatArchive, joinCertifiedRun, layoutOf } from 'nostrain/certified';
 * import { makeSpec, readArchive, replayRun, runIdOf } from 'nostrain/certified';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
 * await relays.ready();
 * const secretKey = new Uint8Array(32).fill(7);
 * const me = createSigner(secretKey).publicKey;
 * const { spec } = await makeSpec({ me, training: { model: 'linear', rounds: 2 } });
 * const trainer = {
 *   device: { device: 'none', threads: 1 },
 *   layout: layoutOf(spec.training),
 *   train: async ({ params }: { params: Float32Array | Float64Array }) => ({
 *     params: params.map((value) => value + 0.1),
 *     losses: Float32Array.of(1),
 *     moments: [],
 *     examples: 1,
 *     seconds: 0,
 *   }),
 *   evaluate: async () => 1,
 *   sample: async () => new Uint8Array(),
 *   close: async () => undefined,
 * };
 *
 * const worker = await joinCertifiedRun({ spec, secretKey, relays, trainer });
 * const { round, rounds } = await worker.run();
 * round; // => 2
 * rounds.map(({ certified }) => certified?.result); // => ['final', 'final']
 *
 * const { signal } = new AbortController();
 * const archive = await archiveRun(runIdOf(spec), { relays, spec, signal });
 * await worker.close();
 * await relay.close();
 * const read = await readArchive(formatArchive(archive).split('\n'));
 * read.events; // => archive.events
 * const report = await replayRun(read, { spec });
 * report.lines.map(({ checked }) => checked); // => ['full', 'full']
 * const explanation = await explainRound(read, { spec, worker: me, round: 0 });
 * explanation?.why[0]?.startsWith('Counted: outcome '); // => true
 * ```
 */
export async function joinCertifiedRun(options: JoinOptions): Promise<CertifiedWorker> {
  const { spec, first, relays, secretKey, trainer, clock = systemClock, sha256, crypto } = options;
  const { report = () => undefined, signal = new AbortController().signal } = options;
  const { store = memoryStore(), journal = memoryJournal(), createSha256 } = options;
  const signer = createSigner(secretKey, crypto);
  const { layout } = trainer;
  const onNotice = (message: string) => report({ type: 'notice', message });
  const loss = () =>
    trainer.evaluate(startOf(spec, first, tierOf(spec, layout)).values, 'shard', {
      batches: SHARD_BATCHES,
      onProgress: measuringReporter('the model before training', onNotice),
    });
  const reach = { relays, signal, clock, onNotice, tier: tierOf(spec, layout) };
  const start = (await store.load(layout)) ?? (await firstCertified(options, await loss(), reach));
  const settings = settingsOf(spec, { relay: relays.relays });
  const { packing, eventBudget } = settings;
  const wire = createWire({
    run: runIdOf(spec),
    layout,
    relays,
    signer,
    clock,
    onNotice,
    sha256,
    features: featureSet(spec.features),
    packing,
    eventBudget,
    maxContainerBytes: spec.limits.payloadBytes,
  });
  const plan = { ...planOf(settings, {}), ...options.plan };
  const ports = { clock, trainer, wire, store, report, createSha256 };
  const parts = { relays, signer, secretKey, journal };
  return {
    me: signer.publicKey,
    start,
    close: () => wire.close(),
    run: () => playCertified(start, { plan, ports, signal }, options, parts),
  };
}

/** Plays the remaining rounds with the certified strategy over an open wire. */
export async function playCertified(
  start: CertifiedState,
  given: CertifiedSession,
  options: CertifiedOptions,
  parts: MemberParts,
): Promise<CertifiedState> {
  const { spec, trust } = options;
  // the saved state may belong to another history
  if (trust !== undefined && start.round > 0) {
    const { clock } = given.ports;
    const sources = { ...options, relays: parts.relays, clock, signal: given.signal };
    await assertTrusted(spec, openingOf(spec, options), trust, sources);
  }
  const until = anySignal(given.signal);
  // the spec replaces the settings fingerprint
  const session = { ...given, plan: { ...given.plan, fingerprint: undefined } };
  try {
    const { publicKey: key } = parts.signer;
    const admission = await seekCredentials(spec, {
      key,
      ...options,
      after: start.head.parent,
      isMember: start.head.ledger.members.some((row) => row.key === key && row.tip !== null),
      relays: parts.relays,
      clock: given.ports.clock,
      signal: until.signal,
      onNotice: (message) => given.ports.report({ type: 'notice', message }),
    });
    const member = memberOf(options, { ...given, signal: until.signal }, { ...parts, admission });
    options.chunks?.holder?.announce(parts.relays, given.signal);
    try {
      return await runWorker(start, session, createCertifiedStrategy(member, session));
    } finally {
      member.close();
    }
  } finally {
    // no pending wait may keep the process alive
    until.end(new Error('ended'));
  }
}

function memoryStore(): Store<CertifiedState> {
  let state: CertifiedState | undefined;
  return {
    load: async () => state,
    save: async (next) => {
      state = next as CertifiedState;
    },
  };
}

function memoryJournal(): Journal {
  let entry: Entry | undefined;
  return {
    load: async () => entry,
    save: async (next) => {
      entry = next;
    },
  };
}

const noStakes: RefreshPort = {
  find: (id) => Promise.reject(new Error(`no source of the stake table ${id} is configured`)),
  publish: async () => undefined,
};

/** The parts of a worker's machine that its member of a certified run uses. */
export interface MemberParts {
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly secretKey: Uint8Array;
  /** Stores votes. */
  readonly journal: Journal;
}

function memberOf(
  options: CertifiedOptions,
  { ports, signal }: CertifiedSession,
  {
    relays,
    signer,
    secretKey,
    journal,
    admission,
  }: MemberParts & { readonly admission: FindCredentials },
): RunMember {
  const { spec, beacon, branch, stakes = noStakes, sha256 = pureSha256, crypto } = options;
  const run = runIdOf(spec);
  const tier = tierOf(spec, ports.trainer.layout);
  const features = featureSet(spec.features);
  const chain = createRevealChain(secretKey, run, spec.training.rounds);
  const measure = ports.trainer.measure?.bind(ports.trainer);
  const control = new Control({
    run,
    relays,
    signer,
    clock: ports.clock,
    sha256,
    crypto,
    signal,
    keptSeconds: keptSeconds(spec),
    features,
    ...checkpointFeatures(spec, options.chunks, {
      signal,
      report: ports.report,
      createSha256: ports.createSha256,
    }),
  });
  const history = createHistory(spec, {
    relays,
    signal,
    beacon,
    tables: options.tables,
    chunks: options.chunks,
    clock: ports.clock,
    sha256,
    crypto,
    genesis: () => genesisOf(spec, startOf(spec, options.first, tier), sha256),
  });
  return createMember({
    tier,
    group: groupNamed(spec, options.group ?? ''),
    spec,
    control,
    journal,
    ports,
    signal,
    crypto,
    admission,
    hold: (state) => holdState(state, options.chunks?.holder, ports.createSha256),
    wantsSeats: options.wantsSeats,
    machine: {
      sha256,
      deletedNotes: options.deletedNotes,
      measuring: measure && { measure, secret: toHex(secretKey) },
      disclosure: {
        relays,
        origin:
          ports.trainer.origin ??
          unknownOrigin(shardSettings(spec, signer.publicKey, {}, options.delegation).shard),
        store: journal.states ?? memoryStates(),
        sign: (draft) => signer.sign(draft),
      },
      recomputation: options.recomputation && {
        steps: options.recomputation,
        fetch: statesOn({ relays, clock: ports.clock, sha256, signal }),
      },
    },
    chain: { tip: tipOf(chain), reveal: (round) => revealOf(chain, round) },
    refresh: stakes,
    history,
    through: options.trust ?? branch,
    beacon: async (time) => {
      if (beacon === undefined)
        throw new TypeError('the run has a beacon, but no source of it is configured');
      return valueAfter(spec, beacon, time, signal);
    },
  });
}

/** Returns the first state of a worker: that of the newest certified checkpoint, else that of round 0. */
export async function firstCertified(
  { spec, first: given, tables, beacon, branch, trust, chunks, sha256, crypto }: CertifiedOptions,
  lossBefore: number,
  {
    tier,
    ...parts
  }: Pick<ReadOptions, 'relays' | 'signal' | 'clock' | 'onNotice'> & {
    /** Tier that this worker trains, in a run with tiers; default the full model. */
    readonly tier?: number;
  },
): Promise<CertifiedState> {
  const params = startOf(spec, given, tier);
  const start = genesisOf(spec, params, sha256);
  const first = { ...genesis(params, lossBefore), head: chainHeadOf(start, null) };
  const slowly = createSlowReporter(parts.onNotice ?? (() => undefined), parts.clock);
  const onProgress = (have: number) => slowly(`catching up: ${have} events of the run are read`);
  const sources = { ...parts, onProgress, sha256, crypto, beacon, tables, chunks };
  if (trust !== undefined) await assertTrusted(spec, start, trust, sources);
  const through = trust ?? branch;
  const later = await fromCheckpoint(spec, { ...sources, genesis: start, through });
  if (later === undefined) return first;
  const { state, votes } = later;
  const { round, params: at, momentum } = state;
  return { ...first, round, params: at, momentum, head: chainHeadOf(state, votes) };
}

/** Throws a ConfigError (`run/untrusted`) if relays have no certified history with this outcome. */
async function assertTrusted(
  spec: RunSpec,
  start: Chain,
  trust: Digest,
  options: ReadOptions,
): Promise<void> {
  const { gathered } = await decisionsOf(spec, start, options);
  if (pathOf(start, gathered, trust).stops.has(trust)) return;
  const message = `these relays have no certified history with outcome ${trust}`;
  const hint = 'add other relays with --relay URL, or check the outcome with its source';
  throw new ConfigError('run/untrusted', message, { hint });
}
