/** The forms a state can have on the command line: flags as in the Python reference, and which of its forms we know. */
import { type Command, Option } from 'commander';
import { ConfigError } from '../base/errors.ts';
import type { Params } from '../tensor/params.ts';
import { formatStateJson } from '../tensor/state-json.ts';
import { writeResult } from './output.ts';

/** `auto` goes by the file's name. */
type StateFormat = 'auto' | 'json';

const KNOWN = 'JSON is read and written, .safetensors and folders of runs are read';

const formatOf =
  (flag: string) =>
  (text: string): StateFormat => {
    if (text === 'auto' || text === 'json') return text;
    throw new ConfigError('flag/value', `${flag} ${text} is not one of auto, json`, {
      hint: KNOWN,
    });
  };

/** Adds `--output-format` and `-o`. */
export const addStateOutput = (command: Command): Command =>
  command
    .addOption(
      new Option('--output-format <name>', 'form of the state written (auto, json)')
        .argParser(formatOf('--output-format'))
        .default('auto'),
    )
    .option('-o, --output <file>', 'write it there instead of stdout');

/** Adds `--state-format`. */
export const addStateInput = (command: Command): Command =>
  command.addOption(
    new Option('--state-format <name>', 'form of STATE (auto, json)')
      .argParser(formatOf('--state-format'))
      .default('auto'),
  );

export interface StateOutput {
  readonly outputFormat: StateFormat;
  readonly output?: string;
}

/** Writes JSON; refuses a file whose name promises another form. */
export async function writeState(params: Params, flags: StateOutput): Promise<void> {
  assertWritable(flags);
  await writeResult(formatStateJson(params), flags.output);
}

/** Throws before any work is done for a file that cannot be written in the end. */
export function assertWritable({ outputFormat, output = '' }: StateOutput): void {
  const [other] = /\.(?:npz|pth?|safetensors)$/i.exec(output) ?? [];
  if (outputFormat === 'json' || other === undefined) return;
  throw new ConfigError('state/format', `${output}: states cannot be written as ${other}`, {
    hint: `name it .json; ${KNOWN}`,
  });
}
