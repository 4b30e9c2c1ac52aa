/** `nostrain keygen`: creates a secret key and writes it to a file that only its owner can read, or to stdout. */

import {
  createSecretKey,
  publicKeyOf,
  toNpub,
  toNsec,
  writeKeyFile,
} from '../../node/files/keys.ts';
import { defineCommand } from '../../terminal/command.ts';
import { text } from '../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';

export const keygen = defineCommand({
  name: 'keygen',
  help: 'create a secret key',
  flags: {
    output: {
      ...text('<file>', 'key file to write (mode 0600); without it the nsec goes to stdout'),
      short: 'o',
    },
  },
  async run({ output }) {
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
  },
});
