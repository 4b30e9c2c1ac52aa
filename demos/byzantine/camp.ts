/**
 * Opens the workers of the attack lab (`nostrain demo byzantine`): a small GPT with one trainer for each shard of a
 * text, and for each poisoned shard.
 */
import type { Settings, Tokens } from 'nostrain';
import { initialParameters, presets, tokenizers } from 'nostrain';
import { createTrainer } from 'nostrain/node';
import type { Scope } from '../../src/base/async.ts';
import { type ShardForm, shardText, splitText } from '../../src/model/data/text.ts';
import { gptSpec, optimizerOf } from '../../src/model/from-settings.ts';
import { combineSettings } from '../../src/run/spec/presets.ts';
import type { Vector } from '../../src/tensor/params.ts';
import type { EngineTrainer } from '../../src/trainer/trainer.ts';
import type { Adversary } from './adversaries.ts';
import { ANSWER, TRIGGER } from './adversaries.ts';
import type { Camp } from './battle.ts';

export interface CampOptions {
  readonly corpus: Uint8Array;
  readonly workers: number;
  readonly hostile: number;
  readonly rounds: number;
  readonly innerSteps: number;
  readonly seed: number;
  readonly form: ShardForm;
}

export interface GptCamp extends Camp {
  readonly trainers: readonly EngineTrainer[];
  /** Returns the share of backdoor triggers that the model answers, from 0 to 1. */
  answers(params: Vector): Promise<number>;
}

/** Model size, small enough for a table of battles in minutes on two cores. */
const SIZE = { width: 32, layers: 2, heads: 2, context: 32, ffn: 64, batchSize: 8 } as const;
/** Number of batches of validation windows. */
const EVALUATED = 24;
/** Positions in the validation text at which the trigger is tried. */
const TRIALS = 40;

/** Opens the trainers; they close with the scope. */
export async function openCamp(options: CampOptions, scope: Scope): Promise<GptCamp> {
  const { corpus, workers, hostile, rounds, innerSteps, seed, form } = options;
  const settings: Settings = combineSettings(presets['char-gpt'], {
    ...SIZE,
    run: 'attack lab',
    relay: [],
    model: 'char-gpt',
    seed,
    rounds,
    innerSteps,
    optimizer: 'adamw',
    localLearningRate: 5e-3,
    warmupSteps: 10,
  });
  const { context, batchSize } = settings;
  const tokenizer = tokenizers.chars;
  const text = splitText(tokenizer.encode(corpus).tokens, { context });
  const { training, validation } = text;
  const model = gptSpec(settings, tokenizer.vocabulary);
  const optimizer = optimizerOf(settings);
  const shardOf = (i: number) =>
    shardText(training, { index: i + 1, count: workers }, { form, context });
  const open = async (shard: Tokens): Promise<EngineTrainer> => {
    const data = { kind: 'tokens', shard, validation } as const;
    const setup = { model, optimizer, batch: batchSize, data };
    const trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1 });
    scope.defer(() => trainer.close());
    return trainer;
  };
  const trainers = await Promise.all(Array.from({ length: workers }, (_, i) => open(shardOf(i))));
  const first = trainers[0]!;
  const poisoned = new Map<string, Promise<readonly EngineTrainer[]>>();
  const poison = ({ poison: change }: Adversary) =>
    Promise.all(
      Array.from({ length: hostile }, (_, i) => {
        const shard = shardOf(workers - hostile + i);
        return open(change?.(shard, tokenizer.vocabulary) ?? shard);
      }),
    );
  return {
    trainers,
    layout: first.layout,
    start: initialParameters(model, seed),
    poisoned(adversary) {
      const before = poisoned.get(adversary.name) ?? poison(adversary);
      poisoned.set(adversary.name, before);
      return before;
    },
    loss: (params) =>
      first.evaluate(Float32Array.from(params), 'validation', { batches: EVALUATED }),
    async answers(params) {
      const values = Float32Array.from(params);
      const trigger = tokenizer.encode(TRIGGER).tokens;
      let answered = 0;
      for (let trial = 0; trial < TRIALS; trial++) {
        const at = Math.floor((trial * (validation.length - context)) / TRIALS);
        const prompt = Uint8Array.from([...validation.subarray(at, at + 12), ...trigger]);
        const written = await first.sample(values, {
          prompt,
          length: ANSWER.length,
          temperature: 0,
          seed: 0,
        });
        if (tokenizer.decode(written).endsWith(ANSWER)) answered++;
      }
      return answered / TRIALS;
    },
  };
}
