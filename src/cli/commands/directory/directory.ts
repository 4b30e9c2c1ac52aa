/** `nostrain directory`: who holds what, and who vouches for holders. */
import { Command } from 'commander';
import { directoryAttest } from './attest.ts';
import { directoryFind } from './find.ts';

export const directory = (): Command =>
  new Command('directory')
    .description('find who holds chunks of an object; vouch for region and tier of a holder')
    .addCommand(directoryFind())
    .addCommand(directoryAttest());
