import { Command } from 'commander';
import { defaultRetry } from 'nostrain/base';
import { expect, test } from 'vitest';
import {
  type ConnectionFlags,
  connectionFlags,
  connectionOf,
} from '../../src/terminal/connection.ts';
import { addFlags } from '../../src/terminal/flag-table.ts';

const read = (...flags: readonly string[]) =>
  connectionOf(
    addFlags(new Command(), connectionFlags).parse(flags, { from: 'user' }).opts<ConnectionFlags>(),
  );

test('nothing given, nothing assumed', () => {
  expect(read()).toEqual({ openTimeoutMs: 10_000, retry: defaultRetry });
});

test('what relays take', () => {
  expect(
    read(
      ...['relayRate=0', 'relayMaxEventBytes=200000', 'relayCopies=2'].flatMap((each) => [
        '--set',
        each,
      ]),
    ),
  ).toMatchObject({
    eventsPerMinute: 0,
    maxEventBytes: 200_000,
    redundancy: 2,
  });
  expect(() => read('--set', 'relayRate=-1')).toThrow('--set relayRate is "-1"');
});

test('the reference waits exactly', () => {
  expect(read('--relay-retries', '3').retry).toEqual({
    maxAttempts: 4,
    initialMs: 250,
    maxMs: 2000,
    multiplier: 2,
    jitter: 'none',
  });
});
