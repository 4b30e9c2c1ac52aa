/** The forms a state can have on the command line: flags as in the Python reference, and safetensors beside its forms. */
import { type Command, Option } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { formatStateJson } from '../../formats/state-json.ts';
import {
  inferStateFormat,
  type StorageOptions,
  type StoredState,
  stateFormats,
  torchPayloads,
} from '../../formats/stored-state.ts';
import { writeStateFile } from '../../node/files/state-file.ts';
import { writeResult } from '../../terminal/output.ts';

/** `auto` goes by the file's name. */
type StateFormat = NonNullable<StorageOptions['format']>;

const FORMATS: readonly StateFormat[] = ['auto', ...stateFormats];

/** Adds `--output-format`, `--torch-checkpoint-payload` and `-o`. */
export const addStateOutput = (command: Command): Command =>
  command
    .addOption(
      new Option('--output-format <name>', 'form of the state written; auto: by its name')
        .choices(FORMATS)
        .default('auto'),
    )
    .addOption(
      new Option('--torch-checkpoint-payload <kind>', 'what a .pt or .pth file holds')
        .choices(torchPayloads)
        .default('state-dict'),
    )
    .option('-o, --output <file>', 'write it there instead of stdout');

/** Adds `--state-format`, or that flag under another name. */
export const addStateInput = (
  command: Command,
  flag: '--state-format' | '--input-format' = '--state-format',
): Command =>
  command.addOption(
    new Option(`${flag} <name>`, 'form of the states read; auto: by their names')
      .choices(FORMATS)
      .default('auto'),
  );

export interface StateOutput {
  readonly outputFormat: StateFormat;
  readonly torchCheckpointPayload?: StorageOptions['torchPayload'];
  readonly output?: string;
}

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

/** Throws before a run of another model than a regression for a PyTorch state, which could not be written in the end. */
export function assertHoldsModel(flags: StateOutput, model: string): void {
  const isTorch = flags.output !== undefined && formatOf(flags) === 'pytorch-state-dict';
  if (!isTorch || model === 'linear' || model === 'mlp') return;
  const message = `${flags.output}: a PyTorch state is of linear or mlp, not of ${model}`;
  throw new ConfigError('state/format', message, { hint: 'name it .safetensors, .npz or .json' });
}

function formatOf({ outputFormat, output = '' }: StateOutput): StateFormat {
  return outputFormat === 'auto' ? inferStateFormat(output) : outputFormat;
}
