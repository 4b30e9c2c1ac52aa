/** Flags for model state files: their format, and writing the state that a command was asked for. */
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

/** `auto` goes by the file's name. */
type StateFormat = NonNullable<StorageOptions['format']>;

const formats = (help: string): Flag<StateFormat> =>
  withDefault(choice('<name>', help, ['auto', ...stateFormats]), 'auto');

export const outputFlag: Flag<string | undefined> = {
  ...text('<file>', 'write it there instead of stdout'),
  short: 'o',
};

/** How a command writes a state. */
export const stateOutputFlags = {
  outputFormat: formats('form of the state written; auto: by its name'),
  torchCheckpointPayload: withDefault(
    choice('<kind>', 'what a .pt or .pth file holds', torchPayloads),
    'state-dict',
  ),
  output: outputFlag,
};

/** Of the states that a command reads. */
export const stateFormatFlag = formats('form of the states read; auto: by their names');

export type StateOutput = FlagValues<typeof stateOutputFlags>;

/** Writes the state to the file named, or as JSON to stdout. */
export async function writeState(state: StoredState, flags: StateOutput): Promise<void> {
  assertWritable(flags);
  const { output, outputFormat: format, torchCheckpointPayload: torchPayload } = flags;
  if (output === undefined || formatOf(flags) === 'json') {
    await writeResult(formatStateJson(state), output);
  } else {
    await writeStateFile(output, state, { format, torchPayload });
  }
}

/** Throws before any work is done for a state that could not be written in the end. */
export function assertWritable(flags: StateOutput): void {
  if (flags.output !== undefined || formatOf(flags) === 'json') return;
  throw new ConfigError('state/format', `a state as ${flags.outputFormat} is no text for stdout`, {
    hint: 'name a file with -o',
  });
}

/** Throws before training any model but a regression for a PyTorch state, which could not be written in the end. */
export function assertHoldsModel(flags: StateOutput, model: string): void {
  const isTorch = flags.output !== undefined && formatOf(flags) === 'pytorch-state-dict';
  if (!isTorch || model === 'linear' || model === 'mlp') return;
  const message = `${flags.output}: a PyTorch state is of linear or mlp, not of ${model}`;
  throw new ConfigError('state/format', message, { hint: 'name it .safetensors, .npz or .json' });
}

const formatOf = ({ outputFormat, output = '' }: StateOutput): StateFormat =>
  outputFormat === 'auto' ? inferStateFormat(output) : outputFormat;
