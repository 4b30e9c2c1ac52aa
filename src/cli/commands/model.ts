/** `nostrain model`: inspects published models, and exports trained models to the formats of other programs. */

import { basename, resolve } from 'node:path';
import { ConfigError, safe } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/numbers.ts';
import { createSlowReporter } from '../../base/slow.ts';
import { loraTensors } from '../../model/adapters/lora.ts';
import { joinSlices } from '../../model/architectures/slices.ts';
import { modelOf, ofTier } from '../../model/architectures/table.ts';
import { tokenizers } from '../../model/data/tokens.ts';
import { gptSpec } from '../../model/from-settings.ts';
import { countParameters, modelLayout } from '../../model/parameters.ts';
import { writeStateFile } from '../../node/files/state-file.ts';
import {
  numbersFor,
  openTrainedBase,
  readTrainedRun,
  type TrainedRun,
} from '../../node/files/trained-run.ts';
import type { BaseModel } from '../../node/pretrained/base-model.ts';
import { downloadReporter, fetchModel } from '../../node/pretrained/hub.ts';
import { openImported } from '../../node/pretrained/imported-file.ts';
import {
  assertFree,
  hashFiles,
  openLocalModel,
  writeFile,
  writeFolder,
} from '../../node/pretrained/model-files.ts';
import type { Learned } from '../../pretrained/export/folders.ts';
import { adapterFiles, modelFiles } from '../../pretrained/export/folders.ts';
import { ggufFile } from '../../pretrained/export/gguf.ts';
import { isHubReference, parseHubReference } from '../../pretrained/hub-reference.ts';
import type { Pretrained } from '../../pretrained/pretrained.ts';
import { formOf, isImported } from '../../run/data-forms.ts';
import type { BaseFile } from '../../run/spec/start.ts';
import type { Layout } from '../../tensor/params.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import {
  choice,
  type FlagValues,
  settingFlags,
  text,
  toggle,
  withDefault,
} from '../../terminal/flag-table.ts';
import { settingsFromFlags } from '../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';

import { importedDocument, importedWords, writeTrainedOnnx } from './model-onnx.ts';

const inspect = defineCommand({
  name: 'inspect',
  help: 'describe a published model and check whether it can be trained here',
  args: [
    [
      '<model>',
      'folder with config.json, tokenizer.json and model.safetensors, ' +
        'a .gguf file, an .onnx file, or hf:owner/name[@revision]',
    ],
  ],
  flags: {
    json: toggle('print JSON'),
  },
  async run({ json }, { args: [named], signal }) {
    if (named.endsWith('.onnx')) {
      const file = await openImported(named);
      if (json) writeOut(asJson(importedDocument(file)));
      else writeOut(`${importedWords(file).map(safe).join('\n')}\n`);
      return;
    }
    const onProgress = downloadReporter(named, writeNote);
    const isRemote = isHubReference(named);
    const path = isRemote ? await fetchModel(named, { onProgress, signal }) : named;
    const model = await openLocalModel(path);
    const files = await hashFiles(path, model.files, { signal, onNotice: writeNote });
    if (json) writeOut(asJson(documentOf(model, files)));
    else writeOut(`${modelWords(model, files).map(safe).join('\n')}\n`);
  },
});

/** Returns the total bytes of each number format, largest first. */
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

function modelWords(model: Pretrained, files: readonly BaseFile[]): readonly string[] {
  const { spec, config, longestContext, tokenizer, chatTemplate } = model;
  const parameters = countParameters(spec);
  const shared = spec.architecture === 'llama' ? ` (${spec.keyValueHeads} of keys and values)` : '';
  const blocks = `${spec.layers} layers of width ${spec.width}, ${spec.heads} heads${shared}`;
  const sizes = `${blocks}, feed-forward ${spec.ffn}`;
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

/** Name of each number format in a folder and in a GGUF file; undefined if that format lacks it. */
const types = {
  f32: { folder: 'f32', gguf: 'f32' },
  f16: { folder: 'f16', gguf: 'f16' },
  bf16: { folder: 'bf16', gguf: undefined },
  q8_0: { folder: undefined, gguf: 'q8_0' },
} as const;

const exportFlags = {
  peft: text('<dir>', 'write the adapter to this folder, in the format of PEFT'),
  merged: text('<dir>', 'write the full model to this folder, in the format of transformers'),
  gguf: text('<file>', 'write the full model to this file, in the format of llama.cpp'),
  onnx: text('<file>', 'models from .onnx files: write that file with the trained weights'),
  state: text('<file>', 'own models: write all tensors to this .safetensors, .npz or .json file'),
  dtype: withDefault(
    choice(
      '<type>',
      'number format of the full model; q8_0 for GGUF only',
      Object.keys(types) as (keyof typeof types)[],
    ),
    'f32',
  ),
  without: text('<group>', '--state: leave out the experts of this group'),
  ...settingFlags(['base', 'rank', 'alpha', 'targets', 'seed', 'tiers', 'tier', 'tierStrategy']),
};

type ExportFlags = FlagValues<typeof exportFlags>;

const exportModel = defineCommand({
  name: 'export',
  help: 'export the trained model of a run for other programs',
  args: [['<run>', 'name of a run (`nostrain runs`), its folder, or a state file']],
  flags: exportFlags,
  async run(flags, { args: [named], signal, command }) {
    const { peft, merged, gguf, state } = flags;
    const targets = [peft, merged, gguf].filter((path) => path !== undefined);
    if (targets.length === 0 && state === undefined && flags.onnx === undefined) {
      throw new ConfigError(
        'flag/export',
        'nothing to write: use --peft, --merged, --gguf, --onnx or --state',
        {
          hint: '--peft DIR writes the smallest files; --gguf FILE is for llama.cpp',
        },
      );
    }
    const run = await readTrainedRun(named, settingsFromFlags(command));
    if (isImported(run.settings)) return writeImported(run, flags, targets);
    if (flags.onnx !== undefined) throw unfit(`${run.path} is not from an .onnx file`, '--state');
    if (state !== undefined) return writeModelState(run, state, targets, flags.without);
    const { base, values } = await openTrainedBase(run, { onNotice: writeNote, signal });
    const writes = planned({ ...run, values }, base, flags);
    for (const path of targets) await assertFree(path);
    for (const write of writes) await write(signal);
  },
});

type Write = (signal: AbortSignal) => Promise<void>;

/** Returns the writes to do. Throws before anything is written if one of them is impossible. */
function planned(run: TrainedRun, base: BaseModel, flags: ExportFlags): readonly Write[] {
  const { peft, merged, gguf, dtype } = flags;
  const learned = learnedOf(run, base);
  const { folder: folderType, gguf: ggufType } = types[dtype];
  const writes: Write[] = [];
  const plan = (
    path: string,
    work: (options: Parameters<typeof writeFile>[2]) => Promise<number>,
  ) =>
    writes.push(async (signal) => {
      const report = createSlowReporter(writeNote);
      const onBytes = (bytes: number) => report(`${path}: ${formatBytes(bytes)}`);
      writeOut(`${path}: ${formatBytes(await work({ onBytes, signal }))}\n`);
    });
  if (peft !== undefined) {
    if (!base.adapter)
      throw unfit(`${run.path} trained all parameters and has no adapter`, '--merged');
    const files = adapterFiles(learned, base.adapter, baseName(run.settings.base, base));
    plan(peft, (options) => writeFolder(peft, files, options));
  }
  if (merged !== undefined) {
    if (!folderType) throw unfit(`a folder cannot hold ${dtype}`, '--dtype f16');
    const files = modelFiles(learned, folderType);
    plan(merged, (options) => writeFolder(merged, files, options));
  }
  if (gguf !== undefined) {
    if (!ggufType) throw unfit(`a GGUF file of this program cannot hold ${dtype}`, '--dtype f16');
    const file = ggufFile(learned, ggufType, basename(gguf, '.gguf'));
    plan(gguf, (options) => writeFile(gguf, file, options));
  }
  return writes;
}

const unfit = (message: string, instead: string): ConfigError =>
  new ConfigError('export/unfit', message, { hint: `use ${instead}` });

/** Returns the trained tensors: the adapter or the full model; the slices of a tier joined into ordinary matrices. */
function learnedOf({ values }: TrainedRun, base: BaseModel): Learned {
  const { pretrained, adapter, spec, model } = base;
  const trained = valuesByName(modelLayout(model), values);
  const tensors = adapter ? loraTensors(spec, adapter) : modelOf(spec).tensors;
  const named = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const sliceOf = (name: string) => trained.get(name);
  return { pretrained, adapter, valuesOf: (name) => joinSlices(named.get(name)!, sliceOf)! };
}

const valuesByName = ({ slots }: Layout, values: Float32Array) =>
  new Map(slots.map(({ name, offset, size }) => [name, values.subarray(offset, offset + size)]));

/**
 * Returns the base model's name for other programs: its hub name or its path; for a tier, the name of the matching
 * slice.
 */
function baseName(base: string, { tier, pretrained }: BaseModel): string {
  const name = isHubReference(base) ? parseHubReference(base).repository : resolve(base);
  const tierIndex = tier?.spec.tiers.tier ?? 0;
  if (tierIndex === 0) return name;
  return tier?.strategy === 'sliced' ? resolve(pretrained.name) : `${name}-tier${tierIndex}`;
}

/** Writes a model from an ONNX file: as that file, or its tensors under their names in it. */
async function writeImported(
  run: TrainedRun,
  { onnx, state }: ExportFlags,
  others: readonly string[],
): Promise<void> {
  if (others.length > 0) throw unfit('the run trains an .onnx file', '--onnx or --state');
  for (const path of [onnx, state]) if (path !== undefined) await assertFree(path);
  if (state !== undefined) {
    await writeStateFile(state, run);
    writeOut(`${state}: ${run.layout.slots.length} tensors\n`);
  }
  if (onnx !== undefined) writeOut(`${onnx}: ${formatBytes(await writeTrainedOnnx(run, onnx))}\n`);
}

/** Writes an own model as a state file; a tier becomes a narrower model with ordinary matrices. */
async function writeModelState(
  run: TrainedRun,
  path: string,
  others: readonly string[],
  without?: string,
): Promise<void> {
  const { settings } = run;
  if (settings.model === 'pretrained' || others.length > 0) {
    throw unfit('--state is only for own models', '--peft, --merged or --gguf for published ones');
  }
  if (formOf(settings) !== 'tokens')
    throw unfit('--state is only for text models', 'the state file itself');
  await assertFree(path);
  const spec = gptSpec(settings, tokenizers[settings.tokens].vocabulary, without);
  const values = numbersFor(run, modelLayout(spec));
  if (values === undefined)
    throw unfit(
      `${run.path} holds a different model`,
      'the --tiers and --tier it was trained with',
    );
  const slices = valuesByName(modelLayout(spec), values);
  const narrow = ofTier(spec);
  const layout = modelLayout(narrow);
  const narrowTensors = new Map(modelOf(narrow).tensors.map((tensor) => [tensor.name, tensor]));
  const joined = new Float32Array(layout.size);
  for (const { name, offset } of layout.slots) {
    joined.set(joinSlices(narrowTensors.get(name)!, (slice) => slices.get(slice))!, offset);
  }
  await writeStateFile(path, { layout, values: joined });
  writeOut(`${path}: feed-forward layers ${narrow.ffn} wide (--set ffn=${narrow.ffn})\n`);
}

export const model = defineGroup(
  'model',
  'inspect published models, and export trained ones to other programs',
  [inspect, exportModel],
);
