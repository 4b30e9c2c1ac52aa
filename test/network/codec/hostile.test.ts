import { describe, expect, test } from 'vitest';
import { countAllocations } from '../../support/allocations.ts';
import { HOSTILE_SIZE, hostilePayloads } from '../../support/hostile-payloads.ts';

/** The block of a payload that sends everything, and what it becomes: well below N-14's 20 MB. */
const MOST = 5 * HOSTILE_SIZE + 200_000;

// times are in docs/benchmarks.md, `npm run bench:codec -- hostile`
describe('N-14: hostile payloads', () => {
  test.each(hostilePayloads())('$name: $refused', ({ refused, decode }) => {
    const { value, bytes } = countAllocations(decode);
    expect(value).toMatchObject({ ok: false, issue: { code: refused } });
    expect(bytes).toBeLessThan(MOST);
  });
});
