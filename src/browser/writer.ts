/** Continues prompts in a tab that fine-tunes a published model: with the shared adapters, or with the base alone. */
import { ConfigError } from '../base/errors.ts';
import { initialParameters } from '../model/parameters.ts';
import type { Settings } from '../run/settings.ts';
import type { Trainer } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';
import type { TabBase } from './base.ts';

/** Returns the prompt and its continuation; calls `onText` with the text so far. */
export type Write = (
  prompt: string,
  options: { readonly isTuned: boolean; readonly onText: (text: string) => void },
) => Promise<string>;

export interface Writer {
  readonly write: Write;
  /** Remembers the shared parameters of a state, and returns it. */
  keep<S extends WorkerState>(state: S): S;
}

/** Tokens of a continuation. */
const LENGTH = 48;
/** Maximum characters of a prompt. */
const LONGEST_PROMPT = 2000;

/** Returns the writer of a worker. It throws `tab/write` if the run trains no published model. */
export function createWriter(
  base: TabBase | undefined,
  trainer: Trainer,
  { seed }: Pick<Settings, 'seed'>,
): Writer {
  let shared: Float32Array | undefined;
  return {
    keep(state) {
      shared = Float32Array.from(state.params.values);
      return state;
    },
    async write(prompt, { isTuned, onText }) {
      if (base === undefined || shared === undefined) {
        throw new ConfigError('tab/write', 'this run trains no published model', {
          hint: 'write with the program: nostrain sample',
        });
      }
      const { tokenizer, model } = base;
      const tokens = [...tokenizer.ids(prompt.slice(0, LONGEST_PROMPT))];
      // adapters begin as zeros, with which the model computes what its base does
      const params = isTuned ? shared : initialParameters(model, seed);
      const request = { prompt: Int32Array.from(tokens), length: LENGTH, temperature: 0, seed };
      await trainer.sample(params, { ...request, ends: new Set(tokenizer.end) }, (token) => {
        tokens.push(token);
        onText(tokenizer.decode(tokens));
      });
      return tokenizer.decode(tokens);
    },
  };
}
