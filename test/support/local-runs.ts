/** Writes run folders like those that workers leave in the data folder, without training. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openRunFolder } from 'nostrain/node';
import { createLayout } from 'nostrain/tensor';
import { genesis, noMembers, type RoundSummary } from 'nostrain/worker';
import { withRound } from '../../src/worker/state.ts';

const layout = createLayout([
  { name: 'a.bias', shape: [1] },
  { name: 'a.weight', shape: [2, 3] },
]);

export const SECRET = '0000000000000000000000000000000000000000000000000000000000000003';

const roundOf = (index: number, more: Partial<RoundSummary> = {}): RoundSummary => ({
  index,
  base: 'b'.repeat(64),
  digest: index.toString(16).padStart(64, 'd'),
  accepted: ['1'.repeat(64), '2'.repeat(64)],
  refused: [],
  completionReason: 'strict',
  trainingLoss: 4 - index / 2,
  validationLoss: 3 - index / 2,
  payloadBytes: 90,
  eventBytes: 1000,
  residualShare: 0,
  secondsTraining: 1,
  secondsWaiting: 0.5,
  seconds: 2,
  ...more,
});

export interface KeptRun {
  readonly done: number;
  readonly rounds: number;
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly last?: Partial<RoundSummary>;
}

/** Writes a worker's folder: settings, state, a log and a key, as after each of the rounds. */
export async function keepRun(
  dir: string,
  { done, rounds, settings, last }: KeptRun,
): Promise<void> {
  await mkdir(dir, { recursive: true });
  const run = dir.split('/').at(-1);
  const all = {
    run,
    model: 'linear',
    profile: 'nostrain/1',
    relay: ['ws://127.0.0.1:7777'],
    rounds,
    ...settings,
  };
  await writeFile(join(dir, 'settings.json'), JSON.stringify(all));
  await writeFile(join(dir, 'key'), `${SECRET}\n`);
  const folder = await openRunFolder(dir, noMembers);
  folder.log({ type: 'notice', message: 'hello' });
  let state = genesis({ layout, values: new Float32Array(layout.size) }, 4.5);
  for (let index = 0; index < done; index++) {
    const round = roundOf(index, index === done - 1 ? last : {});
    folder.log({ type: 'round', ...round });
    state = { ...state, ...withRound(state, round), round: done };
  }
  await folder.store.save(state);
  await folder.close();
}
