/** Hand-written pages stay short enough to be read to the end. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const docs = join(import.meta.dirname, '../../docs');

/** Specifications, and lists that grow with the program. reference/, decisions/ and results/ are folders, which are not read. */
const EXCEPTIONS: ReadonlySet<string> = new Set([
  'nip.md',
  'protocol.md',
  'run-spec.md',
  'statements.md',
]);

/** Maximum number of words of one page: a reader finishes it in one sitting. */
const PAGE_LIMIT = 1500;
/** Maximum number of words of all pages together: a change that adds a page shortens another. */
const TOTAL_LIMIT = 45_000;

/** Counts words as `wc -w` does, code and tables included. */
const words = readdirSync(docs)
  .filter((name) => name.endsWith('.md') && !EXCEPTIONS.has(name))
  .map((name) => ({
    name,
    count: readFileSync(join(docs, name), 'utf8').split(/\s+/).filter(Boolean).length,
  }));

it('each page in docs has at most 1,500 words', () => {
  expect(words.filter(({ count }) => count > PAGE_LIMIT)).toEqual([]);
});

it('all pages in docs together have at most 45,000 words', () => {
  expect(words.length).toBeGreaterThan(40);
  expect(words.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(TOTAL_LIMIT);
});
