/** `nostrain hash-state STATE`: the digest by which workers know that they hold the same parameters. */
import { Command } from 'commander';
import { readStateFile } from '../../node/state-io.ts';
import { stateDigest } from '../../tensor/digest.ts';
import { writeResult } from '../output.ts';

export const hashState = (): Command =>
  new Command('hash-state')
    .description('print the digest of a model state (JSON or safetensors)')
    .argument('<state>', 'state file, or the folder of a run')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (file: string, { output }: { output?: string }) => {
      const line = `${stateDigest(await readStateFile(file))}\n`;
      await writeResult(line, output);
    });
