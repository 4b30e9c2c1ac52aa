import { expect, test } from 'vitest';
import { countAllocations } from '../../support/allocations.ts';
import { judgeFuzzed } from '../../support/judge-fuzzed.ts';

/** Acceptance, and what can be wrong with a body; rarer reasons have tests of their own. */
const VERDICTS = [
  'nspl ok',
  'nspl truncated',
  'nspl trailing-bytes',
  'nspl bad-level',
  'nspl bad-value',
  'nspl unsupported-codec',
  'nstr ok',
  'nstr truncated',
  'nstr trailing-bytes',
  'nstr bad-deflate',
  'nstr bad-index',
];

test('10,000 payloads from strangers decode or are refused, within their memory', () => {
  const verdicts = judgeFuzzed(10_000, 2);
  expect([...verdicts.values()].reduce((sum, count) => sum + count, 0)).toBe(10_000);
  expect([...verdicts.keys()]).toEqual(expect.arrayContaining(VERDICTS));
});

test('memory is counted where it is asked for', () => {
  const { bytes } = countAllocations(() => new Uint8Array(new Uint32Array(10).buffer));
  expect(bytes).toBe(40);
});
