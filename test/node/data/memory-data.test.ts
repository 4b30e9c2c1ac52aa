/** Data in memory gives the same parts as the same data in files, and nothing of it is written. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tokenizers } from 'nostrain/model';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openCorpus } from '../../../src/node/data/corpus.ts';
import { linesOf } from '../../../src/node/data/picture-lines.ts';
import { filesIn, openSeries, readPictures } from '../../../src/node/data/sources.ts';
import { builtInForm, prepareTokens } from '../../../src/node/data/token-parts.ts';
import { temporaryFolder } from '../../support/processes.ts';

const folder = temporaryFolder();
const { signal } = new AbortController();
const onNotice = () => undefined;
beforeAll(() => vi.stubEnv('NOSTRAIN_HOME', join(folder, 'home')));
afterAll(() => vi.unstubAllEnvs());

/** Opens bytes as a file and in memory. */
function both(name: string, text: string) {
  const file = join(folder, name);
  writeFileSync(file, text);
  return [file, { name, bytes: new TextEncoder().encode(text) }] as const;
}

it.each([
  ['a.txt', 'the quick brown fox\n'.repeat(300)],
  ['a.jsonl', `${JSON.stringify({ prompt: 'what is it?', completion: 'a fox' })}\n`.repeat(300)],
])('%s has the same tokens', async (name, text) => {
  const cache = join(folder, `cache-${name}`);
  mkdirSync(cache);
  const parts = await Promise.all(
    both(name, text).map(async (file, i) => {
      const options = { cacheDir: folder, allowDownload: false, onNotice, signal };
      const corpus = await openCorpus({ file, ...options });
      const where = i === 0 ? join(folder, 'files') : cache;
      const shard = { index: 1, count: 1 };
      const how = { context: 16, shard, form: 'contiguous', onNotice, signal } as const;
      return prepareTokens(corpus, builtInForm(tokenizers.bytes), { ...how, folder: where });
    }),
  );
  expect(parts[1]).toEqual(parts[0]);
  expect(readdirSync(cache)).toEqual([]);
});

it('a series and a folder of pictures are the same', async () => {
  const rows = Array.from({ length: 200 }, (_, i) => `${i},${Math.sin(i)}\n`).join('');
  const [series, held] = await Promise.all(
    both('a.csv', `time,x\n${rows}`).map((corpus) =>
      openSeries({ seed: 1 }, { corpus, onNotice, signal }),
    ),
  );
  expect(held!.series).toEqual(series!.series);
  const pixel =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
  for (const name of ['cats', 'dogs']) {
    mkdirSync(join(folder, 'pictures', name), { recursive: true });
    for (const file of ['1.png', '2.png']) {
      writeFileSync(join(folder, 'pictures', name, file), Buffer.from(pixel, 'base64'));
    }
  }
  const bytes = await linesOf(await filesIn(join(folder, 'pictures')));
  const inMemory = await readPictures({ name: 'sealed', bytes }, 8, signal);
  expect(inMemory).toEqual(await readPictures(join(folder, 'pictures'), 8, signal));
});
