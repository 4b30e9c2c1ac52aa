/** Reading texts with the parameters that a trainer thread holds, for samples. */
import { ConfigError } from '../base/errors.ts';
import { modelOf } from '../model/architectures/table.ts';
import { dataFormOf } from '../model/data-form.ts';
import { PIECES } from '../model/decoding.ts';
import { createWindowReader, type TextReader } from '../model/sample.ts';
import type { Layout } from '../tensor/params.ts';
import type { Engine } from './engine.ts';
import type { TrainerSetup } from './setup.ts';

/**
 * For windows of the model's context. Decoders of published models keep what they have read; others read the window again for
 * every token. Throws a ConfigError (`model/sample`) where the model is not one of text.
 */
export async function openReader(
  { model }: Pick<TrainerSetup, 'model'>,
  engine: Engine,
  layout: Layout,
): Promise<TextReader> {
  const form = dataFormOf(model);
  if (form.kind !== 'tokens') {
    throw new ConfigError('model/sample', `a ${model.architecture} model writes no text`, {
      hint: 'sample a model of text: char-gpt or gpt',
    });
  }
  const { context } = form;
  const { decoding } = modelOf(model);
  if (!decoding) {
    return createWindowReader(
      (tokens) => engine.forward({ elements: tokens, shape: [1, context] }),
      form,
    );
  }
  const { vocabulary, layers, cached } = decoding;
  const programs = new Map(
    PIECES.filter((piece) => piece <= context).map((tokens) => [
      tokens,
      decoding.compile({ capacity: context, tokens }),
    ]),
  );
  const sizes = { vocabulary, layers, cached, capacity: context };
  await engine.openReader({ ...sizes, programs, slots: layout.slots });
  let begins = true;
  return {
    capacity: context,
    read: async (tokens) => {
      const logits = await engine.read({ tokens: Int32Array.from(tokens), begins });
      begins = false;
      return logits;
    },
    clear: () => {
      begins = true;
    },
  };
}
