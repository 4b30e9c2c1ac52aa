/** A model from an ONNX file in a certified run, from the file to a replay that has only the relay. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { linearOnnx } from '../../support/imported.ts';
import { runProgram, temporaryFolder } from '../../support/processes.ts';

it('is created from the file, joined and replayed from the relay alone; another file is refused', async () => {
  const relay = await createRelay();
  try {
    const folder = temporaryFolder();
    const [file, other] = ['line.onnx', 'other.onnx'].map((name) => join(folder, name));
    await writeFile(file!, linearOnnx(0.25));
    await writeFile(other!, linearOnnx(0.3));
    const key = ['--sec-key', '01'.repeat(32)];
    const made = await runProgram([
      ...['run', 'create', '--model', file!, '--task', 'regress', '--rounds', '2'],
      ...['--relay', relay.url, '--json', '-o', join(folder, 'run.json'), ...key],
    ]);
    expect(made.code, made.stderr).toBe(0);
    const { naddr } = JSON.parse(made.stdout);
    const join_ = ['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson', ...key];
    const refused = await runProgram([...join_, '--base', other!]);
    expect(refused.stderr).toContain('weights.bin differs');
    const joined = await runProgram(join_);
    expect(joined.code, joined.stderr).toBe(0);
    const replayed = await runProgram([
      'replay',
      '--run',
      naddr,
      '--allow-private-relays',
      '--json',
    ]);
    expect(JSON.parse(replayed.stdout), replayed.stderr).toMatchObject({ ok: true, rounds: 2 });
  } finally {
    await relay.close();
  }
});
