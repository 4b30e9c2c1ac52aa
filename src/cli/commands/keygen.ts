/** `nostrain keygen`: a new secret key, to a file only its owner can read, or to stdout. */

import { Command } from 'commander';
import {
  createSecretKey,
  publicKeyOf,
  toNpub,
  toNsec,
  writeKeyFile,
} from '../../node/files/keys.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';

export const keygen = (): Command =>
  new Command('keygen')
    .description('make a secret key')
    .option(
      '-o, --output <file>',
      'key file to write (mode 0600); without it the nsec goes to stdout',
    )
    .action(async ({ output }: { output?: string }) => {
      const secretKey = createSecretKey();
      const npub = toNpub(publicKeyOf(secretKey));
      if (output === undefined) {
        writeOut(`${toNsec(secretKey)}\n`);
        writeNote(`public: ${npub}`);
        return;
      }
      await writeKeyFile(output, secretKey);
      writeOut(`${npub}\n`);
      writeNote(`secret key written to ${output}, readable by you only`);
    });
