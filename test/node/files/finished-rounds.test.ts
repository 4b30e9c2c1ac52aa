import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { formatKeptRound } from '../../../src/certified/rounds/keep-round.ts';
import {
  createBackfillStore,
  readFinishedRounds,
  roundsFolder,
} from '../../../src/node/files/finished-rounds.ts';
import { eventOf, signerOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const inFolder = temporaryFolder();
const recordOf = (round: number, content: string) => {
  const by = [signerOf(1).publicKey];
  return formatKeptRound({ round, by, events: [eventOf(content)], bodies: [] });
};

it('are listed with their sizes, and read in order', async () => {
  const dir = inFolder('worker');
  const store = createBackfillStore(roundsFolder(dir));
  expect([...(await store.sizes())]).toEqual([]);
  for (const round of [10, 9, 11]) await store.save(round, recordOf(round, `${round}`));
  const text = recordOf(9, '9');
  expect((await store.sizes()).get(9)).toBe(text.length);
  expect(await store.load(9)).toBe(text);
  await store.remove(9);
  await store.remove(9);
  expect(await store.load(9)).toBeUndefined();
  const past = await readFinishedRounds(dir);
  expect(past).toMatchObject({ first: 10, last: 11 });
  expect(past!.events.map(({ content }) => content)).toEqual(['10', '11']);
});

it('that are broken, forged or foreign files are skipped', async () => {
  const dir = inFolder('worker');
  const folder = roundsFolder(dir);
  await mkdir(folder, { recursive: true });
  const { content, ...event } = eventOf('true');
  const forged = { ...event, content: `not ${content}` };
  const by = [signerOf(1).publicKey];
  const files = {
    '1.json': '{',
    '2.json': formatKeptRound({ round: 2, by, events: [forged], bodies: [] }),
    '3.json.tmp': recordOf(3, 'three'),
    'x.json': recordOf(4, 'four'),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  expect(await readFinishedRounds(dir)).toEqual({ first: 2, last: 2, events: [] });
  expect(await readFinishedRounds(inFolder('none'))).toBeUndefined();
});
