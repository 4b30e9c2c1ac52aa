/** Events with an external signer: built without the key, signed by the key's owner, built again with the signature. */
import { writeFile } from 'node:fs/promises';
import { fromHex, toHex } from 'nostrain/base';
import { nativeCrypto } from 'nostrain/node';
import { beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { KEY_3, writeReferenceFiles } from '../support/reference-files.ts';

const SECRET = fromHex('3'.padStart(64, '0'))!;
const file = temporaryFolder();
beforeEach(() => writeReferenceFiles(file()));

const commands = {
  'build-event': ['pa.json', '--run', 'r', '--round', '1', '--model', 'x'],
  'build-heartbeat': ['--run', 'r', '--round', '1'],
  'build-checkpoint': ['ck.json', '--history-slot', '2'],
};

describe.each(Object.entries(commands))('%s', (command, words) => {
  const build = async (...author: readonly string[]) => {
    const argv = words.map((word) => (word.endsWith('.json') ? file(word) : word));
    return runCommand(command, ...argv, '--created-at', '1700000000', ...author);
  };

  it('says the id to sign and takes the signature', async () => {
    const { stdout } = await build('--pubkey', KEY_3);
    const { id, sig: none } = JSON.parse(stdout);
    expect(none).toBeUndefined();
    const sig = toHex(nativeCrypto.schnorr.sign(fromHex(id)!, SECRET));
    const signed = await build('--pubkey', KEY_3, '--event-id', id, '--sig', sig.toUpperCase());
    expect(signed.exitCode).toBe(0);
    expect(JSON.parse(signed.stdout)).toMatchObject({ pubkey: KEY_3, id, sig });
    await writeFile(file('signed.json'), signed.stdout);
    const inspected = await runCommand('inspect-event', file('signed.json'));
    expect(inspected.stdout).toContain('signing_state: signed');
    expect((await build('--sec-key', toHex(SECRET))).stdout).toBe(signed.stdout);
  });

  it('refuses the signature of another event, naming the flag', async () => {
    const sig = toHex(nativeCrypto.schnorr.sign(new Uint8Array(32).fill(7), SECRET));
    const printed = await build('--pubkey', KEY_3, '--sig', sig);
    expect(printed).toMatchObject({ exitCode: 1, stdout: '' });
    expect(printed.stderr).toContain('--sig: the signature does not verify');
    expect(printed.stderr).toContain('try: build it with --pubkey only');
  });
});
