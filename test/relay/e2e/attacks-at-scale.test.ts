/** Attacks on a public relay that take 100,000 events or more; the others are in `test/relay/attacks.test.ts`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { defaultLimits, finish, Store } from 'nostrain/relay';
import { expect, test } from 'vitest';
import { Tombstones } from '../../../relay/tombstones.ts';
import { entryOf, hexOf, kept, NOW } from '../../support/relay-entries.ts';

test('100,000 new keys do not push out those who were there before', () => {
  const store = new Store({ ...defaultLimits, maxStoredEvents: 5120 });
  const votes = Array.from({ length: 80 }, (_, i) => entryOf(i, i % 8));
  for (const vote of votes) store.add(vote, NOW);
  for (let i = 1000; i < 101_000; i++) store.add(entryOf(i, i), NOW);
  expect(kept(store, votes)).toBe(80);
  expect(store.size).toBeLessThanOrEqual(5120);
});

test('40 MB of small events with many tags do not kill a heap of 512 MB', async () => {
  const modules = ['store.js', 'limits.js'].map((name) =>
    JSON.stringify(new URL(`../../../dist/relay/${name}`, import.meta.url).href),
  );
  const program = `
    const [{ Store }, { defaultLimits }] = await Promise.all([${modules.map((name) => `import(${name})`).join(', ')}]);
    const store = new Store(defaultLimits);
    let bytes = 0;
    for (let i = 0; bytes < 40e6; i++) {
      const tags = Array.from({ length: 2000 }, (_, j) => ['t', (i * 2000 + j).toString(36)]);
      const event = { id: i.toString(16).padStart(64, '0'), pubkey: (i % 50).toString(16).padStart(64, '0'), created_at: i, kind: 1000, tags };
      const json = Buffer.from(JSON.stringify({ ...event, content: '', sig: 'b'.repeat(128) }));
      bytes += json.length;
      store.add({ ...JSON.parse(json), json }, i);
    }`;
  const node = ['--max-old-space-size=512', '--input-type=module'];
  const child = spawn(process.execPath, [...node, '--eval', program], { stdio: 'ignore' });
  expect(await once(child, 'exit')).toEqual([0, null]);
}, 120_000);

test('a million deletions leave a bounded number of marks, and those of others', () => {
  const tombstones = new Tombstones();
  const deletion = (author: number, tags: string[][]) => entryOf(0, author, { kind: 5, tags });
  const victim = entryOf(7, 1);
  finish(tombstones.mark(deletion(1, [['e', victim.id]])));
  for (let i = 0; i < 500; i++) {
    const tags = Array.from({ length: 2000 }, (_, j) => ['e', hexOf(i * 2000 + j)]);
    finish(tombstones.mark(deletion(2 + (i % 100), tags)));
  }
  expect(tombstones.size).toBe(100_000);
  expect(tombstones.covers(victim)).toBe(true);
});
