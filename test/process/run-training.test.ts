/** `nostrain run-training`: killed and started again, stopped by Ctrl-C, and a GPT that writes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/processes.ts';
import {
  finalDigest,
  storedEvents,
  trainingPrograms,
  workerArgs,
} from '../support/training-programs.ts';

const { relay, start } = trainingPrograms();

describe('nostrain run-training', () => {
  it('N-11: killed after round 3 and started again, it ends in the bits of an uninterrupted run', async () => {
    const asReference = ['--set', 'profile=nostrain/0'];
    const steady = await relay();
    const whole = [0, 1].map((index) =>
      start(workerArgs(index, steady, temporaryFolder(), asReference)),
    );
    const [want] = await Promise.all(whole.map(finalDigest));

    const url = await relay();
    const dir = temporaryFolder();
    const other = start(workerArgs(0, url, temporaryFolder(), asReference));
    const victim = start(workerArgs(1, url, dir, asReference));
    await victim.event((event) => event.type === 'round' && event.index === 2);
    victim.child.kill('SIGKILL');
    await victim.exit;
    const again = start(workerArgs(1, url, dir, asReference));
    expect(await finalDigest(again)).toBe(want);
    expect(await finalDigest(other)).toBe(want);
    const hello = again.events.find((event) => event.type === 'hello');
    expect(hello?.round).toBeGreaterThanOrEqual(3);

    // the state of four numbers fits an event, so checkpoints are there: four slots a worker at most
    const checkpoints = await storedEvents(url, 33335);
    expect(checkpoints.length).toBeGreaterThan(0);
    expect(checkpoints.length).toBeLessThanOrEqual(8);
  });

  it('N-20: Ctrl-C says goodbye on the relay, saves, and prints the line that goes on', async () => {
    const url = await relay();
    const program = start(workerArgs(0, url, temporaryFolder()));
    await program.event((event) => event.type === 'waiting');
    program.child.kill('SIGINT');
    expect(await program.exit).toBe(130);
    expect(program.output.stderr).toMatch(/resume with: .* run-training --model linear/);
    const [heartbeat] = await storedEvents(url, 37811);
    expect(JSON.parse(heartbeat?.content ?? '')).toMatchObject({ round: 0, status: 'leaving' });
  });

  it('trains a small GPT on a text of ours, which then writes', async () => {
    const [url, dir] = [await relay(), temporaryFolder()];
    const corpus = join(dir, 'text.txt');
    writeFileSync(corpus, 'the cat sat on the mat and the dog ran to the cat \u00e9\n'.repeat(80));
    const sizes = [
      '--set',
      'width=16',
      '--set',
      'layers=1',
      '--set',
      'heads=2',
      '--context',
      '16',
      '--set',
      'ffn=32',
    ];
    const program = start([
      ...['run-training', '--model', 'gpt', '--run', 'mine', '--relay', url, '--sync', 'strict:1'],
      ...['--corpus', corpus, '--rounds', '2', '--inner-steps', '20', '--batch-size', '4'],
      ...['--dir', join(dir, 'run'), '--report', 'ndjson', '--set', 'warmupSteps=0', ...sizes],
    ]);
    expect(await program.exit).toBe(0);
    expect(program.output.stderr).toMatch(/^sync strict:1 → owners 0, .*packing int8: every/m);
    const rounds = program.events.filter((event) => event.type === 'round');
    expect(rounds[1]!.validationLoss!).toBeLessThan(rounds[0]!.validationLoss!);
    expect(rounds[1]!.sample!.length).toBeGreaterThan(50);
    const replaced = program.events.some(
      (event) => event.type === 'notice' && /were replaced by spaces/.test(event.message),
    );
    expect(replaced).toBe(true);

    const written = await runProgram([
      'sample',
      join(dir, 'run'),
      '--length',
      '40',
      '--prompt',
      'the ',
    ]);
    expect(written.code).toBe(0);
    expect(written.stdout.startsWith('the ')).toBe(true);
    const again = await runProgram([
      'sample',
      join(dir, 'run'),
      '--length',
      '40',
      '--prompt',
      'the ',
    ]);
    expect(again.stdout).toBe(written.stdout);
  });
});
