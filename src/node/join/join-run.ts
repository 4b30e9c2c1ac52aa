/**
 * Joins a certified run on this machine: finds it, takes its key and folder, fetches what the spec names, and trains.
 * What needs a blockchain or a person comes in through ports.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultRetry, systemClock, withScope } from '../../base/async.ts';
import { parseJson } from '../../base/canonical-json.ts';
import { ConfigError, RelayError } from '../../base/errors.ts';
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
import { draftDelegation, readDelegation } from '../../certified/wire/messages.ts';
import { findSnapshot } from '../../certified/wire/snapshots.ts';
import type { Signer } from '../../network/event.ts';
import { hintProblem, parseRelayUrls, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { askBunker, parseBunker } from '../../network/wire/bunker.ts';
import { createWire } from '../../network/wire/create-wire.ts';
import { relaysOfWorkers } from '../../network/wire/worker-relays.ts';
import type { BeaconSource } from '../../run/committee.ts';
import { runDataOf } from '../../run/data-forms.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { PartialSettings, Settings } from '../../run/settings.ts';
import { type Delegation, delegationField } from '../../run/spec/feature-fields.ts';
import { featureSet } from '../../run/spec/features.ts';
import { settingsOf } from '../../run/spec/read-spec.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { type StakeSnapshot, snapshotId, stakeOf } from '../../run/stake/stake-snapshot.ts';
import type { WorkerState } from '../../worker/state.ts';
import { createRunChunks } from '../checkpoint/run-chunks.ts';
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
import { findRun, keepSpec, type ResolvedRun, runDir, sliceOf } from './find-run.ts';

/** What a worker trains on and starts from, if somebody names it. */
export interface TrainingFiles {
  readonly corpus?: string | undefined;
  readonly base?: string | undefined;
}

/** What a run may need that Node.js alone does not have. Each is asked once the spec is known. */
export interface JoinPorts {
  /** The randomness that the run's draws mix in; required in a run with a beacon. */
  beacon?(spec: RunSpec): BeaconSource | undefined;
  /** Where stake tables come from; default relays alone. */
  stakes?(spec: RunSpec, relays: readonly string[], signal: AbortSignal): RefreshPort;
  /** Stores checkpoints where the run says, and fetches them from there. */
  chunks?(
    spec: RunSpec,
    worker: { readonly dir: string; readonly signer: Signer },
  ): Promise<{ readonly chunks: CheckpointChunks | undefined; close(): Promise<void> }>;
  /** Fetches files that the spec or the worker names by hash. */
  files?(
    spec: RunSpec,
    named: TrainingFiles,
    reach: Pick<Connection, 'publicOnly'> & {
      readonly relays: readonly string[];
      readonly signal: AbortSignal;
    },
  ): Promise<TrainingFiles>;
}

/** The machine that joins, and what its user chooses. */
export interface JoinMachine extends JoinPorts {
  /** Relays to meet over; default those that the address names or that the run was joined over before. */
  readonly relays?: readonly string[] | undefined;
  /** Settings that the spec leaves to each worker; those it fixes are refused if they differ. */
  readonly settings?: PartialSettings | undefined;
  readonly corpus?: string | undefined;
  /** The worker's folder; default by run id in the data folder. */
  readonly dir?: string | undefined;
  /** The key: hex or nsec, or its file; default the one in the data folder, which is made if absent. */
  readonly secKey?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly device?: WorkerSessionOptions['device'] | undefined;
  readonly threads?: number | undefined;
  readonly connection?: Connection | undefined;
  /** Relays of a private network are dialled too if a stranger names them. */
  readonly allowPrivateRelays?: boolean | undefined;
  /** Uses the relays too that workers of the run name. */
  readonly discoverRelays?: boolean | undefined;
  /** Relays that heartbeats name. */
  readonly advertise?: readonly string[] | undefined;
  /** An outcome of the branch to be on, if the run has forked. */
  readonly branch?: Digest | undefined;
  /** An outcome that every history must contain. */
  readonly trust?: Digest | undefined;
  /** A stake table that somebody handed over. */
  readonly stake?: StakeSnapshot | undefined;
  /** A remote signer (`bunker://…`, NIP-46) to take part in the name of; it signs once. */
  readonly bunker?: string | undefined;
  /** Whether to ask for seats in committees, in runs whose joins say so; default always. */
  readonly wantsSeats?: (() => boolean) | undefined;
  /** Hears of the spec before anything is fetched; what it throws ends the join. */
  onSpec?(spec: RunSpec): void;
  /** Sentences about what is found before the session starts; the session reports its own. */
  onNotice?(message: string): void;
  readonly report?: ((event: RunEvent) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A run that is ready to be trained in; `session` is what `runWorkerSession` takes beside a device and listeners. */
export interface OpenJoin {
  readonly spec: RunSpec;
  readonly session: Omit<WorkerSessionOptions<CertifiedMembers>, 'device' | 'report' | 'signal'>;
  close(): Promise<void>;
}

/**
 * Joins a certified run by its file, name, address (`naddr1…`) or spec, trains to its end and returns the final
 * state; called again, it resumes. Throws a ConfigError if the run or this machine does not allow it, and
 * `signal.reason`.
 */
export const joinRun = (
  source: string | RunSpec,
  machine: JoinMachine = {},
): Promise<WorkerState> =>
  withScope(async (scope) => {
    const { device = 'auto', threads, report = () => undefined } = machine;
    const { signal = new AbortController().signal } = machine;
    const { session, close } = await openJoin(source, { ...machine, signal });
    scope.defer(close);
    return await runWorkerSession({ ...session, device, threads, report, signal });
  });

const usualConnection: Connection = { openTimeoutMs: 10_000, retry: defaultRetry };

/** Everything that comes before the session, in the order in which each step needs the one before. */
export async function openJoin(
  source: string | RunSpec,
  machine: Omit<JoinMachine, 'report'>,
): Promise<OpenJoin> {
  const {
    settings: asked = {},
    onNotice = () => undefined,
    connection = usualConnection,
  } = machine;
  const { signal = new AbortController().signal, secKey, keyFile } = machine;
  // the session says what is wrong with a key that was passed in
  const signer = await homeSigner(machine, secKey === undefined ? onNotice : () => undefined);
  const advertise = machine.advertise && parseRelayUrls(machine.advertise);
  const reach: RelayReach = { connection, signer, signal, onNotice };
  const found = await findRun(source, { ...machine, ...reach });
  const { run, spec } = found;
  const met = await relaysToUse(found, machine, reach);
  const { relays, publicOnly } = met;
  const own: RelayReach = { ...reach, connection: { ...connection, publicOnly } };
  assertNoContradiction(spec, asked);
  machine.onSpec?.(spec);
  const beacon = beaconOf(spec, machine);
  const dir = machine.dir ?? runDir(run);
  const delegation = await delegationIn(spec, { ...own, run, signer, dir, bunker: machine.bunker });
  assertAdmitted(spec, delegation?.key ?? signer.publicKey);
  const named: TrainingFiles = { corpus: machine.corpus, base: asked.base };
  const { corpus, base } =
    (await machine.files?.(spec, named, { relays, publicOnly, signal })) ?? named;
  const settings = await settingsFor(spec, { dir, asked, base, relays, me: signer.publicKey });
  assertReady(spec, settings, corpus);
  const { start } = spec;
  const isWhole = start !== null && spec.tiers === 0;
  const whole = isWhole ? await openBaseOf(start, settings, { onNotice, signal }) : undefined;
  await makeFolder(dir, spec);
  const slice = await sliceOf(spec, dir, relays, own);
  assertFits(spec, slice);
  const opened = machine.chunks
    ? await machine.chunks(spec, { dir, signer })
    : { chunks: fetchedChunks(spec, machine, { dir, signer }), close: async () => undefined };
  const protocol = certifiedProtocol({
    spec,
    beacon,
    branch: machine.branch,
    trust: machine.trust,
    sha256: nativeSha256,
    crypto: nativeCrypto,
    chunks: opened.chunks,
    delegation,
    wantsSeats: machine.wantsSeats,
    tables: tablesOf(machine.stake),
    recomputation: createRecomputation(spec, whole, settings, { corpus, signal }),
    stakes: machine.stakes?.(spec, relays, signal) ?? stakesFromRelays(relays, own),
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
      openBase: async (each, notes) => whole ?? openBaseOf(start!, each, notes),
      connection: own.connection,
      fixed: fixedData(spec, slice),
      protocol,
    },
    close: async () => opened.close(),
  };
}

/** Stakes by key, by the id of the table. */
export const tablesOf = (given: StakeSnapshot | undefined): CertifiedOptions['tables'] =>
  new Map(given ? [[snapshotId(given), stakeOf(given)]] : []);

/** Tables that relays have; whoever derives one from its chain publishes it. */
const stakesFromRelays = (relays: readonly string[], reach: RelayReach): RefreshPort => ({
  find: (id) =>
    withRelays(relays, reach, async (relaySession) => {
      const found = await findSnapshot(id, relaySession);
      if (found.ok) return found.value;
      const message = `no relay has the stakes ${id}: ${found.issue.message}`;
      throw new RelayError('run/stakes', message, { hint: 'ask other relays' });
    }),
  publish: async () => undefined,
});

function beaconOf(spec: RunSpec, { beacon }: JoinPorts): BeaconSource | undefined {
  const source = beacon?.(spec);
  if (source !== undefined || spec.beacon.kind === 'none') return source;
  throw new ConfigError('run/beacon', `the draws of this run need a ${spec.beacon.kind} beacon`, {
    hint: 'pass a source of it as `beacon`',
  });
}

/** Checkpoints at the mirrors of the run, for a worker that holds none of their chunks. */
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
  readonly asked: PartialSettings;
  /** The base that was fetched or named. */
  readonly base: string | undefined;
  readonly relays: readonly string[];
  readonly me: WorkerId;
}

/** The worker's settings: the spec, then what was asked; a worker that resumes keeps its base and tier by default. */
async function settingsFor(
  spec: RunSpec,
  { dir, asked, base, relays, me }: Choices,
): Promise<Settings> {
  const kept = await keptSettings(dir);
  const isOpen = (asked.tier ?? 'auto') === 'auto';
  const settings = settingsOf(spec, {
    ...asked,
    base: base ?? kept.base ?? '',
    ...(isOpen && { tier: kept.tier ?? 'auto' }),
    ...shardSettings(spec, me, asked),
    relay: relays,
  });
  const { start } = spec;
  return {
    ...settings,
    base: start === null ? '' : lastingBase(referenceOf(start, settings.base)),
  };
}

const DISCOVER_MS = 10_000;

/** Relays to use: those of the run, those that workers name if asked for, and those for private state. */
async function relaysToUse(
  { run, spec, relays, connection }: ResolvedRun,
  { discoverRelays, allowPrivateRelays: allowPrivate = false }: JoinMachine,
  reach: RelayReach,
): Promise<{ readonly relays: readonly string[]; readonly publicOnly: boolean | undefined }> {
  const shown = (known: readonly string[]) => {
    const named = spec.rerun.relays.filter((url) => allowPrivate || hintProblem(url) === undefined);
    return [...known, ...named.filter((url) => !known.includes(url))];
  };
  const { publicOnly } = connection;
  if (!discoverRelays || relays.length === 0) return { relays: shown(relays), publicOnly };
  const own = relays.find((url) => hintProblem(url) !== undefined);
  if (own !== undefined && !allowPrivate) {
    throw new ConfigError(
      'flag/discover-relays',
      `--discover-relays dials what strangers name, and ${withoutSecrets(own)} is of ` +
        'a private network',
      {
        hint: 'leave it out, or say --allow-private-relays: then theirs may lead into your network',
      },
    );
  }
  const asked = { run, founders: spec.founders, known: relays, allowPrivate, waitMs: DISCOVER_MS };
  const more = await withRelays(relays, { ...reach, connection }, (relaySession) =>
    relaysOfWorkers({ ...asked, relays: relaySession.relays, signal: relaySession.signal }),
  );
  const words =
    more.length === 0 ? 'no worker names another relay' : `workers also use ${more.join(', ')}`;
  reach.onNotice?.(words);
  return { relays: shown([...relays, ...more]), publicOnly: allowPrivate ? publicOnly : true };
}

/** What only a joiner can say. */
function assertReady(
  { data, rerun, training }: RunSpec,
  settings: Settings,
  corpus: string | undefined,
): void {
  if (rerun.permille > 0 && settings.precision !== 'f32') {
    throw new ConfigError(
      'flag/precision',
      'the steps of this run are run again by others, in f32: those in ' +
        `${settings.precision} could lead further away than its band`,
      { hint: 'leave --precision out' },
    );
  }
  if (settings.relay.length === 0) {
    throw new ConfigError('flag/relay', 'the file of a run names no relay', {
      hint: 'say where its workers meet: --relay URL',
    });
  }
  if (data.kind === 'own' && corpus === undefined) {
    throw new ConfigError('flag/corpus', 'each worker of this run trains on data of its own', {
      hint: `name yours, a ${runDataOf(training).corpus}, with --corpus PATH`,
    });
  }
}

async function makeFolder(dir: string, spec: RunSpec): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new ConfigError('run/folder', `cannot make the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
  await keepSpec(dir, spec);
}

interface DelegationOptions extends RelayReach {
  readonly run: Digest;
  /** Of the session key. */
  readonly signer: Signer;
  readonly dir: string;
  readonly bunker: string | undefined;
}

/** The delegation in the run's folder, else a new one from the bunker; null if the key acts in its own name. */
async function delegationIn(
  { sessions, training }: RunSpec,
  { dir, run, signer, bunker, connection, signal, onNotice = () => undefined }: DelegationOptions,
): Promise<Delegation | null> {
  if (!sessions) return null;
  const of = { run, session: signer.publicKey };
  const file = join(dir, 'delegation.json');
  const kept = parseJson(await readFile(file, 'utf8').catch(() => ''));
  const known = kept.ok ? delegationField.read(kept.value) : undefined;
  if (known) {
    onNotice(`taking part in the name of ${known.key}, as ${file} says`);
    return known;
  }
  if (bunker === undefined) return null;
  const address = parseBunker(bunker);
  if (!address.ok) {
    throw new ConfigError('flag/bunker', `--bunker: ${address.issue.message}`, {
      hint: 'copy the address that your signer shows for a new connection',
    });
  }
  const draft = draftDelegation(of, training.rounds - 1, Math.floor(systemClock.now() / 1000));
  const reach = { connection, signal, onNotice };
  const event = await withRelays(address.value.relays, reach, ({ relays }) => {
    onNotice('waiting for your signer: it may ask you first');
    const onAuth = (url: string) => onNotice(`your signer asks you to open ${url}`);
    return askBunker(draft, address.value, { relays, clock: systemClock, signal, onAuth });
  });
  const read = readDelegation(event, of);
  if (!read.ok) {
    const message = `what the signer returned does not count: ${read.issue.message}`;
    throw new ConfigError('bunker/other', message, { hint: 'try another signer' });
  }
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeFile(file, `${JSON.stringify(read.value)}\n`, { mode: 0o600 });
  onNotice(`taking part in the name of ${read.value.key}; ${file} keeps that`);
  return read.value;
}

/** What a certified run adds to a worker's state. */
export type CertifiedMembers = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

/** Certified rounds as a worker session plays them. */
export function certifiedProtocol(options: CertifiedOptions): Protocol<CertifiedMembers> {
  const { spec } = options;
  // the parameters of round 0 are those of a base, and do not follow from the spec
  const isGiven = (spec.start?.root ?? null) !== null;
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
        const first = isGiven ? await parts.base?.first(spec.training.seed) : undefined;
        return playCertified(start, session, { ...options, first }, parts);
      },
    }),
  };
}
