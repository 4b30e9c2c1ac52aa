/** Runs one worker on this machine to its final state: opens its folder, key, relays, data and trainer, and trains. */

import { systemClock, withScope } from '../base/async.ts';
import { ConfigError } from '../base/errors.ts';
import { measuringReporter, whileSlow } from '../base/slow.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import { tiersOf } from '../model/architectures/table.ts';
import type { Tokenizer } from '../model/data/tokens.ts';
import { fullModelOf, initialParameters, modelLayout } from '../model/parameters.ts';
import { mostPayloadBytes } from '../network/codec/codecs.ts';
import { createSigner } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { withoutSecrets } from '../network/transport/relay-urls.ts';
import { wordMachine } from '../run/contribution.ts';
import { helperFeatures } from '../run/helpers.ts';
import { type Settings, writeSettings } from '../run/settings.ts';
import { settingsFingerprint } from '../run/settings-fingerprint.ts';
import { tierFeatures } from '../run/spec/features.ts';
import { type Layout, type Params, stateDigest } from '../tensor/params.ts';
import type { WorkerEvent, WorkerTier } from '../worker/events.ts';
import { type Plan, planOf } from '../worker/plan.ts';
import { SHARD_BATCHES, type Trainer } from '../worker/ports.ts';
import { genesis, type WorkerState } from '../worker/state.ts';
import type { Sources } from './data/sources.ts';
import { largestEvent, prepareTask, type Task } from './data/task.ts';
import { type OpeningTrainer, openTrainer, storedModel } from './engine/task-trainer.ts';
import { dataHome } from './files/data-home.ts';
import { loadKey } from './files/keys.ts';
import { openRunFolder, type RunLock, takeKeyLock } from './files/run-folder.ts';
import { agreeOnBase, agreeOnSettings } from './files/stored-settings.ts';
import { numbersFor } from './files/trained-run.ts';
import { nativeCrypto } from './native/event-crypto.ts';
import { createNativeSha256, nativeSha256 } from './native/sha256.ts';
import { mine } from './net/proof-of-work.ts';
import {
  assertRelaysFit,
  type Connection,
  connectRelays,
  erasureOver,
  noticeOfWaiting,
} from './net/relays.ts';
import { type OpenBase, openBase } from './pretrained/base-model.ts';
import { tierBanner, tierShown, withTier } from './pretrained/worker-tier.ts';
import type { Protocol } from './protocol.ts';

export interface WorkerSessionOptions<M extends object = object>
  extends OpeningTrainer,
    Pick<Sources, 'corpus' | 'dataset' | 'target' | 'fixed' | 'openBase' | 'signal'> {
  readonly dir: string;
  /** What people call this worker. */
  readonly displayName?: string | undefined;
  /** Parameters to start from instead of the seeded ones. */
  readonly start?: Params | undefined;
  /** The key as hex or nsec, or its file; by default that in `keyDir`, created if absent. */
  readonly secKey?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Folder of the key if none is given; default `dir`. */
  readonly keyDir?: string | undefined;
  /** Relays to name in heartbeats. */
  readonly advertise?: readonly string[] | undefined;
  readonly protocol: Protocol<M>;
  readonly connection: Connection;
  /** Replaces the trainer, for demos of workers that misbehave. */
  readonly changeTrainer?: (trainer: Trainer) => Trainer;
  readonly report: (event: RunEvent) => void;
}

/** Batches of validation windows evaluated after each round; the last round evaluates all. */
const EVALUATE_BATCHES = 8;
/** Tokens that the loss before training is measured on: it varies little between windows then, and training waits. */
const FIRST_LOSS_TOKENS = 4096;
/** Characters of the text sample after each round. */
const SAMPLE_LENGTH = 160;
/** Average of published tokenizers. */
const CHARACTERS_PER_TOKEN = 4;

/** Trains to the end of the run and returns the final state. Called again with the same folder, it resumes. */
export const runWorkerSession = <M extends object>(
  options: WorkerSessionOptions<M>,
): Promise<WorkerState> =>
  withScope(async (scope) => {
    const { dir, signal, protocol } = options;
    const folder = await openRunFolder(dir, protocol.members);
    scope.defer(() => folder.close());
    const report = (event: RunEvent) => {
      if (event.type !== 'progress') folder.log(event);
      options.report(event);
    };
    const onNotice = (message: string) => report({ type: 'notice', message });
    const onProgress = (message: string) => report({ type: 'notice', message, about: 'start' });

    const { settings, task: chosen } = await withTier(options.settings, {
      onNotice,
      signal,
      prepare: (each) => prepareTask(each, { ...options, base: undefined, onNotice }),
      open: (each) => openSlowly(each, options, onProgress),
    });
    const base = chosen?.base ?? (await baseFor(settings, { ...options, onNotice }));
    const { secretKey, notices } = await loadKey({ ...options, dir: options.keyDir ?? dir });
    notices.forEach(onNotice);
    const kept = writeSettings({ ...settings, relay: settings.relay.map(withoutSecrets) });
    await agreeOnSettings(dir, kept, { mayExtend: true });
    const signer = createSigner(secretKey, nativeCrypto);
    const lock = await lockKey(settings.run, signer.publicKey, onNotice);
    scope.defer(() => lock?.release());
    const reach = reachOf(settings, options, report);
    const relays = await connectRelays(settings.relay, reach, signer, signal);
    scope.defer(() => relays.close());

    const task = chosen ?? (await prepareTask(settings, { ...options, base, onNotice }));
    const opened = base ?? task.imported;
    if (opened) await agreeOnBase(dir, opened);
    const trainer = await openSlowly(task, options, onProgress);
    scope.defer(() => trainer.close());
    if (trainer.device.notice) onNotice(trainer.device.notice);
    const { relay } = settings;
    const { layout } = trainer;
    const erasure = erasureOver(relays.readRelays, settings.stripe);
    const size = largestEvent(settings, layout, protocol);
    const { publicOnly } = options.connection;
    await assertRelaysFit(relay, size, erasure, { signal, publicOnly, onNotice });

    const first = () => firstState({ ...options, relays, onNotice, onProgress }, task, trainer);
    const state = (await folder.store.load(layout)) ?? (await first());
    const { wire, play: playRounds } = await protocol.open({
      ...sendingOf(settings, task, protocol),
      layout,
      relays,
      signer,
      erasure,
      mine,
      onNotice,
      clock: systemClock,
      sha256: nativeSha256,
      advertise: options.advertise,
    });
    scope.defer(() => wire.close());
    const { displayName: name } = options;
    const plan = planOf(settings, { ...taskPlan(settings, task, trainer), name });
    const tier = tierShown(task);
    if (tier) onNotice(tierBanner(tier, options.settings.tier));
    report(hello(plan, trainer, wire.me, state, tier));
    if (state.round >= plan.rounds) onNotice(finished(state));
    const ports = {
      clock: systemClock,
      wire,
      store: folder.store,
      report,
      trainer: options.changeTrainer?.(trainer) ?? trainer,
      createSha256: createNativeSha256,
    };
    const surroundings = { relays, signer, secretKey, base: opened, journal: folder.votes };
    const final = await playRounds(state, { plan, ports, signal }, surroundings);
    report(await summary(final, trainer, wire.traffic()));
    return final;
  });

/** Returns how the session connects: it waits for a first relay as long as for the other workers. */
const reachOf = <M extends object>(
  { joinTimeout }: Settings,
  { protocol: { longestEventBytes }, connection }: WorkerSessionOptions<M>,
  report: (event: RunEvent) => void,
): Connection => {
  const onNotice = (message: string) => report({ type: 'notice', message, about: 'relays' });
  return {
    waitMs: joinTimeout * 1000,
    onNotice,
    onWaiting: noticeOfWaiting(onNotice),
    longestEventBytes,
    ...connection,
  };
};

/** Opens the trainer, and reports if that takes longer than two seconds. */
const openSlowly = (
  task: Task,
  options: Parameters<typeof openTrainer>[1],
  onProgress: (message: string) => void,
) => whileSlow('opening the trainer', onProgress, () => openTrainer(task, options));

/** Returns the wire options that follow from settings and model. */
function sendingOf(
  { run, peers, packing, eventBudget, tiers, helperRotation }: Settings,
  { model }: Task,
  { maxPayloadBytes }: Pick<Protocol, 'maxPayloadBytes'>,
) {
  const { count = 0, tier = 0, even } = tiersOf(model) ?? {};
  return {
    run,
    peers,
    packing,
    eventBudget,
    maxContainerBytes: maxPayloadBytes ?? mostPayloadBytes(modelLayout(fullModelOf(model))),
    ...(tiers > 0 && { features: tierFeatures }),
    ...(even && { helpers: { count, rotation: helperRotation, tier }, features: helperFeatures }),
  };
}

const baseFor = async (
  settings: Settings,
  { openBase: open = openBase, ...options }: Pick<WorkerSessionOptions, 'openBase'> & OpenBase,
) => (settings.model === 'pretrained' ? await open(settings, options) : undefined);

/** Locks the key in this run. If the data folder cannot be written to, warns and trains without the lock. */
async function lockKey(
  run: string,
  key: string,
  onNotice: (message: string) => void,
): Promise<RunLock | undefined> {
  try {
    return await takeKeyLock(dataHome(), run, key);
  } catch (error) {
    if (!(error instanceof ConfigError) || error.code !== 'run/folder') throw error;
    onNotice(`${error.message}: make sure that no other process uses this key`);
    return undefined;
  }
}

interface Surroundings {
  readonly relays: RelaySet;
  onNotice(message: string): void;
  /** Called with progress, which is of interest until training begins. */
  onProgress(message: string): void;
}

/** Returns the state of a new worker: seeded or given parameters, or the current state of the run. */
async function firstState<M extends object>(
  options: WorkerSessionOptions<M> & Surroundings,
  { model, base, imported, tokensPerExample }: Task,
  { layout, evaluate }: Trainer,
): Promise<WorkerState & M> {
  const { settings, start, protocol } = options;
  const batches = Math.ceil(FIRST_LOSS_TOKENS / (settings.batchSize * tokensPerExample));
  const seeded = async () =>
    (await (imported ?? base)?.first(settings.seed)) ??
    initialParameters(storedModel(model), settings.seed);
  const values = start
    ? startingFrom(start, layout)
    : await whileSlow('reading the first state', options.onProgress, seeded);
  const lossBefore = await evaluate(values, 'shard', {
    batches: Math.min(SHARD_BATCHES, batches),
    onProgress: measuringReporter('the model before training', options.onProgress),
  });
  return protocol.first(genesis({ layout, values }, lossBefore), options);
}

/** Returns the parameters of a given state for this worker's tier. Throws a ConfigError (`start/other`). */
function startingFrom({ layout, values }: Params, wanted: Layout): Float32Array {
  const numbers = numbersFor({ layout, values: Float32Array.from(values) }, wanted);
  if (numbers !== undefined) return numbers;
  throw new ConfigError(
    'start/other',
    `the start state belongs to another model: it has ${layout.size} parameters, and this model ` +
      `has ${wanted.size}`,
    {
      hint:
        'set the sizes it was trained with (--model, --set width=N, --set ffn=N, --tiers and so ' +
        'on), or name a state of this model',
    },
  );
}

const taskPlan = (settings: Settings, task: Task, trainer: Trainer) => ({
  runtime: task.data.kind === 'regression' ? `${settings.model}-regression` : settings.model,
  tokensPerExample: task.tokensPerExample,
  bytesPerToken: task.text?.bytesPerToken ?? 0,
  evaluate: settings.evaluate && task.data.validation !== undefined,
  ...(settings.helperRotation > 0 && { tier: tiersOf(task.model)?.tier }),
  evaluateBatches: EVALUATE_BATCHES,
  writeSample: task.text ? sampler(task, task.text.tokenizer, trainer, settings.seed) : undefined,
  fingerprint: settingsFingerprint(settings, task.base ?? task.imported),
});

/** Returns a function that writes a text sample, always from the same prompt and seed so that rounds compare. */
function sampler(
  { base }: Task,
  tokenizer: Tokenizer,
  trainer: Trainer,
  seed: number,
): NonNullable<Plan['writeSample']> {
  const prompt = tokenizer.encode('\n').tokens;
  const length = base ? Math.ceil(SAMPLE_LENGTH / CHARACTERS_PER_TOKEN) : SAMPLE_LENGTH;
  return async (params) =>
    tokenizer.decode(await trainer.sample(params, { prompt, length, temperature: 0.8, seed }));
}

export const hello = (
  plan: Plan,
  { device, layout }: Trainer,
  worker: string,
  state: WorkerState,
  tier?: WorkerTier,
): WorkerEvent => ({
  type: 'hello',
  worker,
  run: plan.run,
  task: plan.task,
  parameters: layout.size,
  device: wordMachine(device),
  threads: device.threads,
  rounds: plan.rounds,
  round: state.round,
  innerSteps: plan.innerSteps,
  digest: stateDigest(state.params, createNativeSha256),
  lossBefore: state.lossBefore,
  ...(tier && { tier }),
});

/** Returns the notice about a run that is already finished. */
function finished({ round, rounds }: WorkerState): string {
  const last = rounds.at(-1);
  const loss = last?.validationLoss ?? last?.trainingLoss;
  const result = loss === undefined ? '' : `, loss ${loss.toFixed(2)}`;
  return `This run is finished (${round} rounds${result}).`;
}

export async function summary(
  state: WorkerState,
  trainer: Trainer,
  traffic: { readonly bytesSent: number; readonly bytesReceived: number },
): Promise<WorkerEvent> {
  const { validationLoss, bitsPerByte, accuracy } = state.rounds.at(-1) ?? {};
  return {
    type: 'done',
    digest: stateDigest(state.params, createNativeSha256),
    rounds: state.round,
    lossBefore: state.lossBefore,
    lossAfter: await trainer.evaluate(state.params.values, 'shard', { batches: SHARD_BATCHES }),
    tokens: state.tokens,
    ...traffic,
    secondsTraining: state.seconds.training,
    secondsWaiting: state.seconds.waiting,
    peakBytes: 1024 * process.resourceUsage().maxRSS,
    ...(validationLoss !== undefined && { validationLoss }),
    ...(bitsPerByte !== undefined && { bitsPerByte }),
    ...(accuracy !== undefined && { accuracy }),
  };
}
