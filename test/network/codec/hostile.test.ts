import { describe, expect, test } from 'vitest';
import { countAllocations } from '../../support/allocations.ts';
import { HOSTILE_SIZE, hostilePayloads } from '../../support/hostile-payloads.ts';

/** What decoding may ask for: the block of a payload that sends everything, and what it becomes. */
const MOST = 5 * HOSTILE_SIZE + 200_000;
/** What the process may grow by, whatever it is for. */
const MOST_GROWTH = 20_000_000;
const MOST_MS = 50;

/** Processor time of the quickest of a few calls: a busy machine delays some of them, never all. */
function quickestMs(call: () => unknown): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 3; i++) {
    const started = process.cpuUsage();
    call();
    const { user, system } = process.cpuUsage(started);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

// medians are in docs/benchmarks.md, `npm run bench:codec -- hostile`
describe('N-14: hostile payloads', () => {
  test.each(hostilePayloads())('$name: $refused', ({ refused, decode }) => {
    const before = process.memoryUsage.rss();
    const { value, bytes } = countAllocations(decode);
    expect(process.memoryUsage.rss() - before).toBeLessThan(MOST_GROWTH);
    expect(value).toMatchObject({ ok: false, issue: { code: refused } });
    expect(bytes).toBeLessThan(MOST);
    expect(quickestMs(decode)).toBeLessThan(MOST_MS);
  });
});
