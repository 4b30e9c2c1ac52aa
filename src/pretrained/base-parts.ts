/** What workers on every platform compute of a base model: hash of its tokenizer, shape, frozen tensors. */
import { toHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, type Json } from '../base/canonical-json.ts';
import { ConfigError } from '../base/errors.ts';
import type { Digest } from '../run/ids.ts';
import type { DecoderSpec } from '../run/spec/model-spec.ts';
import { type Start, shapeOf } from '../run/spec/start.ts';
import type { Pretrained } from './pretrained.ts';
import { readFinite } from './weights.ts';

/** Returns the hash of everything that affects tokenization. */
export function hashTokenizer(
  { tokenizerFiles: { tokenizer, config }, chatTemplate }: Pretrained,
  sha256: (bytes: Uint8Array) => Uint8Array,
): Digest {
  const content = { tokenizer, config, chatTemplate: chatTemplate ?? null };
  return toHex(sha256(utf8(canonicalJson(content as Json))));
}

/** Throws a ConfigError (`base/other`) if the files hold a model of another shape than the spec names. */
export function assertSameShape(model: DecoderSpec, start: Start): void {
  if (canonicalJson(shapeOf(model) as never) === canonicalJson(start.model as never)) return;
  throw new ConfigError(
    'base/other',
    'the run spec names another shape of this model than its files have',
    { hint: 'the run spec is wrong: ask its creator for a new run' },
  );
}

/** Returns a reader for each tensor, so that a quantized base is never completely in memory as f32. */
export const frozenReaders = ({
  tensors,
}: Pretrained): Readonly<Record<string, () => Promise<Float32Array>>> =>
  Object.fromEntries([...tensors].map(([name, tensor]) => [name, () => readFinite(name, tensor)]));
