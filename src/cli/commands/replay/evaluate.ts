/** What a recomputed model is worth: for `replay --base`, the validation loss before the first round and after the last one. */
import { ConfigError } from '../../../base/errors.ts';
import { startOf } from '../../../certified/decisions/chain.ts';
import { prepareTask } from '../../../node/data/task.ts';
import { createTrainer } from '../../../node/engine/trainer.ts';
import { type BaseModel, openWholeBaseOf } from '../../../node/pretrained/base-model.ts';
import { settingsOf } from '../../../run/spec/complete-spec.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import type { Params } from '../../../tensor/params.ts';

/** Validation losses, per token. */
export interface Evaluation {
  readonly before: number;
  readonly after: number;
}

export interface EvaluateOptions {
  /** Path or reference of the base. */
  readonly base: string;
  /** File of the text that the run trains on. */
  readonly corpus?: string | undefined;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

const settingsIn = (spec: RunSpec, base: string) =>
  settingsOf(spec, { base, relay: [], shard: { index: 1, count: 1 } });

/** The base of a run, held against its spec. */
export function openBaseIn(spec: RunSpec, options: EvaluateOptions): Promise<BaseModel> {
  if (spec.start !== null) {
    return openWholeBaseOf(spec.start, settingsIn(spec, options.base), options);
  }
  throw new ConfigError('flag/unused', 'this run starts from no published model', {
    hint: 'leave --base out',
  });
}

/** Evaluates on the validation part of the text that the run trains on. */
export async function evaluateModel(
  spec: RunSpec,
  { values }: Params,
  base: BaseModel,
  options: EvaluateOptions,
): Promise<Evaluation> {
  const { data, dataFrom } = spec;
  if (data.kind !== 'corpus') {
    throw new ConfigError('replay/data', 'each worker of this run has a text of its own', {
      hint: 'leave --base out: the roots need none',
    });
  }
  const fixed = { sha256: data.sha256, form: data.form, from: dataFrom };
  const settings = settingsIn(spec, options.base);
  const task = await prepareTask(settings, { ...options, base, fixed });
  const trainer = await createTrainer({ ...task, batch: settings.batchSize, device: 'cpu' });
  try {
    const first = startOf(spec, spec.start?.root ? await base.first(settings.seed) : undefined);
    const before = await trainer.evaluate(first.values, 'validation');
    return { before, after: await trainer.evaluate(values, 'validation') };
  } finally {
    await trainer.close();
  }
}
