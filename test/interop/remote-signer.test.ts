/**
 * A founder whose key is with a remote signer (NIP-46) that another project wrote joins by `run join --bunker`: the run
 * is decided by all founders, and a replay recomputes it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { toHex } from 'nostrain/base';
import { createSigner } from 'nostrain/network';
import { createRelay } from 'nostrain/relay';
import { expect } from 'vitest';
import { itWith } from '../support/needs.ts';
import { runProgram, startProgram, temporaryFolder } from '../support/processes.ts';

const program = fileURLToPath(new URL('../../.interop/nip46-go/nip46-go', import.meta.url));
const missing = existsSync(program)
  ? undefined
  : 'not installed; that takes: bash test/interop/nip46-go/install.sh';
const keyOf = (index: number) => new Uint8Array(32).fill(index);
const nameOf = (index: number) => createSigner(keyOf(index)).publicKey;
/** The time that the owner takes to approve a request, in milliseconds. */
const APPROVAL_MS = 1500;

interface StartedSigner {
  readonly child: ChildProcess;
  /** bunker://… */
  readonly address: string;
}

function startSigner(url: string, key: Uint8Array): Promise<StartedSigner> {
  const child = spawn(program, [url], {
    env: { ...process.env, NIP46_KEY: toHex(key), NIP46_APPROVAL_MS: String(APPROVAL_MS) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', (address) => resolve({ child, address }));
    child.once('close', (code) => reject(new Error(`the signer ended with ${code}`)));
  });
}

itWith(missing)(
  'a founder behind a signer made of go-nostr 0.51.8 decides with two others',
  async () => {
    const relay = await createRelay();
    const folder = temporaryFolder();
    const spec = join(folder, 'spec.json');
    const signer = await startSigner(relay.url, keyOf(3));
    try {
      const keyFile = async (index: number) => {
        const file = join(folder, `key-${index}`);
        await writeFile(file, toHex(keyOf(index)), { mode: 0o600 });
        return ['--key-file', file];
      };
      const common = ['--relay', relay.url];
      const created = await runProgram([
        ...['run', 'create', '--model', 'linear', '--rounds', '3', ...common, '--output', spec],
        ...['--set', 'sessions=true', ...(await keyFile(1))],
        ...['--founder', nameOf(2), '--founder', nameOf(3)],
      ]);
      expect(created.code, created.stderr).toBe(0);
      const joining = ['run', 'join', spec, ...common, '--report', 'ndjson'];
      const members = [
        startProgram([...joining, '--bunker', signer.address]),
        startProgram([...joining, ...(await keyFile(1))]),
        startProgram([...joining, ...(await keyFile(2))]),
      ];
      for (const { exit, output, events } of members) {
        expect(await exit, output.stderr).toBe(0);
        const rounds = events.filter((event) => event.type === 'round');
        expect(rounds.map(({ certified }) => certified?.signers.length)).toEqual([3, 3, 3]);
      }
      const replayed = await runProgram(['replay', '--spec', spec, ...common]);
      expect(replayed.stdout).toContain('3 rounds, all recomputed in full');
    } finally {
      signer.child.removeAllListeners('close').kill();
      await relay.close();
    }
  },
  { timeout: 120_000 },
);
