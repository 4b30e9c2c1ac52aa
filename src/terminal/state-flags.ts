/** Flags for model state files: their format, and where a command writes a state. */
import { ConfigError } from '../base/errors.ts';
import { formatStateJson } from '../formats/state-json.ts';
import {
  inferStateFormat,
  type StorageOptions,
  type StoredState,
  stateFormats,
  torchPayloads,
} from '../formats/stored-state.ts';
import { writeStateFile } from '../node/files/state-file.ts';
import { choice, type Flag, type FlagValues, text, withDefault } from './flag-table.ts';
import { writeResult } from './output.ts';

/** `auto` infers the format from the file name. */
type StateFormat = NonNullable<StorageOptions['format']>;

const formats = (help: string): Flag<StateFormat> =>
  withDefault(choice('<name>', help, ['auto', ...stateFormats]), 'auto');

export const outputFlag: Flag<string | undefined> = {
  ...text('<file>', 'write to this file instead of stdout'),
  short: 'o',
};

export const stateOutputFlags = {
  outputFormat: formats('format of the written state; auto: by file name'),
  torchCheckpointPayload: withDefault(
    choice('<kind>', 'contents of a .pt or .pth file', torchPayloads),
    'state-dict',
  ),
  output: outputFlag,
};

/** Format flag of states that a command reads. */
export const stateFormatFlag = formats('format of the read states; auto: by file name');

export type StateOutput = FlagValues<typeof stateOutputFlags>;

/** Writes the state to the named file, or as JSON to stdout. */
export async function writeState(state: StoredState, flags: StateOutput): Promise<void> {
  assertWritable(flags);
  const { output, outputFormat: format, torchCheckpointPayload: torchPayload } = flags;
  if (output === undefined || formatOf(flags) === 'json') {
    await writeResult(formatStateJson(state), output);
  } else {
    await writeStateFile(output, state, { format, torchPayload });
  }
}

/** Throws `state/format` before any work if the state could not be written at the end. */
export function assertWritable(flags: StateOutput): void {
  if (flags.output !== undefined || formatOf(flags) === 'json') return;
  throw new ConfigError(
    'state/format',
    `${flags.outputFormat} is not a text format, so it cannot go to stdout`,
    {
      hint: 'name a file with -o',
    },
  );
}

/** Throws `state/format` before training if the model cannot be written as a PyTorch state: only regressions can. */
export function assertHoldsModel(flags: StateOutput, model: string): void {
  const isTorch = flags.output !== undefined && formatOf(flags) === 'pytorch-state-dict';
  if (!isTorch || model === 'linear' || model === 'mlp') return;
  const message = `${flags.output}: a PyTorch state can only hold linear or mlp, not ${model}`;
  throw new ConfigError('state/format', message, { hint: 'name it .safetensors, .npz or .json' });
}

const formatOf = ({ outputFormat, output = '' }: StateOutput): StateFormat =>
  outputFormat === 'auto' ? inferStateFormat(output) : outputFormat;
