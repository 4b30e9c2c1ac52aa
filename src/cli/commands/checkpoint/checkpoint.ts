/** `nostrain checkpoint`: large files as chunks that verify themselves, with parity, and getting them from wherever they are. */
import { Command } from 'commander';
import { fetch } from './fetch.ts';
import { list } from './list.ts';
import { pack } from './pack.ts';
import { push } from './push.ts';
import { seed } from './seed.ts';
import { unpack } from './unpack.ts';
import { verify } from './verify.ts';

/** The command. */
export const checkpoint = (): Command =>
  new Command('checkpoint')
    .description(
      'cut a file into chunks that verify themselves, with parity; check, join, fetch and serve them',
    )
    .addCommand(pack())
    .addCommand(verify())
    .addCommand(unpack())
    .addCommand(list())
    .addCommand(fetch())
    .addCommand(seed())
    .addCommand(push());
