/** A relay that goes away in the middle of a run and comes back without its memory: workers wait for it and lose nothing. */

import type { RunEvent } from 'nostrain/certified';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { createStage } from '../support/stage.ts';
import { startMember } from '../support/swarm.ts';

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const isAwayNotice = (event: RunEvent): boolean =>
  event.type === 'notice' && event.message.startsWith('relay offline, retrying: ');

/** Longer than the tries for one event take, so that each worker publishes into nothing. */
const AWAY_MS = 7000;

const started: Program[] = [];
const start = (...args: readonly string[]): Program => {
  const program = startProgram(args);
  started.push(program);
  return program;
};
afterEach(() => {
  for (const { child } of started.splice(0)) child.kill('SIGKILL');
});

const startRelay = async (port: number): Promise<Program> => {
  const program = start('relay', '--port', `${port}`);
  await expect.poll(() => program.output.stdout, { timeout: 20_000 }).toContain('ws://');
  return program;
};

describe('a relay that is away for a while', () => {
  it('as a process that is killed and started anew: both workers end in the same bits', async () => {
    const free = await createRelay();
    const port = Number(new URL(free.url).port);
    await free.close();
    const relay = await startRelay(port);
    const workers = [1, 2].map((k) =>
      start(
        ...['run-training', '--model', 'mlp', '--run', 'away', '--relay', `ws://127.0.0.1:${port}`],
        ...['--sync', 'strict:2', '--shard', `${k}/2`, '--rounds', '3', '--inner-steps', '6000'],
        ...['--report', 'ndjson', '--dir', temporaryFolder()],
      ),
    );
    await Promise.all(workers.map((one) => one.event(({ type }) => type === 'round')));
    relay.child.kill('SIGKILL');
    await pause(AWAY_MS);
    await startRelay(port);
    const ends = await Promise.all(workers.map((one) => one.event(({ type }) => type === 'done')));
    expect(await Promise.all(workers.map(({ exit }) => exit))).toEqual([0, 0]);
    const [a, b] = ends.map((event) => (event.type === 'done' ? event.digest : ''));
    expect(a).toBe(b);
    for (const { events } of workers) expect(events.filter(isAwayNotice)).not.toEqual([]);
  }, 120_000);

  const stage = createStage(startMember);

  it('a gradient that only the dead relay held is sent again', async () => {
    const relay = await stage.relay();
    const port = Number(new URL(relay.url).port);
    const plan = { rounds: 1, sync: { strategy: 'strict', workers: 2 } as const };
    const early = stage.start({ index: 0, relays: [relay.url], plan });
    await expect.poll(() => early.events.map(({ type }) => type)).toContain('published');
    await relay.close();
    const anew = await createRelay({ port });
    onTestFinished(() => anew.close());
    const late = stage.start({ index: 1, relays: [anew.url], plan });
    const [a, b] = await Promise.all([early.finished, late.finished]);
    expect(a.params.values).toEqual(b.params.values);
    expect(a.cohort).toHaveLength(2);
  });
});
