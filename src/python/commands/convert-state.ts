/** `nostrain convert-state STATE`: the same state in another form; its digest stays. */
import { Command } from 'commander';
import { readStateFile } from '../../node/files/state-file.ts';
import { addStateInput, addStateOutput, type StateOutput, writeState } from './state-formats.ts';

interface Flags extends StateOutput {
  readonly inputFormat: Parameters<typeof readStateFile>[1];
}

export const convertState = (): Command =>
  addStateOutput(
    addStateInput(
      new Command('convert-state')
        .description('write a model state in another form')
        .argument('<state>', 'state file, or the folder of a run'),
      '--input-format',
    ),
  ).action(async (file: string, flags: Flags) => {
    await writeState(await readStateFile(file, flags.inputFormat), flags);
  });
