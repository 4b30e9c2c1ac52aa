import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createReporter, type ReportMode } from '../../../src/cli/render/reporter.ts';
import * as told from '../../support/demo-events.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Reports the whole run to a stream of the given kind and returns what was written. */
function report(
  mode: ReportMode | undefined,
  { isTTY = false, env = {}, workers = ['alice', 'bob'] as readonly string[] } = {},
): readonly string[] {
  const written: string[] = [];
  const stream = { isTTY, columns: 80, rows: 24, write: (text: string) => written.push(text) };
  const reporter = createReporter(mode, { title: 'demo', workers, stream, env });
  reporter.notice('relay: ws://127.0.0.1:7447');
  for (const [name, event] of told.wholeRun) {
    if (workers.includes(name)) reporter.event(name, event);
    vi.advanceTimersByTime(150);
  }
  reporter.close();
  reporter.close();
  vi.advanceTimersByTime(1000);
  return written;
}

const ESC = '\u001b';

it('draws in place on a terminal and leaves the last picture standing', () => {
  const written = report(undefined, { isTTY: true });
  expect(written.length).toBe(told.wholeRun.length + 2);
  expect(written[0]).not.toContain(`${ESC}[1A`);
  const height = written[0]!.split('\n').length - 1;
  expect(written[1]).toContain(`\r${ESC}[${height}A`);
  expect(written.at(-2)).toContain('QUEEN:');
  expect(written.at(-1)).toBe(`${ESC}[?25h`);
});

it('honours NO_COLOR', () => {
  const colored = (env: Record<string, string>) =>
    report(undefined, { isTTY: true, env }).some((text) => text.includes(`${ESC}[32m`));
  expect(colored({})).toBe(true);
  expect(colored({ NO_COLOR: '' })).toBe(true);
  expect(colored({ NO_COLOR: '1' })).toBe(false);
});

it.each([
  ['a pipe', {}],
  ['a dumb terminal', { isTTY: true, env: { TERM: 'dumb' } }],
])('writes plain lines to %s', (_, kind) => {
  const written = report(undefined, kind);
  expect(written[0]).toBe('relay: ws://127.0.0.1:7447\n');
  expect(written.join('')).not.toContain(ESC);
  expect(written.every((text) => text.indexOf('\n') === text.length - 1)).toBe(true);
  expect(written.filter((text) => text.includes('step'))).toHaveLength(10);
});

it('tells progress once per quarter where every line stays', () => {
  const written: string[] = [];
  const stream = { write: (text: string) => written.push(text) };
  const reporter = createReporter('plain', { title: '', workers: ['a'], stream, env: {} });
  for (const step of [7, 14, 21, 28, 35, 60, 99, 100]) {
    reporter.event('a', told.progress(0, step, 3));
  }
  expect(written.map((line) => /step (\d+)/.exec(line)![1])).toEqual([
    '7',
    '28',
    '60',
    '99',
    '100',
  ]);
});

it('writes one JSON document per line, with names where there are several', () => {
  const parse = (lines: readonly string[]) => lines.map((line) => JSON.parse(line));
  const many = parse(report('ndjson'));
  expect(many[0]).toEqual({ type: 'notice', message: 'relay: ws://127.0.0.1:7447' });
  expect(many[1]).toEqual({ name: 'alice', ...told.hello(told.alice) });
  const one = parse(report('ndjson', { workers: ['alice'] }));
  expect(one[1]).toEqual(told.hello(told.alice));
  expect(one).toHaveLength(1 + told.wholeRun.filter(([name]) => name === 'alice').length);
});
