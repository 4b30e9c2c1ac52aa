/** `nostrain checkpoint unpack`: the file of a folder of chunks. */
import { Command } from 'commander';
import { formatCount } from '../../../base/numbers.ts';
import { readManifest } from '../../../node/checkpoint/folder.ts';
import { unpackFolder } from '../../../node/checkpoint/unpack.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { threadsOption } from './pack.ts';

interface Flags {
  readonly out: string;
  readonly mend?: boolean;
  readonly threads?: number;
}

/** The command. */
export const unpack = (): Command =>
  new Command('unpack')
    .description('make the file again, from parity where chunks are lost or changed')
    .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
    .requiredOption('-o, --out <file>', 'where the file goes')
    .option('--mend', 'put restored chunks into the folder too')
    .addOption(threadsOption())
    .action(async (folder: string, { out, mend = false, threads }: Flags) => {
      await interruptibly(async (signal) => {
        const manifest = await readManifest(folder);
        await unpackFolder(folder, manifest, out, {
          threads,
          signal,
          isMending: mend,
          onRestored: ({ name, sha256 }) => writeNote(`restored ${name}  ${sha256}`),
        });
        writeOut(`${formatCount(manifest.bytes)} bytes in ${out}, SHA-256 ${manifest.sha256}\n`);
      });
    });
