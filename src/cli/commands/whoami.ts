/** `nostrain whoami`: prints the npub of the key that workers of this machine use, and where the key is stored. */

import { join } from 'node:path';
import { kindOf } from '../../node/files/atomic-file.ts';
import { dataHome } from '../../node/files/data-home.ts';
import { loadKey, publicKeyOf, toNpub } from '../../node/files/keys.ts';
import { runFolderOf } from '../../node/files/local-runs.ts';
import { defineCommand } from '../../terminal/command.ts';
import { text } from '../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';

export const whoami = defineCommand({
  name: 'whoami',
  help: 'print your npub and where its key is stored',
  args: [['[run]', 'name or folder of a run on this machine']],
  flags: {
    keyFile: text('<file>', 'key file to read (default: of the run, else of the data folder)'),
  },
  async run({ keyFile }, { args: [run] }) {
    const dir = run === undefined ? dataHome() : await folderWithKey(run);
    const { secretKey, notices, file } = await loadKey({ keyFile, dir });
    notices.forEach(writeNote);
    writeOut(`${toNpub(publicKeyOf(secretKey))}\n`);
    writeNote(`the secret key is in ${file ?? 'NOSTRAIN_SEC_KEY'}`);
  },
});

/** Returns the run's folder if it has a key of its own; certified runs use that of the data folder. */
async function folderWithKey(run: string): Promise<string> {
  const dir = await runFolderOf(run);
  return (await kindOf(join(dir, 'key'))) === undefined ? dataHome() : dir;
}
