/** `nostrain model inspect`: what a published model is, whether it can be trained here, and which bytes it is made of. */
import { Command } from 'commander';
import { safe } from '../../../base/errors.ts';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
import { countParameters } from '../../../model/parameters.ts';
import { hashFiles, openLocalModel } from '../../../node/pretrained/folder.ts';
import { fetchModel, isHubReference } from '../../../node/pretrained/hub.ts';
import type { Pretrained } from '../../../pretrained/pretrained.ts';
import type { BaseFile } from '../../../run/spec/start.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { slowly } from '../../shared/archive-source.ts';

export const inspect = (): Command =>
  new Command('inspect')
    .description('say what a published model is and whether it can be trained here')
    .argument(
      '<model>',
      'folder with config.json, tokenizer.json and model.safetensors, a .gguf file, or hf:owner/name[@revision]',
    )
    .option('--json', 'print JSON')
    .action((named: string, { json }: { readonly json?: boolean }) =>
      interruptibly(async (signal) => {
        const report = slowly();
        const onProgress = (file: string, have: number, of: number) =>
          report(`${file}: ${formatBytes(have)} of ${formatBytes(of)}`);
        const isRemote = isHubReference(named);
        const path = isRemote ? await fetchModel(named, { onProgress, signal }) : named;
        const model = await openLocalModel(path);
        const files = await hashFiles(path, model.files, signal);
        if (json) writeOut(asJson(documentOf(model, files)));
        else writeOut(`${words(model, files).map(safe).join('\n')}\n`);
      }),
    );

/** How many bytes of the files each number format takes, the most first. */
function formatsOf({ tensors }: Pretrained): readonly (readonly [string, number])[] {
  const sums = new Map<string, number>();
  for (const { format, bytes } of tensors.values()) {
    sums.set(format, (sums.get(format) ?? 0) + bytes);
  }
  return [...sums].sort(([, a], [, b]) => b - a);
}

const documentOf = (model: Pretrained, files: readonly BaseFile[]) => ({
  family: String(model.config.model_type),
  ...sizesOf(model),
  parameters: countParameters(model.spec),
  longestContext: model.longestContext,
  formats: Object.fromEntries(formatsOf(model)),
  tokenizer: { vocabulary: model.spec.vocabulary, special: model.tokenizer.special.size },
  chat: model.chatTemplate !== undefined,
  files,
});

const sizesOf = ({ spec: { layers, width, heads, ffn } }: Pretrained) => ({
  layers,
  width,
  heads,
  ffn,
});

const FLOAT_BYTES = 4;

function words(model: Pretrained, files: readonly BaseFile[]): readonly string[] {
  const { spec, config, longestContext, tokenizer, chatTemplate } = model;
  const parameters = countParameters(spec);
  const shared = spec.architecture === 'llama' ? ` (${spec.keyValueHeads} of keys and values)` : '';
  const sizes = `${spec.layers} layers of width ${spec.width}, ${spec.heads} heads${shared}, feed-forward ${spec.ffn}`;
  const formats = formatsOf(model).map(([name, bytes]) => `${name} ${formatBytes(bytes)}`);
  const rows: readonly (readonly [string, string])[] = [
    ['family', String(config.model_type)],
    ['parameters', `${formatCount(parameters)}, ${formatBytes(FLOAT_BYTES * parameters)} as f32`],
    ['sizes', sizes],
    ['context', `at most ${longestContext} tokens`],
    ['vocabulary', `${spec.vocabulary} tokens, ${tokenizer.special.size} special`],
    ['chats', chatTemplate === undefined ? 'no template' : 'has a template'],
    ['weights', formats.join(', ')],
    ...files.map(
      ({ name, bytes, sha256 }) =>
        ['file', `${name}, ${formatBytes(bytes)}, SHA-256 ${sha256}`] as const,
    ),
  ];
  return rows.map(([name, value]) => `${name.padEnd(11)} ${value}`);
}
