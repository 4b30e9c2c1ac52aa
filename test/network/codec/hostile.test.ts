import { describe, expect, test } from 'vitest';
import { countAllocations } from '../../support/allocations.ts';
import { HOSTILE_SIZE, hostilePayloads } from '../../support/hostile-payloads.ts';

/** What decoding may ask for: the block of a payload that sends everything, and what it becomes. */
const MOST = 5 * HOSTILE_SIZE + 200_000;
// `npm run bench:codec -- hostile` measures how long each takes
describe('N-14: hostile payloads', () => {
  test.each(hostilePayloads())('$name: $refused', ({ refused, decode }) => {
    const { value, bytes } = countAllocations(decode);
    expect(value).toMatchObject({ ok: false, issue: { code: refused } });
    expect(bytes).toBeLessThan(MOST);
  });
});
