/** Chooses a worker's tier: the requested one, or the largest whose measured memory and step time fit the machine. */
import { freemem, totalmem } from 'node:os';
import { deriveKey } from '../../base/rng.ts';
import type { FrozenTensor } from '../../model/architectures/architecture.ts';
import { widthIn } from '../../model/architectures/slices.ts';
import { type AnyModel, modelOf, tiersOf } from '../../model/architectures/table.ts';
import { countParameters, fullModelOf, initialParameters } from '../../model/parameters.ts';
import type { Settings } from '../../run/settings.ts';
import type { WorkerTier } from '../../worker/events.ts';
import type { Trainer } from '../../worker/ports.ts';
import type { Task } from '../data/task.ts';

/** Measured cost of a tier on this machine. */
export interface TierCost {
  /** Additional memory of the process. */
  readonly bytes: number;
  readonly secondsPerStep: number;
}

export interface Choosing {
  /** The smallest tier of the run. */
  readonly count: number;
  /** Free memory of this machine. */
  readonly freeBytes: number;
  /** Time limit of an inner step. */
  readonly patienceSeconds: number;
  /** Lower bound of a tier's memory, computed without measuring. */
  leastBytes(tier: number): number;
  measure(tier: number): Promise<TierCost>;
}

/** Share of the free memory that training may use. */
const SHARE = 0.8;
/** Parameters, gradients, two moments and outer momentum in f32; residual, delta and mean in f64. */
const BYTES_PER_PARAMETER = 5 * 4 + 3 * 8;
/** Number of timed steps; the first step, which sets things up, is not timed. */
const TIMED_STEPS = 2;

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/** Tries tiers from the smallest to the largest until one does not fit. Returns the last fitting one, and why. */
export async function chooseTier({
  count,
  freeBytes,
  patienceSeconds,
  leastBytes,
  measure,
}: Choosing): Promise<{ readonly tier: number; readonly why: string }> {
  const most = SHARE * freeBytes;
  let tier = count;
  let why = 'the full model fits';
  for (let next = count; next >= 0; next--) {
    const refusal = async (): Promise<string | undefined> => {
      const least = leastBytes(next);
      if (least > most) return `tier ${next} takes ${megabytes(least)} at least`;
      const { bytes, secondsPerStep } = await measure(next);
      if (bytes > most) return `tier ${next} took ${megabytes(bytes)}`;
      if (secondsPerStep <= patienceSeconds) return undefined;
      return (
        `a step of tier ${next} takes ${secondsPerStep.toFixed(1)} s, and rounds leave ` +
        `${patienceSeconds.toFixed(1)} s`
      );
    };
    const reason = await refusal();
    if (reason !== undefined) {
      why = `${reason}; ${megabytes(freeBytes)} are free`;
      if (next === count) why = `${why}: the smallest tier is used anyway`;
      break;
    }
    tier = next;
  }
  return { tier, why };
}

/** Functions of the session that measuring needs. */
export interface Measuring {
  prepare(settings: Settings): Promise<Task>;
  open(task: Task): Promise<Trainer>;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** Returns the settings with the chosen tier, and its task; unchanged settings in a run without tiers. */
export async function withTier(settings: Settings, measuring: Measuring): Promise<Chosen> {
  const { tiers: count, tier: requested } = settings;
  if (count === 0) return { settings };
  const freeBytes = Math.min(freemem(), process.constrainedMemory() || totalmem());
  const tasks = new Map<number, Promise<Task>>();
  const taskOf = (tier: number) => {
    const task = tasks.get(tier) ?? measuring.prepare(at(settings, tier));
    tasks.set(tier, task);
    return task;
  };
  const tier =
    requested === 'auto'
      ? await measured(settings, freeBytes, taskOf, measuring)
      : Number(requested);
  const task = await taskOf(tier);
  const bytes = leastBytesOf(task);
  if (requested !== 'auto' && bytes > freeBytes) {
    measuring.onNotice(
      `tier ${requested} takes ${megabytes(bytes)} at least and ${megabytes(freeBytes)} are ` +
        'free here: --tier auto takes one that fits',
    );
  }
  return { settings: at(settings, effectiveTier(task)), task };
}

interface Chosen {
  readonly settings: Settings;
  readonly task?: Task;
}

/** Returns the tier of a task. A base that is a slice determines it, whatever was requested. */
const effectiveTier = ({ model }: Task): number => tiersOf(model)!.tier;

/** Returns a lower bound of the memory of a task; quantized base weights are not counted. */
const leastBytesOf = ({ model }: Task): number => {
  const frozen = (modelOf(model).frozen ?? []).filter(({ precision }) => !precision);
  return BYTES_PER_PARAMETER * countParameters(model) + 4 * numbersIn(frozen);
};

async function measured(
  settings: Settings,
  freeBytes: number,
  taskOf: (tier: number) => Promise<Task>,
  measuring: Measuring,
): Promise<number> {
  const { tiers: count, innerSteps, roundTimeout, seed } = settings;
  const only = effectiveTier(await taskOf(count));
  if (only !== count) return only;
  const tiers = Array.from({ length: count + 1 }, (_, tier) => tier);
  const leasts = await Promise.all(tiers.map(async (tier) => leastBytesOf(await taskOf(tier))));
  const before = process.memoryUsage().rss;
  const { tier, why } = await chooseTier({
    count,
    freeBytes,
    patienceSeconds: roundTimeout / 2 / innerSteps,
    leastBytes: (one) => leasts[one]!,
    measure: async (one) => measure(await taskOf(one), before, seed, measuring),
  });
  measuring.onNotice(`--tier auto takes tier ${tier} of ${count}: ${why}`);
  return tier;
}

const at = (settings: Settings, tier: number): Settings => ({
  ...settings,
  tier: `${tier}` as Settings['tier'],
});

async function measure(
  task: Task,
  before: number,
  seed: number,
  { open, signal }: Measuring,
): Promise<TierCost> {
  const trainer = await open(task);
  try {
    const params = initialParameters(task.model, seed);
    const step = { params, moments: [], round: 0, firstStep: 0 };
    const batchKey = deriveKey('nostrain/tier', seed);
    const steps = (count: number) =>
      trainer.train({ ...step, steps: count, batchKey }, () => undefined, signal);
    await steps(1);
    const { seconds } = await steps(TIMED_STEPS);
    const bytes = process.memoryUsage().rss - before;
    return { bytes, secondsPerStep: seconds / TIMED_STEPS };
  } finally {
    await trainer.close();
  }
}

/** Describes a worker's tier for events; undefined if the model has no tiers. */
export function tierShown({ model, base }: Pick<Task, 'model' | 'base'>): WorkerTier | undefined {
  const tiers = tiersOf(model);
  const ffn = 'ffn' in model ? model.ffn : base?.tier?.spec.ffn;
  if (!tiers || ffn === undefined) return undefined;
  return {
    own: tiers.tier,
    of: tiers.count,
    width: widthIn(ffn, tiers),
    wholeWidth: ffn,
    share: numbersOf(model) / numbersOf(fullModelOf(model)),
    strategy: base?.tier?.strategy ?? 'universal',
  };
}

/** Returns the number of parameters of a model, trained or frozen. */
const numbersOf = (model: AnyModel): number =>
  countParameters(model) + numbersIn(modelOf(model).frozen ?? []);

const numbersIn = (tensors: readonly Pick<FrozenTensor, 'shape'>[]): number =>
  tensors.reduce((sum, { shape }) => sum + shape.reduce((product, dim) => product * dim, 1), 0);

/** Returns the notice about the tier that a worker trains. */
export const tierBanner = (
  { own: tier, of, width, wholeWidth, share, strategy }: WorkerTier,
  requested: string,
): string =>
  `tier ${tier} of ${of} (requested ${requested}), effective tier ${tier}, ` +
  `strategy ${strategy}: feed-forward width ${width} of ${wholeWidth}, ` +
  `${(100 * share).toFixed(1)} % of the parameters`;
