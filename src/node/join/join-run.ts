/**
 * Joins a certified run on this machine: finds it, loads the key, prepares the folder, downloads the files that the
 * spec names, and trains. Access to blockchains and interaction with the user come in through ports.
 */
import { defaultRetry, withScope } from '../../base/async.ts';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { groupNamed } from '../../certified/decisions/groups.ts';
import { tierOf } from '../../certified/decisions/slices.ts';
import type { RefreshPort } from '../../certified/features/stakes.ts';
import { type CertifiedOptions, firstCertified, playCertified } from '../../certified/join.ts';
import {
  assertAdmitted,
  assertFits,
  assertNoContradiction,
  shardSettings,
} from '../../certified/make-spec.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';
import { type CertifiedState, certifiedMembers } from '../../certified/state.ts';
import type { CheckpointChunks } from '../../certified/wire/checkpoints.ts';
import { findSnapshot } from '../../certified/wire/snapshots.ts';
import { layoutOfRun } from '../../model/from-settings.ts';
import type { Signer } from '../../network/event.ts';
import { hintProblem, parseRelayUrls, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { createWire } from '../../network/wire/create-wire.ts';
import { relaysOfWorkers } from '../../network/wire/worker-relays.ts';
import type { BeaconSource } from '../../run/committee.ts';
import { runDataOf } from '../../run/data-forms.ts';
import type { WorkerId } from '../../run/ids.ts';
import { fields } from '../../run/options.ts';
import type { PartialSettings, Settings } from '../../run/settings.ts';
import type { Delegation } from '../../run/spec/feature-fields.ts';
import { featureSet } from '../../run/spec/features.ts';
import { settingsOf } from '../../run/spec/read-spec.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { type StakeSnapshot, snapshotId, stakeOf } from '../../run/stake/stake-snapshot.ts';
import type { WorkerState } from '../../worker/state.ts';
import type { FileRequest } from '../checkpoint/bring-file.ts';
import { createRunChunks } from '../checkpoint/run-chunks.ts';
import type { MemoryData } from '../data/corpus.ts';
import { type FileReach, openSealedData } from '../data/sealed-data.ts';
import { createRecomputation, fixedData } from '../engine/task-trainer.ts';
import { dataHome } from '../files/data-home.ts';
import { homeSigner } from '../files/keys.ts';
import { keptSettings } from '../files/stored-settings.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { type Connection, type RelayReach, withRelays } from '../net/relays.ts';
import { lastingBase, openBaseOf, referenceOf } from '../pretrained/base-model.ts';
import { LONGEST_EVENT_BYTES, type Protocol } from '../protocol.ts';
import { runWorkerSession, type WorkerSessionOptions } from '../worker-session.ts';
import { delegationIn } from './delegation.ts';
import { findRun, keepSpec, type ResolvedRun, runDir, sliceOf } from './find-run.ts';
import { type MachineOptions, machineFor } from './machine.ts';
import { firstIn } from './parent.ts';

/** The text to train on and the base model to start from, by path, address or hash; each may be unset. */
export interface TrainingFiles {
  readonly corpus?: string | undefined;
  readonly base?: string | undefined;
}

/** Services that a run may need and Node.js alone does not have. Each is called once the spec is known. */
export interface JoinPorts {
  /** Returns the randomness beacon of the run's draws; required in a run with a beacon. */
  beacon?(spec: RunSpec): BeaconSource | undefined;
  /** Returns the source of stake tables; by default relays only. */
  stakes?(spec: RunSpec, relays: readonly string[], signal: AbortSignal): RefreshPort;
  /** Returns a reader of the deletions of notes in this corpus; undefined if this worker does not look for them. */
  deletedNotes?(
    spec: RunSpec,
    corpus: string | undefined,
    reach: FileReach,
  ): Promise<CertifiedOptions['deletedNotes']>;
  /** Opens the storage that checkpoints are uploaded to and downloaded from. */
  chunks?(
    spec: RunSpec,
    worker: { readonly dir: string; readonly signer: Signer },
  ): Promise<{ readonly chunks: CheckpointChunks | undefined; close(): Promise<void> }>;
  /** Downloads files that the spec or the worker names by hash. */
  files?(spec: RunSpec, named: TrainingFiles, reach: FileReach): Promise<TrainingFiles>;
  /** Downloads an encrypted file of the sealed data of a run and returns its path. */
  sealedFile?(spec: RunSpec, file: FileRequest, reach: FileReach): Promise<string>;
}

/** The joining machine and the choices of its user. */
export interface JoinMachine
  extends JoinPorts,
    MachineOptions,
    Pick<WorkerSessionOptions, 'displayName' | 'advertise' | 'threads' | 'secKey' | 'keyFile'>,
    Pick<CertifiedOptions, 'branch' | 'trust' | 'wantsSeats'> {
  /** Relays to use; by default those in the address, or those that the run was joined over before. */
  readonly relays?: readonly string[] | undefined;
  /** Settings that the spec leaves to each worker; those it fixes are refused if they differ. */
  readonly settings?: PartialSettings | undefined;
  readonly corpus?: string | undefined;
  /** The worker's folder; by default in the data folder, named after the run id. */
  readonly dir?: string | undefined;
  readonly device?: WorkerSessionOptions['device'] | undefined;
  readonly connection?: Connection | undefined;
  /** Allows relays in a private network that a stranger named. */
  readonly allowPrivateRelays?: boolean | undefined;
  /** Also uses relays that workers of the run name. */
  readonly discoverRelays?: boolean | undefined;
  /** A stake table that was passed as a file. */
  readonly stake?: StakeSnapshot | undefined;
  /** A remote signer (`bunker://…`, NIP-46) whose key the worker acts for; it signs one delegation. */
  readonly bunker?: string | undefined;
  /** Called with the spec before any download. An error thrown here ends the join. */
  onSpec?(spec: RunSpec): void;
  /** Called with notices until the session starts; the session reports its own. */
  onNotice?(message: string): void;
  readonly report?: ((event: RunEvent) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A run that is ready for training; `session` holds the options of `runWorkerSession` but device and listeners. */
export interface OpenJoin {
  readonly spec: RunSpec;
  readonly session: Omit<WorkerSessionOptions<CertifiedMembers>, 'device' | 'report' | 'signal'>;
  close(): Promise<void>;
}

/**
 * Joins a certified run by its file, name, address (`naddr1…`) or spec, trains to its end and returns the final
 * state. Call it again to resume. Throws a ConfigError if the run or this machine does not allow it, or
 * `signal.reason`.
 */
export const trainInRun = (
  source: string | RunSpec,
  machine: JoinMachine = {},
): Promise<WorkerState> =>
  withScope(async (scope) => {
    const { device = 'auto', threads, displayName, report = () => undefined } = machine;
    const { signal = new AbortController().signal } = machine;
    const { session, close } = await openJoin(source, { ...machine, signal });
    scope.defer(close);
    return await runWorkerSession({ ...session, displayName, device, threads, report, signal });
  });

const usualConnection: Connection = { openTimeoutMs: 10_000, retry: defaultRetry };

/** Prepares the session: each step needs the result of the steps before it. */
export async function openJoin(
  source: string | RunSpec,
  machine: Omit<JoinMachine, 'report'>,
): Promise<OpenJoin> {
  const { settings: chosen = {}, onNotice = () => undefined, bunker } = machine;
  const { joinTimeout = fields.joinTimeout.default } = chosen;
  const connection = { waitMs: joinTimeout * 1000, ...(machine.connection ?? usualConnection) };
  const { signal = new AbortController().signal, secKey, keyFile } = machine;
  // the session reports problems with a key that was passed in
  const signer = await homeSigner(machine, secKey === undefined ? onNotice : () => undefined);
  const advertise = machine.advertise && parseRelayUrls(machine.advertise);
  const reach: RelayReach = { connection, signer, signal, onNotice };
  const resolved = await findRun(source, { ...machine, ...reach });
  const { run, spec } = resolved;
  const { relays, publicOnly } = await relaysToUse(resolved, machine, reach);
  const runReach: RelayReach = { ...reach, connection: { ...connection, publicOnly } };
  assertNoContradiction(spec, chosen);
  machine.onSpec?.(spec);
  const beacon = beaconOf(spec, machine);
  const dir = machine.dir ?? runDir(run);
  const delegation = await delegationIn(spec, { ...runReach, run, signer, dir, bunker });
  assertAdmitted(spec, delegation?.key ?? signer.publicKey);
  const named: TrainingFiles = { corpus: machine.corpus, base: chosen.base };
  const fileReach = { relays, publicOnly, signal };
  const { corpus: file, base } = (await machine.files?.(spec, named, fileReach)) ?? named;
  const me = signer.publicKey;
  const sealedFile = (each: FileRequest) => machine.sealedFile?.(spec, each, fileReach);
  const joiner = { me, corpus: file, sealedFile, onNotice };
  const corpus = spec.sealed.manifest === '' ? file : await openSealedData(spec, joiner);
  const settings = await settingsFor(spec, { dir, chosen, base, relays, me, delegation });
  assertReady(spec, settings, corpus);
  const isFullBase = settings.model === 'pretrained' && spec.tiers === 0;
  const fullBase = isFullBase
    ? await openBaseOf(spec.start!, settings, { onNotice, signal })
    : undefined;
  await keepSpec(dir, spec);
  const slice = await sliceOf(spec, dir, relays, runReach);
  assertFits(spec, slice);
  const storage = machine.chunks
    ? await machine.chunks(spec, { dir, signer })
    : { chunks: fetchedChunks(spec, machine, { dir, signer }), close: async () => undefined };
  const first = await firstIn(dir, spec, { ...machine, ...runReach, relays }, fullBase);
  const protocol = certifiedProtocol({
    spec,
    first,
    beacon,
    branch: machine.branch,
    trust: machine.trust,
    sha256: nativeSha256,
    crypto: nativeCrypto,
    chunks: storage.chunks,
    delegation,
    machine: await machineFor(spec, me, machine),
    wantsSeats: machine.wantsSeats,
    group: settings.group,
    tables: tablesOf(machine.stake),
    deletedNotes: await machine.deletedNotes?.(spec, file, fileReach),
    recomputation: createRecomputation(spec, fullBase, settings, { corpus, signal }),
    stakes: machine.stakes?.(spec, relays, signal) ?? stakesFromRelays(relays, runReach),
  });
  return {
    spec,
    session: {
      settings,
      dir,
      corpus,
      secKey,
      keyFile,
      keyDir: dataHome(),
      advertise,
      openBase: async (each, notes) => fullBase ?? openBaseOf(spec.start!, each, notes),
      connection: runReach.connection,
      fixed: fixedData(spec, slice),
      start: first && { layout: layoutOfRun(spec), values: first },
      protocol,
    },
    close: async () => storage.close(),
  };
}

/** Stakes by key, by the id of the table. */
export const tablesOf = (given: StakeSnapshot | undefined): CertifiedOptions['tables'] =>
  new Map(given ? [[snapshotId(given), stakeOf(given)]] : []);

/** Returns a source of stake tables on relays, where workers that read one from its chain publish it. */
const stakesFromRelays = (relays: readonly string[], reach: RelayReach): RefreshPort => ({
  find: (id) =>
    withRelays(relays, reach, async (relaySession) => {
      const result = await findSnapshot(id, relaySession);
      if (result.ok) return result.value;
      const message = `no relay has the stakes ${id}: ${result.issue.message}`;
      throw new RelayError('run/stakes', message, { hint: 'name other relays with --relay URL' });
    }),
  publish: async () => undefined,
});

function beaconOf(spec: RunSpec, { beacon }: JoinPorts): BeaconSource | undefined {
  const source = beacon?.(spec);
  if (source !== undefined || spec.beacon.kind === 'none') return source;
  throw new ConfigError('run/beacon', `the draws of this run need a ${spec.beacon.kind} beacon`, {
    hint: 'pass its source as `beacon`',
  });
}

/** Returns access to checkpoints at the mirrors of the run, for a worker that holds no chunks itself. */
function fetchedChunks(
  { places, placement: policy }: RunSpec,
  { allowPrivateRelays: allowPrivate = false, onNotice = () => undefined }: JoinMachine,
  { dir: folder, signer }: { readonly dir: string; readonly signer: Signer },
): CheckpointChunks | undefined {
  if (places.length === 0 && policy === null) return undefined;
  return createRunChunks({ servers: places, policy, signer, folder, allowPrivate, onNotice });
}

interface Choices {
  readonly dir: string;
  readonly chosen: PartialSettings;
  /** The downloaded or named base model. */
  readonly base: string | undefined;
  readonly relays: readonly string[];
  readonly me: WorkerId;
  readonly delegation: Delegation | null;
}

/** Returns the worker's settings: the spec, then the user's. By default a resuming worker keeps its base and tier. */
async function settingsFor(
  spec: RunSpec,
  { dir, chosen, base, relays, me, delegation }: Choices,
): Promise<Settings> {
  const kept = await keptSettings(dir);
  const isOpen = (chosen.tier ?? 'auto') === 'auto';
  const settings = settingsOf(spec, {
    ...chosen,
    base: base ?? kept.base ?? '',
    ...(isOpen && { tier: kept.tier ?? 'auto' }),
    group: chosen.group ?? kept.group ?? '',
    ...shardSettings(spec, me, chosen, delegation),
    relay: relays,
  });
  const { start } = spec;
  return {
    ...settings,
    base: start === null ? '' : lastingBase(referenceOf(start, settings.base)),
  };
}

/** Milliseconds to wait for heartbeats that name relays. */
const DISCOVER_MS = 10_000;

/** Returns the relays of the run, those for disclosures, and with `discoverRelays` those that workers name. */
async function relaysToUse(
  { run, spec, relays, connection }: ResolvedRun,
  { discoverRelays, allowPrivateRelays: allowPrivate = false }: JoinMachine,
  reach: RelayReach,
): Promise<{ readonly relays: readonly string[]; readonly publicOnly: boolean | undefined }> {
  const withDisclosureRelays = (known: readonly string[]) => {
    const named = spec.rerun.relays.filter((url) => allowPrivate || hintProblem(url) === undefined);
    return [...known, ...named.filter((url) => !known.includes(url))];
  };
  const { publicOnly } = connection;
  if (!discoverRelays || relays.length === 0)
    return { relays: withDisclosureRelays(relays), publicOnly };
  const privateRelay = relays.find((url) => hintProblem(url) !== undefined);
  if (privateRelay !== undefined && !allowPrivate) {
    throw new ConfigError(
      'flag/discover-relays',
      '--discover-relays connects to relays that strangers name, and ' +
        `${withoutSecrets(privateRelay)} is in a private network`,
      {
        hint: 'leave it out; with --allow-private-relays strangers may name relays in your network',
      },
    );
  }
  const search = { run, founders: spec.founders, known: relays, allowPrivate, waitMs: DISCOVER_MS };
  const more = await withRelays(relays, { ...reach, connection }, (relaySession) =>
    relaysOfWorkers({ ...search, relays: relaySession.relays, signal: relaySession.signal }),
  );
  const words =
    more.length === 0 ? 'no worker names another relay' : `workers also use ${more.join(', ')}`;
  reach.onNotice?.(words);
  return {
    relays: withDisclosureRelays([...relays, ...more]),
    publicOnly: allowPrivate ? publicOnly : true,
  };
}

/** Throws a ConfigError if settings that only the joining worker can give are missing or not allowed. */
function assertReady(spec: RunSpec, settings: Settings, corpus?: string | MemoryData): void {
  const { data, rerun, training } = spec;
  groupNamed(spec, settings.group);
  if (rerun.permille > 0 && settings.precision !== 'f32') {
    throw new ConfigError(
      'flag/precision',
      'other workers recompute the steps of this run in f32: steps in ' +
        `${settings.precision} may differ by more than its tolerance`,
      { hint: 'leave --precision out' },
    );
  }
  if (settings.relay.length === 0) {
    throw new ConfigError('flag/relay', 'the spec file names no relay', {
      hint: 'name a relay that its workers use: --relay URL',
    });
  }
  if (data.kind === 'own' && corpus === undefined) {
    throw new ConfigError('flag/corpus', 'each worker of this run trains on its own data', {
      hint: `name your ${runDataOf(training).corpus} with --corpus PATH`,
    });
  }
}

/** The members that a certified run adds to a worker's state. */
export type CertifiedMembers = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

/** Returns the protocol of certified rounds for a worker session. */
export function certifiedProtocol(options: CertifiedOptions): Protocol<CertifiedMembers> {
  const { spec } = options;
  // the parameters of round 0 come from a base model or a parent, and cannot be derived from the spec
  const isGiven = spec.parent !== null || (spec.start?.root ?? null) !== null;
  return {
    longestEventBytes: LONGEST_EVENT_BYTES,
    members: certifiedMembers,
    maxPayloadBytes: spec.limits.payloadBytes,
    first: ({ lossBefore, params }, parts) => {
      const first = isGiven ? Float32Array.from(params.values) : undefined;
      const tier = tierOf(spec, params.layout);
      return firstCertified({ ...options, first }, lossBefore, { ...parts, tier });
    },
    open: async (wireOptions) => ({
      wire: createWire({ ...wireOptions, features: featureSet(spec.features) }),
      play: async (start, session, parts) => {
        const fromBase = async () => (isGiven ? parts.base?.first(spec.training.seed) : undefined);
        const first = options.first ?? (await fromBase());
        return playCertified(start, session, { ...options, first }, parts);
      },
    }),
  };
}
