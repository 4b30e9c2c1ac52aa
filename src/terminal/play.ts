/** One worker from settings to done: folder, key, relays, data, trainer, wire, loop, goodbye. */
import { systemClock } from '../base/clock.ts';
import { withScope } from '../base/scope.ts';
import { type CertifiedOptions, createMember, firstCertified } from '../certified/join-run.ts';
import type { Tokenizer } from '../model/data/tokenizer.ts';
import { initialParameters } from '../model/parameters.ts';
import { mostPayloadBytes } from '../network/codec/most-payload-bytes.ts';
import { createSigner, type Signer } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { createWire } from '../network/wire/create-wire.ts';
import { estimateEventSize } from '../network/wire/event-size.ts';
import type { Connection } from '../node/connect-relays.ts';
import { connectRelays } from '../node/connect-relays.ts';
import { loadKey } from '../node/keys.ts';
import { nativeCrypto } from '../node/native-crypto.ts';
import { createNativeSha256, nativeSha256 } from '../node/native-sha256.ts';
import { mine } from '../node/proof-of-work.ts';
import { agreeOnSettings, openRunFolder } from '../node/run-folder.ts';
import { hello, SHARD_BATCHES, summary } from '../node/session-events.ts';
import { createTrainer, type Trainer, type TrainerSetup } from '../node/trainer.ts';
import { openZstd } from '../python/node/zstd.ts';
import { type Settings, writeSettings } from '../run/settings.ts';
import type { Params } from '../tensor/params.ts';
import type { WorkerEvent } from '../worker/events.ts';
import { runWorker } from '../worker/loop.ts';
import type { Plan } from '../worker/plan.ts';
import { planOf } from '../worker/plan.ts';
import type { Store } from '../worker/ports.ts';
import { genesis, type WorkerState } from '../worker/state.ts';
import { type FixedData, measuredOf, prepareTask, type Task } from './prepare.ts';
import { assertRelaysFit, stripeOver } from './relays.ts';

export interface PlayOptions {
  readonly settings: Settings;
  readonly dir: string;
  readonly corpus?: string | undefined;
  readonly dataset?: string | undefined;
  /** Parameters to start from instead of the seeded ones. */
  readonly start?: Params | undefined;
  readonly secKey?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Where the key is when none is given; default `dir`. */
  readonly keyDir?: string | undefined;
  /** What a run spec says of the data. */
  readonly fixed?: FixedData | undefined;
  /** A run whose rounds are certified by its committees. */
  readonly certified?: CertifiedOptions | undefined;
  /** What a dishonest worker of a demo puts between itself and its relays. */
  readonly through?: ((relays: RelaySet, signer: Signer) => RelaySet) | undefined;
  readonly connection: Connection;
  readonly device: TrainerSetup['device'];
  readonly threads?: number | undefined;
  readonly report: (event: WorkerEvent) => void;
  readonly signal: AbortSignal;
}

/** Batches of validation windows looked at after each round but the last, which takes all. */
const EVALUATE_BATCHES = 8;
/** Characters of the text written after each round. */
const SAMPLE_LENGTH = 160;

/** Plays the worker to its end and returns its final state. */
export const play = (options: PlayOptions): Promise<WorkerState> =>
  withScope(async (scope) => {
    const { settings, dir, signal, certified } = options;
    const spec = certified?.spec;
    const folder = await openRunFolder(dir);
    scope.defer(() => folder.close());
    const report = (event: WorkerEvent) => {
      if (event.type !== 'progress') folder.log(event);
      options.report(event);
    };
    const onNotice = (message: string) => report({ type: 'notice', message });

    const { secretKey, notices } = await loadKey({ ...options, dir: options.keyDir ?? dir });
    notices.forEach(onNotice);
    await agreeOnSettings(dir, writeSettings(settings));
    const signer = createSigner(secretKey, nativeCrypto);
    const own = await connectRelays(settings.relay, options.connection, signer, signal);
    scope.defer(() => own.close());
    const relays = options.through?.(own, signer) ?? own;

    const task = await prepareTask(settings, { ...options, onNotice });
    const { device, threads } = options;
    const trainer = await createTrainer({
      ...task,
      batch: settings.batchSize,
      device,
      ...(threads === undefined ? {} : { threads }),
    });
    scope.defer(() => trainer.close());
    if (trainer.device.notice) onNotice(trainer.device.notice);
    const { run, relay, topk, profile, packing, codec, eventBudget } = settings;
    const { layout } = trainer;
    const stripe = stripeOver(relays.relays, settings.stripe);
    await assertRelaysFit(relay, estimateEventSize(measuredOf(settings, layout)), signal);

    const state = await firstState({ ...options, relays, onNotice }, task, trainer, folder.store);
    const maxContainerBytes = spec?.limits.payloadBytes ?? mostPayloadBytes(layout);
    const wire = createWire({
      profile,
      run,
      layout,
      relays,
      signer,
      clock: systemClock,
      sha256: nativeSha256,
      mine,
      stripe,
      packing,
      codec,
      zstd: profile === 'nostrain/0' ? await openZstd() : undefined,
      eventBudget,
      ratio: topk,
      maxContainerBytes,
    });
    scope.defer(() => wire.close());
    const plan = planOf(settings, taskPlan(settings, task, trainer));
    report(hello(plan, trainer, wire.me, state));
    const ports = {
      ...{ clock: systemClock, trainer, wire, store: folder.store, report },
      createSha256: createNativeSha256,
    };
    const parts = { relays, signer, secretKey, journal: folder.votes, ports, signal };
    const member = certified && createMember(certified, parts);
    scope.defer(() => member?.close());
    const final = await runWorker(state, { plan, ports, member, signal });
    report(await summary(final, trainer, wire.traffic()));
    return final;
  });

interface Surroundings {
  readonly relays: RelaySet;
  onNotice(message: string): void;
}

/** The saved state, or the seeded (or given) one. */
async function firstState(
  { settings, start, certified, relays, signal, onNotice }: PlayOptions & Surroundings,
  { model }: Task,
  trainer: Trainer,
  store: Store,
): Promise<WorkerState> {
  const saved = await store.load(trainer.layout);
  if (saved) return saved;
  const values = start ? Float32Array.from(start.values) : initialParameters(model, settings.seed);
  const lossBefore = await trainer.evaluate(values, 'shard', { batches: SHARD_BATCHES });
  return certified
    ? firstCertified(certified, lossBefore, { relays, signal, onNotice })
    : genesis({ layout: trainer.layout, values }, lossBefore);
}

const taskPlan = (settings: Settings, task: Task, trainer: Trainer) => ({
  runtime: task.data.kind === 'regression' ? `${settings.model}-regression` : settings.model,
  tokensPerExample: task.tokensPerExample,
  evaluate: settings.evaluate && task.data.validation !== undefined,
  evaluateBatches: EVALUATE_BATCHES,
  writeSample: task.text ? sampler(task.text.tokenizer, trainer, settings.seed) : undefined,
});

/** The same prompt and seed after every round, so that samples can be compared. */
function sampler(
  tokenizer: Tokenizer,
  trainer: Trainer,
  seed: number,
): NonNullable<Plan['writeSample']> {
  const prompt = tokenizer.encode('\n').tokens;
  return async (params) =>
    tokenizer.decode(
      await trainer.sample(params, { prompt, length: SAMPLE_LENGTH, temperature: 0.8, seed }),
    );
}
