/** `nostrain hash-state STATE`: the digest by which workers know that they hold the same parameters. */
import { Command } from 'commander';
import { readStateFile } from '../../node/files/state-file.ts';
import { createNativeSha256 } from '../../node/native/sha256.ts';
import { stateDigest } from '../../tensor/digest.ts';
import { writeResult } from '../../terminal/output.ts';
import { addStateInput } from './state-formats.ts';

interface Flags {
  readonly stateFormat: Parameters<typeof readStateFile>[1];
  readonly output?: string;
}

export const hashState = (): Command =>
  addStateInput(
    new Command('hash-state')
      .description('print the digest of a model state')
      .argument('<state>', 'state file, or the folder of a run')
      .option('-o, --output <file>', 'write it there instead of stdout'),
  ).action(async (file: string, { stateFormat, output }: Flags) => {
    const state = await readStateFile(file, stateFormat);
    await writeResult(`${stateDigest(state, createNativeSha256)}\n`, output);
  });
