/** T-21 on the real engine: a run with reruns, created, trained and challenged by commands. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const keyOf = (number: number) => ['--sec-key', toHex(new Uint8Array(32).fill(number))];

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
  ...['--set', 'ffn=32', '--rounds', '3', '--inner-steps', '5', '--batch-size', '4'],
  ...['--set', 'packing=int8'],
];

it('T-21: the steps of two workers are recomputed bit for bit', { timeout: 240_000 }, async () => {
  const relay = await createRelay();
  try {
    const folder = temporaryFolder();
    const [file, corpus] = [join(folder, 'run.json'), join(folder, 'words.txt')];
    writeFileSync(corpus, 'to be or not to be that is the question\n'.repeat(200));
    const made = await runProgram([
      ...['run', 'create', '--relay', relay.url, '-o', file, '--json', ...keyOf(1), ...SMALL],
      ...['--founder', signerOf(2).publicKey, '--corpus', corpus],
      ...['--set', 'rerun.permille=1000', '--set', `rerun.relays=${relay.url}`],
    ]);
    expect(made.stderr).not.toContain('error');
    const address: string = JSON.parse(made.stdout).naddr;
    const half = await runProgram([
      ...['run', 'join', address, '--allow-private-relays', ...keyOf(1), '--corpus', corpus],
      ...['--device', 'cpu', '--precision', 'bf16'],
    ]);
    expect(half.code).toBe(2);
    expect(half.stderr).toContain('recompute the steps of this run in f32');
    const pair = [1, 2].map((number) =>
      startProgram([
        ...['run', 'join', address, '--allow-private-relays', '--report', 'ndjson'],
        ...[...keyOf(number), '--corpus', corpus, '--threads', '1'],
      ]),
    );
    const codes = await Promise.all(pair.map(({ exit }) => exit));
    expect(codes).toEqual([0, 0]);

    const asked = ['challenge', '--run', address, '--allow-private-relays', '--corpus', corpus];
    const all = await runProgram([...asked, '--json']);
    const { checks, run } = JSON.parse(all.stdout);
    expect(all.code).toBe(0);
    expect(checks.map(({ result }: { result: string }) => result)).toEqual(Array(6).fill('same'));
    expect(checks[0].ours).toBe(checks[0].theirs);
    expect(checks[0].theirs).toMatch(/^onnxruntime-node-\d.* cpu threads-1$/);

    // one of them, by a signed verdict
    const named = ['--round', '2', '--worker', signerOf(2).publicKey];
    const one = await runProgram([...asked, ...named, '--json', '--sign', ...keyOf(3)]);
    const [{ event, seconds: _, ...check }] = JSON.parse(one.stdout).checks;
    expect(check).toMatchObject({ round: 1, worker: signerOf(2).publicKey, result: 'same' });
    expect(event.pubkey).toBe(signerOf(3).publicKey);
    expect(JSON.parse(event.content)).toEqual({ run, ...check });

    // the same verdict over the API, published by the server
    const call = ['train', 'challenge-commitment', '--run', address, '--relay', relay.url];
    const trainer = ['--round', '2', '--trainer', signerOf(2).publicKey, '--corpus', corpus];
    const called = await runProgram([...call, ...trainer, ...keyOf(4)]);
    expect(called.code, called.stderr).toBe(0);
    const [{ event: verdict, seconds: __, ...other }] = JSON.parse(called.stdout).checks;
    expect(other).toEqual(check);
    expect(verdict.pubkey).toBe(signerOf(4).publicKey);

    const words = await runProgram([...asked, ...named]);
    expect(words.stdout).toMatch(/^round {4}2 {2}npub1\w+ {2}identical bits \(/);
    expect(words.stdout).toContain('1 identical, 0 within tolerance, 0 at fault, 0 not checked');
  } finally {
    await relay.close();
  }
});
