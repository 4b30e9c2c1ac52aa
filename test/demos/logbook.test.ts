import { sha256Hex } from 'nostrain/base';
import { expect, test } from 'vitest';
import { writeLogbook } from '../../demos/finetune/logbook.ts';

test('the logbook is the same bytes everywhere, of about the size asked for, and not of one day', () => {
  const log = writeLogbook();
  expect(sha256Hex(log)).toBe('40c88e008c383f342afe8f0903fecf4e852a68c30e2396aeea04b1c26fc61129');
  expect(log.length).toBeLessThan(301_000);
  const days = new TextDecoder().decode(log).split('\n\n');
  expect(new Set(days).size).toBeGreaterThan(0.99 * days.length);
  expect(days[0]).toMatch(/^== 01-JAN ==\n0400 \| wind [NESW]+ \d \| \d+ mb \| sea /);
});
