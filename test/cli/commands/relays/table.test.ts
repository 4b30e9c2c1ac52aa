import type { RelayReport } from 'nostrain/probe';
import { describe, expect, it } from 'vitest';
import { formatReports } from '../../../../src/cli/commands/relays.ts';
import { judgeRelay } from '../../../../src/probe/report.ts';

const yes = { verdict: 'yes', words: '' } as const;
const report: RelayReport = {
  url: 'wss://relay.example',
  openedMs: 141.6,
  stated: {
    name: 'one',
    software: 'strfry',
    version: '1.1.1',
    supportedNips: [1, 40, 77],
    limitation: { maxMessageLength: 131_072 },
  },
  skewSeconds: 0.4,
  auth: { write: false, read: false },
  size: { keptBytes: 65_536, refusedBytes: 102_400, words: 'invalid: event too large' },
  rate: { accepted: 20, seconds: 2 },
  kinds: { 7810: yes, 7811: yes, 37811: yes, 33334: yes, 33333: yes, 27811: yes, 5: yes },
  filters: { s: 'works', c: 'works' },
  deletes: true,
  spent: { events: 22, bytes: 243_000, seconds: 3.2 },
};
const tell = (...reports: readonly Partial<RelayReport>[]) =>
  formatReports(
    reports.map((change) => {
      const changed = { ...report, ...change };
      return { report: changed, verdict: judgeRelay(changed) };
    }),
  );

it('one relay is one row and some notes', () => {
  expect(tell({})).toBe(
    [
      'relay                ms   largest  at once  auth  work  refused  clock  carries',
      'wss://relay.example  142  64 KiB   20+      no    no    -        ok     chunks',
      '',
      'wss://relay.example: carries chunks',
      '  - describes itself as: one; strfry 1.1.1; NIP 40, 77; states messages 131072',
      '  - refuses an event of 100 KiB: invalid: event too large',
      '  - tested with 22 events, 243 kB, in 3.2 s',
      '',
    ].join('\n'),
  );
});

it('what is not as it should be stands in the row and in a note', () => {
  const refused = { verdict: 'refused', words: 'blocked: not here' } as const;
  const text = tell({
    skewSeconds: -75,
    rate: {
      accepted: 5,
      seconds: 0.5,
      throttled: 'rate-limited: slow down',
      againAfterSeconds: 13,
    },
    kinds: { ...report.kinds, 33333: refused, 27811: { verdict: 'lost', words: '' } },
    filters: { s: 'works', c: 'brings too much' },
    deletes: false,
  });
  const [, row] = text.split('\n');
  expect(row).toMatch(/ 64 KiB +5 +no +no +33333 +-75 s +chunks$/);
  for (const note of [
    'rate-limited after 5 events in 0.5 s (rate-limited: slow down); accepted another one after 13 s',
    'refuses kind 33333: blocked: not here',
    'accepts kind 27811 but does not return it',
    'its #c filter returns events that do not match',
    'does not delete events on request',
    'this machine is 75 s behind its clock',
    'try: nostrain plan --model NAME --relay wss://relay.example --check',
  ]) {
    expect(text).toContain(note);
  }
});

it('a relay that cannot be reached has a row too', () => {
  const text = tell({}, { url: 'ws://127.0.0.1:9', problem: 'connect ECONNREFUSED' });
  expect(text).toContain('UNUSABLE\n');
  expect(text).toContain('ws://127.0.0.1:9: unusable\n  - cannot be reached: connect ECONNREFUSED');
});

it('fits 100 columns and cannot write to the terminal', () => {
  const evil = `a\u001b[2J${'very '.repeat(60)}\n\u202e`;
  const text = tell({
    url: `wss://${'long.'.repeat(30)}example`,
    stated: { name: evil, supportedNips: [], limitation: {} },
    size: { keptBytes: 1024, refusedBytes: 2048, words: evil },
    clockWords: evil,
    kinds: { ...report.kinds, 7811: { verdict: 'refused', words: evil } },
  });
  expect(Math.max(...text.split('\n').map((line) => [...line].length))).toBeLessThanOrEqual(100);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
});

describe('the verdict', () => {
  const ifAble = { authenticates: true, workBits: 20, workBytes: 2048 };

  it.each([
    [{}, 'chunks'],
    [{ auth: { write: true, read: false, letIn: true } }, 'chunks'],
    [{ auth: { write: true, read: false, letIn: false } }, 'nothing'],
    [{ work: { bits: 20, words: 'pow: 20' } }, 'manifests'],
    [{ work: { bits: 21, words: 'pow: 21' } }, 'nothing'],
    [{ work: { words: 'pow: more' } }, 'nothing'],
    [{ filters: { s: 'works', c: 'finds nothing' } }, 'manifests'],
    [{ filters: { s: 'refused', c: 'works' } }, 'nothing'],
    [{ filters: { s: 'unknown', c: 'unknown' } }, 'chunks'],
    [{ size: { keptBytes: 49_000, refusedBytes: 61_000, words: 'no' } }, 'manifests'],
    [{ kinds: { ...report.kinds, 7811: { verdict: 'lost', words: '' } } }, 'manifests'],
    [{ kinds: { 7810: { verdict: 'unknown', words: 'x' }, 37811: yes } }, 'heartbeats'],
    [{ kinds: { 7810: { verdict: 'refused', words: 'x' } } }, 'nothing'],
    [{ kinds: {} }, 'nothing'],
  ] as const)('%j carries %s', (change, carries) => {
    const verdict = judgeRelay({ ...report, ...change } as RelayReport, ifAble);
    expect(verdict.carries).toBe(carries);
    expect(verdict.why.length > 0).toBe(carries !== 'chunks');
    expect(verdict.next === undefined).toBe(carries === 'chunks');
  });

  it('counts what a worker does not do against a relay', () => {
    const unable = { authenticates: false, workBits: 0, workBytes: 0 };
    const asks = { ...report, auth: { write: true, read: false, letIn: true } };
    expect(judgeRelay(asks, unable).carries).toBe('nothing');
    expect(judgeRelay({ ...report, work: { bits: 1, words: '' } }, unable).carries).toBe('nothing');
  });
});
