import { Command } from 'commander';
import { expect, test } from 'vitest';
import { defaultRetry } from '../../src/base/async.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionOf,
} from '../../src/terminal/connection.ts';

const read = (...flags: readonly string[]) =>
  connectionOf(
    addConnectionFlags(new Command()).parse(flags, { from: 'user' }).opts<ConnectionFlags>(),
  );

test('nothing given, nothing assumed', () => {
  expect(read()).toEqual({ openTimeoutMs: 10_000, retry: defaultRetry });
});

test('what relays take', () => {
  expect(
    read('--relay-rate', '0', '--relay-max-event-bytes', '200000', '--relay-copies', '2'),
  ).toMatchObject({
    eventsPerMinute: 0,
    maxEventBytes: 200_000,
    copies: 2,
  });
  expect(() => read('--relay-rate', '-1')).toThrow('--relay-rate is "-1"');
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
