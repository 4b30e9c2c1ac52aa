/** Runs one worker of a certified run in a tab, from the link to the last round; its data stays in the browser. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { type Clock, onAbort, type Scope, systemClock, withScope } from '../base/async.ts';
import { ConfigError, RelayError } from '../base/errors.ts';
import { sha256 } from '../base/hash.ts';
import { type CertifiedWorker, joinCertifiedRun } from '../certified/join.ts';
import { assertAdmitted, assertFits, shardSettings } from '../certified/make-spec.ts';
import { archiveRun } from '../certified/records/archive.ts';
import { firstOfFork } from '../certified/records/fork.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import type { CertifiedState } from '../certified/state.ts';
import { fetchRun, fetchSlice } from '../certified/wire/runs.ts';
import { findSnapshot } from '../certified/wire/snapshots.ts';
import { createDrandSource } from '../chain/drand-source.ts';
import { createGet } from '../chain/endpoints.ts';
import { optimizerOf } from '../model/from-settings.ts';
import type { RelaySession } from '../network/attachments/relay-chunks.ts';
import { createSigner } from '../network/event.ts';
import { createRelaySet } from '../network/transport/relay-set.ts';
import { openSocket } from '../network/transport/socket.ts';
import type { BeaconSource } from '../run/committee.ts';
import type { Settings } from '../run/settings.ts';
import { parseRunSpec, settingsOf } from '../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../run/spec/run-spec.ts';
import { decoderIn } from '../run/spec/start.ts';
import { stateDigest } from '../tensor/params.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import type { EngineTrainer } from '../trainer/trainer.ts';
import { memoryOfTraining, modelInTab, offerBase, openTabBase, type TabBase } from './base.ts';
import { openBaseCache } from './base-cache.ts';
import type { Reach } from './base-files.ts';
import { prepareTabTask } from './data.ts';
import type { BaseOffer, Chosen, TabLink } from './link.ts';
import { type Name, nameOf } from './naming.ts';
import { openStorage, prefixOf, type TabStorage, workerStorage } from './storage.ts';
import { createTabTrainer, threadNotice } from './trainer.ts';
import { createWriter, type Write } from './writer.ts';

export interface TabSession {
  readonly link: TabLink;
  readonly chosen?: Chosen | undefined;
  readonly name?: Name | undefined;
  /** The user has accepted the offer of a base. */
  readonly isAccepted?: boolean | undefined;
  /** Resolves when the tab may train: at once, or when its device is charged again. */
  readonly untilAllowed: () => Promise<void>;
  readonly onEnd: (state: CertifiedState) => void;
  readonly onDownload: (have: number, of: number) => void;
  /** Called when the worker trains, with what continues prompts. */
  readonly onWriter: (write: Write) => void;
  /** Reports whether the page is visible. A worker in a hidden page asks for no committee seats, if the run allows. */
  readonly isVisible: () => boolean;
  readonly report: (event: RunEvent) => void;
  readonly signal: AbortSignal;
}

/** Milliseconds to wait for a first relay. */
const READY_MS = 600_000;
/** Milliseconds to wait for the spec. */
const FETCH_MS = 15_000;
/** Milliseconds to wait for an answer of a drand endpoint. */
const DRAND_MS = 15_000;
/** Milliseconds to wait for the evaluation slice. */
const SLICE_MS = 120_000;
/** Maximum bytes of an event; longer ones are ignored, since larger data is sent in chunks. */
const LONGEST_EVENT_BYTES = 512 << 10;
/** Batches of validation windows evaluated after each round; the last round evaluates all. */
const EVALUATE_BATCHES = 4;

/**
 * Trains to the end of the run. Called again after a reload, it resumes. With a published model it stays until the
 * signal aborts, since the text box needs the trainer.
 */
export const runTab = (options: TabSession): Promise<void> =>
  withScope(async (scope) => {
    const { report, signal, link, isVisible: wantsSeats } = options;
    const tab = await openTab(options, scope);
    const run = await prepareRun(tab, options);
    const { spec, settings, task, delegation } = run;
    const opened = await timed('the trainer is ready', options, () =>
      createTabTrainer(setupOf(run, link)),
    );
    const trainer = withPauses(opened, options);
    scope.defer(() => trainer.close());
    for (const message of [trainer.device.notice, threadNotice()]) {
      if (message !== undefined) report({ type: 'notice', message });
    }
    const { secretKey, relays } = tab;
    const kept = workerStorage(tab.storage, tab.prefix);
    const writer = createWriter(run.base, trainer, settings);
    const first = await firstOfFork(spec, {
      sha256,
      signal,
      open: (parent) => archiveRun(parent.run, tab.relaySession),
    });
    const worker = await joinCertifiedRun({
      spec,
      first,
      secretKey,
      relays,
      trainer,
      report,
      signal,
      wantsSeats,
      delegation,
      beacon: beaconOf(spec, link),
      journal: kept.journal,
      store: { ...kept.store, save: (next) => kept.store.save(writer.keep(next)) },
      plan: {
        tokensPerExample: task.tokensPerExample,
        bytesPerToken: task.bytesPerToken,
        evaluate: link.evaluates && settings.evaluate,
        evaluateBatches: EVALUATE_BATCHES,
      },
      stakes: {
        find: (id) => findStakes(id, tab.relaySession),
        // a tab reads no chain, so it has no table to publish
        publish: async () => undefined,
      },
    });
    scope.defer(() => worker.close());
    report(helloOf(run, trainer, worker));
    writer.keep(worker.start);
    options.onWriter(writer.write);
    options.onEnd(await worker.run());
    if (run.base) await new Promise((resolve) => onAbort(signal, () => resolve(undefined)));
  });

/** An open tab before its run is known: storage, key and connected relays. */
type Tab = Awaited<ReturnType<typeof openTab>>;

async function openTab({ link, report, signal }: TabSession, scope: Scope) {
  const storage = await openStorage();
  scope.defer(() => storage.close());
  const prefix = prefixOf(link.address.run, link.slot);
  scope.defer(await takeLock(prefix));
  const secretKey = await keyOf(storage, prefix);
  const signer = createSigner(secretKey);
  const relays = createRelaySet(link.relays, {
    openSocket,
    clock: systemClock,
    auth: signer,
    longestEventBytes: LONGEST_EVENT_BYTES,
  });
  scope.defer(() => relays.close());
  const onNotice = (message: string) => report({ type: 'notice', message });
  await relays.ready(signal, { waitMs: READY_MS, onNotice });
  const relaySession: RelaySession = { relays, clock: systemClock, sha256, signal };
  return { storage, prefix, secretKey, me: signer.publicKey, relays, relaySession };
}

/** The run of this tab: spec, delegation, settings and data. */
type TabRun = Awaited<ReturnType<typeof prepareRun>>;

async function prepareRun(tab: Tab, session: TabSession) {
  const { link, name: given, chosen, report, signal } = session;
  const { storage, prefix, me, relaySession } = tab;
  const { run } = link.address;
  const spec = await specOf(link, storage, relaySession);
  const onNotice = (message: string) => report({ type: 'notice', message });
  const naming = { run, session: me, storage, prefix, given, signal, onNotice };
  const delegation = await nameOf(spec, naming);
  assertAdmitted(spec, delegation?.key ?? me);
  beaconOf(spec, link);
  const settings = settingsOf(spec, {
    relay: tab.relays.relays,
    ...shardSettings(spec, me, {}, delegation),
  });
  const evaluation = await sliceOf(spec, storage, relaySession);
  assertFits(spec, evaluation);
  const base = await baseOf(spec, settings, tab, session);
  const reach = reachOf(tab, session);
  const sources = { storage, prefix, evaluation, reach, chosen, base };
  const task = await timed('the data is ready', session, () =>
    prepareTabTask(spec, settings, sources),
  );
  return { run, spec, delegation, settings, task, base };
}

/** Downloads and opens the base of the run, once the user has accepted it. Throws `tab/start` with the offer before. */
async function baseOf(
  { start, ...spec }: RunSpec,
  { batchSize, context, accumulate }: Settings,
  tab: Tab,
  session: TabSession,
): Promise<TabBase | undefined> {
  const { storage, prefix } = tab;
  const { link, isAccepted, report, onDownload: onProgress } = session;
  if (start === null) return undefined;
  const model = modelInTab({ ...spec, start }, context, link.basePrecision);
  const cache = await openBaseCache();
  const tokens = (batchSize * context) / accumulate;
  const memory = memoryOfTraining(model, decoderIn(start, context), tokens);
  const offer = await offerBase(start, memory, cache);
  const name = `${prefix}/accepted`;
  if (isAccepted || link.starts) await storage.put(name, 'yes');
  else if ((await storage.get(name)) === undefined) throw asOffer(offer);
  const options = {
    ...reachOf(tab, session),
    cache,
    page: import.meta.url,
    onProgress,
    onNotice: (message: string) => report({ type: 'notice', message }),
  };
  return await timed('the model is verified', session, () =>
    openTabBase({ ...spec, start }, model, context, options),
  );
}

/** Runs a part of the opening, and reports how long it took. */
async function timed<T>(part: string, { report }: TabSession, work: () => Promise<T>): Promise<T> {
  const startedMs = systemClock.now();
  const result = await work();
  const seconds = (systemClock.now() - startedMs) / 1000;
  report({ type: 'notice', message: `${part} after ${seconds.toFixed(1)} s` });
  return result;
}

const reachOf = ({ relays }: Tab, { link, signal }: TabSession): Reach => ({
  allowsPrivate: link.isLocal,
  fetch: (url, init) => fetch(url, init),
  clock: systemClock,
  signal,
  relays,
});

const asOffer = (offer: BaseOffer): ConfigError =>
  new ConfigError('tab/start', 'this run fine-tunes a published model', {
    hint: 'read what it takes, and press the button',
    data: { offer },
  });

/** Returns the drand beacon of the run, if any. Throws `tab/beacon` for blocks, or if the link names no endpoint. */
function beaconOf({ beacon }: RunSpec, { drand: urls }: TabLink): BeaconSource | undefined {
  if (beacon.kind === 'none') return undefined;
  if (beacon.kind === 'drand' && urls.length > 0) {
    const get = createGet((url, init) => fetch(url, init));
    return createDrandSource(beacon, { urls, get, clock: systemClock, timeoutMs: DRAND_MS });
  }
  const isDrand = beacon.kind === 'drand';
  throw new ConfigError(
    'tab/beacon',
    isDrand
      ? 'the draws of this run use rounds of drand, and the link names no endpoint'
      : 'the draws of this run use blocks of a chain, which a page cannot read',
    {
      hint: isDrand
        ? 'add &drand=https://… to the link, preferably several'
        : 'join with the program: nostrain run join naddr1…',
    },
  );
}

/** Returns the trainer; it begins no inner phase while the tab is paused. */
const withPauses = (trainer: EngineTrainer, { untilAllowed }: TabSession): EngineTrainer => ({
  ...trainer,
  train: async (...task) => {
    await untilAllowed();
    return trainer.train(...task);
  },
});

const setupOf = ({ settings, task, base }: TabRun, link: TabLink): TrainerSetup => ({
  model: task.model,
  frozen: base?.frozen,
  data: task.data,
  optimizer: optimizerOf(settings),
  batch: settings.batchSize,
  recompute: settings.recompute,
  accumulate: settings.accumulate,
  precision: settings.precision,
  device: link.device,
  threads: link.threads,
});

function helloOf(
  { run, spec, settings }: TabRun,
  { device: { device, threads }, layout }: EngineTrainer,
  { me, start }: CertifiedWorker,
): RunEvent {
  return {
    type: 'hello',
    worker: me,
    run,
    task: settings.model,
    parameters: layout.size,
    device: device === 'cpu' ? 'wasm' : device,
    threads,
    rounds: spec.training.rounds,
    round: start.round,
    innerSteps: settings.innerSteps,
    lossBefore: start.lossBefore,
    digest: stateDigest(start.params),
  };
}

/** Locks this worker until the tab closes: two would contradict each other. Throws `run/busy` if another has it. */
async function takeLock(prefix: string): Promise<() => void> {
  return await new Promise((resolve, reject) => {
    const request = navigator.locks.request(`nostrain/${prefix}`, { ifAvailable: true }, (lock) => {
      if (lock === null) {
        throw new ConfigError('run/busy', 'another tab of this browser trains in this run', {
          hint: 'close it, or add &slot=second to the link for another worker with another key',
        });
      }
      return new Promise<void>((release) => resolve(release));
    });
    request.catch(reject);
  });
}

async function keyOf(storage: TabStorage, prefix: string): Promise<Uint8Array> {
  const name = `${prefix}/key`;
  const kept = await storage.get(name);
  if (kept instanceof Uint8Array && secp256k1.utils.isValidSecretKey(kept)) return kept;
  const secretKey = secp256k1.utils.randomSecretKey();
  await storage.put(name, secretKey);
  return secretKey;
}

/** Returns the stored spec, or downloads it from relays; its hash must be the id in the link. */
async function specOf(
  { address }: TabLink,
  storage: TabStorage,
  relaySession: RelaySession,
): Promise<RunSpec> {
  const { run } = address;
  const kept = await storage.get(`${run}/spec`);
  const read = typeof kept === 'string' ? parseRunSpec(kept) : undefined;
  if (read !== undefined && runIdOf(read) === run) return read;
  const result = await fetchRun(address, { ...relaySession, timeoutMs: FETCH_MS });
  if (!result.ok) {
    throw new RelayError('run/not-found', `run ${run}: ${result.issue.message}`, {
      hint: 'add &relay=wss://… of a relay that has it, or ask the creator of the run',
    });
  }
  await storage.put(`${run}/spec`, canonicalSpec(result.value));
  return result.value;
}

/** Returns the evaluation slice, stored or from relays; undefined if the spec names none. */
async function sliceOf(
  { evaluation, author }: RunSpec,
  storage: TabStorage,
  relaySession: RelaySession,
): Promise<Uint8Array | undefined> {
  if (evaluation === null) return undefined;
  const name = `slice/${evaluation.sha256}`;
  const kept = await storage.get(name);
  if (kept instanceof Uint8Array) return kept;
  const result = await fetchSlice(evaluation, author, { ...relaySession, timeoutMs: SLICE_MS });
  if (!result.ok) {
    throw new RelayError(
      'run/slice',
      `the evaluation slice is not available: ${result.issue.message}`,
      {
        hint: 'add &relay=wss://… of a relay that has it, or ask the author to publish it again',
      },
    );
  }
  await storage.put(name, result.value);
  return result.value;
}

async function findStakes(id: string, relaySession: RelaySession) {
  const result = await findSnapshot(id, relaySession);
  if (result.ok) return result.value;
  throw new RelayError('run/stakes', `no relay has the stakes ${id}: ${result.issue.message}`, {
    hint: 'add &relay=wss://… of a relay that has them',
  });
}

/** Interval of the check for suspensions, in milliseconds. */
const WATCH_MS = 5000;
/** A check that comes this much later, in milliseconds, is explained; shorter delays are a busy machine. */
const SUSPENDED_MS = 30_000;

/** Calls back with one sentence after each suspension. Rejects when the signal aborts. */
export async function watchSuspension(
  clock: Clock,
  signal: AbortSignal,
  onNotice: (message: string) => void,
): Promise<void> {
  for (let seenMs = clock.now(); ; ) {
    await clock.sleep(WATCH_MS, signal);
    const awayMs = clock.now() - seenMs - WATCH_MS;
    seenMs += awayMs + WATCH_MS;
    if (awayMs < SUSPENDED_MS) continue;
    onNotice(
      `the browser suspended this tab for ${Math.round(awayMs / 1000)} s (closed lid, sleep or ` +
        'power saving); nothing is lost: it follows the rounds that it missed',
    );
  }
}
