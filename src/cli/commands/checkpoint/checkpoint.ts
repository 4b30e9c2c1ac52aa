/** `nostrain checkpoint`: large files as chunks that verify themselves, with parity, and getting them from wherever they are. */
import { Command } from 'commander';
import { list } from './list.ts';
import { pack } from './pack.ts';
import { unpack } from './unpack.ts';
import { verify } from './verify.ts';

/** The command. */
export const checkpoint = (): Command =>
  new Command('checkpoint')
    .description('cut a file into chunks that verify themselves, with parity; check and join them')
    .addCommand(pack())
    .addCommand(verify())
    .addCommand(unpack())
    .addCommand(list());
