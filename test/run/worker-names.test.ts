/** How people see a worker: its name and the start of its key, in any text. */
import { expect, it } from 'vitest';
import { called, shortName, withNames } from '../../src/run/worker-names.ts';
import { keyOf } from '../support/swarm.ts';

const [bea, cid] = [keyOf(1), keyOf(2)];
const names = new Map([[bea, 'Bea']]);

it('a worker is its name and the start of its key', () => {
  expect(called(bea, 'Bea')).toBe(`Bea (${shortName(bea)})`);
  expect(called(bea, undefined)).toBe(shortName(bea));
});

it('a name that looks like another key is not shown', () => {
  expect(called(bea, `Cid (${shortName(cid)})`)).toBe(shortName(bea));
});

it('a text gets the names of the workers in it, each once', () => {
  const text = `missing ${shortName(bea)} ${shortName(cid)}`;
  const named = `missing Bea (${shortName(bea)}) ${shortName(cid)}`;
  expect(withNames(text, names)).toBe(named);
  expect(withNames(named, names)).toBe(named);
});

it('a name stays on its line', () => {
  expect(called(bea, 'Bea\nCid')).not.toContain('\n');
});
