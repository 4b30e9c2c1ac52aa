/**
 * T-21 on the real engine: three workers started by a user recompute the steps of a fourth automatically, and eject it
 * for what it sent.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { shardSettings } from 'nostrain/certified/parts';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { readSpec, settingsOf } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import { expect, it } from 'vitest';
import { fixedData } from '../../../src/node/engine/task-trainer.ts';
import { certifiedProtocol } from '../../../src/node/join/join-run.ts';
import { runWorkerSession } from '../../../src/node/worker-session.ts';
import { connectionOf } from '../../../src/terminal/connection.ts';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const secretOf = (number: number) => toHex(new Uint8Array(32).fill(number));
const CHEAT = 4;
const ROUNDS = 12;

const SMALL = [
  ...[
    '--model',
    'gpt',
    '--set',
    'width=16',
    '--set',
    'layers=1',
    '--set',
    'heads=2',
    '--context',
    '16',
  ],
  ...['--set', 'ffn=32', '--rounds', String(ROUNDS), '--inner-steps', '200', '--batch-size', '4'],
  ...['--set', 'packing=int8', '--set', 'owners=0', '--set', 'residual=feedback'],
];

/** It sends half of its delta as if that were all. */
const lazy = (trainer: Trainer): Trainer => ({
  ...trainer,
  async train(task, onProgress, signal) {
    const trained = await trainer.train(task, onProgress, signal);
    const params = task.params.map((value, i) => value + (trained.params[i]! - value) / 2);
    return { ...trained, params: Float32Array.from(params) };
  },
});

it('T-21: members eject a cheat automatically', { timeout: 600_000 }, async () => {
  const relay = await createRelay();
  const stop = new AbortController();
  try {
    const folder = temporaryFolder();
    const [file, corpus] = [join(folder, 'run.json'), join(folder, 'words.txt')];
    writeFileSync(corpus, 'to be or not to be that is the question\n'.repeat(4000));
    const founders = [2, 3, CHEAT].flatMap((n) => ['--founder', signerOf(n).publicKey]);
    const made = await runProgram([
      ...['run', 'create', '--relay', relay.url, '-o', file, '--json', '--corpus', corpus],
      ...['--sec-key', secretOf(1), ...founders, ...SMALL],
      ...['--set', 'rerun.permille=1000', '--set', `rerun.relays=${relay.url}`, '--set', 'jury=1'],
    ]);
    const { naddr } = JSON.parse(made.stdout);
    const honest = [1, 2, 3].map((number) =>
      startProgram([
        ...['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson'],
        ...['--sec-key', secretOf(number), '--corpus', corpus, '--threads', '1'],
      ]),
    );
    const spec = readSpec(JSON.parse(readFileSync(file, 'utf8')));
    const { publicKey } = signerOf(CHEAT);
    const settings = settingsOf(spec, {
      ...shardSettings(spec, publicKey, {}),
      relay: [relay.url],
    });
    const playing = runWorkerSession({
      ...{ settings, dir: join(folder, 'cheat'), corpus, secKey: secretOf(CHEAT) },
      ...{ report: () => undefined, signal: stop.signal, fixed: fixedData(spec, undefined) },
      protocol: certifiedProtocol({ spec, sha256: nativeSha256, crypto: nativeCrypto }),
      connection: connectionOf({ timeout: 10 }),
      ...{ device: 'cpu', threads: 1, changeTrainer: lazy },
    }).catch(() => undefined);
    const codes = await Promise.all(honest.map(({ exit }) => exit));
    stop.abort(new Error('the others are through'));
    await playing;
    expect(codes).toEqual([0, 0, 0]);

    const archive = join(folder, 'run.ndjson');
    await runProgram(['archive', '--run', naddr, '--allow-private-relays', '--out', archive]);
    const replayed = await runProgram(['replay', '--events', archive, '--json']);
    const { ok, lines } = JSON.parse(replayed.stdout);
    expect(ok).toBe(true);
    const found = lines.flatMap(({ faults = [] }: { faults?: readonly object[] }) => faults);
    expect(found).toEqual([{ worker: publicKey, kind: 'failed-check' }]);
  } finally {
    stop.abort();
    await relay.close();
  }
});
