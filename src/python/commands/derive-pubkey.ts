/** `nostrain derive-pubkey SEC_KEY`: the x-only public key, hex. */
import { Command } from 'commander';
import { parseSecretKey, publicKeyOf } from '../../node/files/keys.ts';
import { writeResult } from '../../terminal/output.ts';

export const derivePubkey = (): Command =>
  new Command('derive-pubkey')
    .description('print the public key of a secret key')
    .argument('<sec_key>', '64 hex digits or nsec1…')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (secKey: string, { output }: { output?: string }) => {
      const line = `${publicKeyOf(parseSecretKey(secKey, 'SEC_KEY'))}\n`;
      await writeResult(line, output);
    });
