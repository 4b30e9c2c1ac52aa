/**
 * What a run ends at, without relays: the same trainer, assignment, packing, mean and outer step as the worker loop,
 * several workers in one process. How a run ended is kept in `docs/assets/frontier.ndjson`, unless its model is of
 * another size; a run that was stopped starts anew, one that is finished is not repeated. Each argument is a set of
 * settings as JSON over those of the char-gpt's preset, with `workers` and `form` beside them:
 *
 *   npm run bench:compression -- --corpus FILE '{"packing": "int8"}' '{"owners": 0, "eventBudget": 20000}'
 *
 * `"workers": 1, "own": "2/4"` trains one worker alone on the second quarter of the text; `"moments": "reset"` starts
 * the inner optimizer anew in every round, as the Python reference does. `"stepSeconds": [0.25, 0.25, 0.25, 0.75]`
 * gives workers a speed on a clock that moves by so much with each step: rows then say how long rounds take and how
 * much of that workers wait, and nothing is kept. `--at-once 1` trains one worker after the other instead of two at a
 * time, on one core.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { sha256, toHex, utf8 } from 'nostrain/base';
import { nesterovStep } from 'nostrain/consensus';
import {
  gptSpec,
  initialParameters,
  optimizerOf,
  type ShardForm,
  shardText,
  splitText,
  tokenizers,
} from 'nostrain/model';
import { createPacker, type Packer } from 'nostrain/network';
import { createTrainer, nativeSha256 } from 'nostrain/node';
import type { EngineTrainer } from 'nostrain/node/parts';
import {
  type Contribution,
  combineSettings,
  presets,
  readSettings,
  type Settings,
} from 'nostrain/run';
import { type Params, stateDigest } from 'nostrain/tensor';
import { assignChunks, deltaOf, takeSent } from 'nostrain/worker';
import { remainingStepsIn, stepsOf } from '../../src/worker/train.ts';
import { meanDelta } from '../support/mean.ts';
import { FRONTIER, readFrontier } from './frontier/rows.ts';

const RUN = 'bench';

interface Setup {
  readonly label: string;
  readonly workers: number;
  readonly form: ShardForm;
  /** Shard of a lone worker. */
  readonly own: string;
  /** Whether the inner optimizer's moments live through a round. */
  readonly moments: 'keep' | 'reset';
  /** What a step takes, worker by worker; none where nobody asks. */
  readonly stepSeconds: readonly number[];
  readonly settings: Settings;
}

interface Row {
  readonly label: string;
  /** From 0. */
  readonly round: number;
  /** On the validation slice: 8 batches of windows, all of them after the last round. */
  readonly loss: number;
  /** The largest payload of any worker. */
  readonly bytes: number;
  /** Mean over the workers. */
  readonly residualShare: number;
  /** Mean over all pairs of workers of the cosine between their deltas before compression. */
  readonly cosine: number;
  readonly isLast: boolean;
  readonly seconds: number;
  /** On the clock of `stepSeconds`. */
  readonly clock?: {
    /** Until the end of the round. */
    readonly seconds: number;
    /** Share of the workers' time since the beginning in which they wait for the slowest. */
    readonly idle: number;
    readonly steps: readonly number[];
  };
}

interface Worker {
  readonly name: string;
  readonly trainer: EngineTrainer;
  moments: readonly Float32Array[];
  residual: Float64Array;
}

/** What makes a model or a step another one: such runs are not kept, for losses compare within one model only. */
const SHAPE = ['width', 'layers', 'heads', 'ffn', 'context', 'batchSize'] as const;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { corpus: { type: 'string' }, 'at-once': { type: 'string', default: '2' } },
});
if (!values.corpus) throw new Error('give a text with --corpus FILE');
const corpus = readFileSync(values.corpus);
const atOnce = Number(values['at-once']);
for (const label of positionals) {
  const done = readFrontier().find((row) => row.label === label);
  if (done) console.log(JSON.stringify(done));
  else await simulate(readSetup(label));
}

function readSetup(label: string): Setup {
  const asSetup = {
    ...{ form: 'interleaved', workers: 4, own: '1/1', moments: 'keep', stepSeconds: [] },
  };
  const { form, workers, own, moments, stepSeconds, ...given } = {
    ...asSetup,
    ...JSON.parse(label),
  };
  const unused = { run: RUN, relay: [], model: 'char-gpt' } as const;
  const asked = { ...unused, ...readSettings(given, 'settings') };
  const settings = combineSettings(presets['char-gpt'], asked);
  return { label, workers, form, own, moments, stepSeconds, settings };
}

async function openWorkers({ workers, form, own, settings }: Setup): Promise<readonly Worker[]> {
  const { context, batchSize } = settings;
  const tokenizer = tokenizers[settings.tokens];
  const { training, validation } = splitText(tokenizer.encode(corpus).tokens, { context });
  const model = gptSpec(settings, tokenizer.vocabulary);
  const [index = 1, count = 1] = own.split('/').map(Number);
  return Promise.all(
    Array.from({ length: workers }, async (_, i): Promise<Worker> => {
      const part = workers === 1 ? { index, count } : { index: i + 1, count: workers };
      const shard = shardText(training, part, { form, context });
      const data = { kind: 'tokens', shard, validation } as const;
      const setup = { model, optimizer: optimizerOf(settings), batch: batchSize, data };
      const threads = workers === 1 ? 2 : 1;
      const trainer = await createTrainer({ ...setup, device: 'cpu', threads });
      const residual = new Float64Array(trainer.layout.size);
      return { name: toHex(sha256(utf8(`worker ${i}`))), trainer, moments: [], residual };
    }),
  );
}

async function simulate(setup: Setup): Promise<void> {
  const { label, settings } = setup;
  const { rounds, seed } = settings;
  const workers = await openWorkers(setup);
  const [{ trainer }] = workers as readonly [Worker];
  const { layout } = trainer;
  const model = gptSpec(settings, tokenizers[settings.tokens].vocabulary);
  const packer = createPacker({
    ...{ run: RUN, layout, packing: settings.packing, eventBudget: settings.eventBudget },
    sha256: nativeSha256,
  });
  let params: Params = { layout, values: initialParameters(model, seed) };
  let momentum = new Float32Array(layout.size) as Params['values'];
  const clock = { seconds: 0, trained: 0 };
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    const played: Played[] = [];
    for (let i = 0; i < workers.length; i += atOnce) {
      const pair = workers.slice(i, i + atOnce);
      played.push(
        ...(await Promise.all(
          pair.map((worker, at) => {
            const stepSeconds = setup.stepSeconds[i + at] ?? 0;
            return play(worker, { params, round, settings, packer, workers, stepSeconds });
          }),
        )),
      );
    }
    const cohort = played.map(({ contribution }) => contribution);
    const { normalize, batchSize, innerSteps, innerSeconds } = settings;
    const weighs = innerSeconds > 0 ? ('examples' as const) : ('equal' as const);
    const cap = innerSeconds > 0 ? innerSteps * batchSize : 1;
    const mean = meanDelta(cohort, { size: layout.size, weights: weighs, cap, normalize });
    const steps = cohort.map((one) => one.steps);
    const took = steps.map((count, i) => count * (setup.stepSeconds[i] ?? 0));
    clock.seconds += Math.max(...took);
    clock.trained += took.reduce((sum, each) => sum + each, 0) / took.length;
    const outer = { learningRate: settings.outerLearningRate, momentum: settings.momentum };
    const stepped = nesterovStep(params.values, momentum, mean, outer);
    params = { layout, values: stepped.values };
    momentum = stepped.momentum;
    if (setup.moments === 'reset') for (const worker of workers) worker.moments = [];
    const isLast = round === rounds - 1;
    const limit = isLast ? undefined : { batches: 8 };
    const loss = await trainer.evaluate(Float32Array.from(params.values), 'validation', limit);
    write(settings, {
      ...{ label, round, loss, isLast },
      bytes: Math.max(...cohort.map(({ payloadBytes }) => payloadBytes)),
      residualShare: played.reduce((sum, { share }) => sum + share, 0) / played.length,
      cosine: meanCosine(played.map(({ delta }) => delta)),
      seconds: (performance.now() - started) / 1000,
      ...(setup.stepSeconds.length > 0 && {
        clock: { seconds: clock.seconds, idle: 1 - clock.trained / clock.seconds, steps },
      }),
    });
  }
  await Promise.all(workers.map((worker) => worker.trainer.close()));
}

function write(settings: Settings, row: Row): void {
  console.log(JSON.stringify(row));
  const { label, loss, bytes } = row;
  const isUsual = SHAPE.every((name) => settings[name] === presets['char-gpt'][name]);
  if (row.isLast && isUsual && !row.clock)
    appendFileSync(FRONTIER, `${JSON.stringify({ label, loss, bytes })}\n`);
}

interface Round {
  readonly params: Params;
  readonly round: number;
  readonly settings: Settings;
  readonly packer: Packer;
  readonly workers: readonly Worker[];
  readonly stepSeconds: number;
}

interface Played {
  readonly contribution: Contribution;
  readonly share: number;
  /** What the worker would have sent without compression. */
  readonly delta: ArrayLike<number>;
}

async function play(
  worker: Worker,
  { params, round, settings, packer, workers, stepSeconds }: Round,
): Promise<Played> {
  const { innerSteps, residual: rule, owners, fragments } = settings;
  const base = stateDigest(params);
  const roster = workers.map(({ name }) => name);
  const size = params.layout.size;
  let nowMs = 0;
  const clock = { now: () => nowMs };
  const taken = (step: number) => {
    nowMs = 1000 * step * stepSeconds;
  };
  const task = {
    params: params.values.slice(),
    moments: worker.moments,
    ...stepsOf({ round, worker: worker.name }, settings),
    ...(settings.innerSeconds > 0 && { remainingSteps: remainingStepsIn(settings, clock) }),
  };
  const { signal } = new AbortController();
  const trained = await worker.trainer.train(task, ({ step }) => taken(step), signal);
  worker.moments = trained.moments;
  const delta = deltaOf(params.values, trained.params, worker.residual, rule);
  const assignment = assignChunks({ run: RUN, round, base, roster, owners, fragments, size });
  const { payload, sent } = packer.pack(delta, { round, worker: worker.name, assignment });
  const exact = delta.slice();
  const kept = takeSent(delta, sent, rule);
  worker.residual = kept.residual;
  const contribution = {
    ...{ worker: worker.name, eventId: worker.name, round, base, delta: sent },
    ...{ examples: trained.examples, steps: trained.steps ?? innerSteps, createdAt: 0 },
    ...{ payloadBytes: payload.length, eventBytes: 0 },
  };
  return { contribution, share: kept.share, delta: exact };
}

/** Returns the mean cosine of all pairs, or 0 for a lone delta. */
function meanCosine(deltas: readonly ArrayLike<number>[]): number {
  const dot = (a: ArrayLike<number>, b: ArrayLike<number>) => {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
    return sum;
  };
  const lengths = deltas.map((delta) => Math.sqrt(dot(delta, delta)));
  const cosines = deltas.flatMap((a, i) =>
    deltas.slice(0, i).map((b, j) => dot(a, b) / ((lengths[i] ?? 0) * (lengths[j] ?? 0))),
  );
  return cosines.reduce((sum, each) => sum + each, 0) / Math.max(1, cosines.length);
}
