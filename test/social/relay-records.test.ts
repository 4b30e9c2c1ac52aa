/** Finding relays: candidates from strangers' records within bounds, and our own records. */
import { createSigner } from 'nostrain/network';
import { createRelay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import { buildRelayRecord, rankCandidates } from '../../src/social/relay-records.ts';
import { runCommand } from '../support/command-line.ts';
import { publishRaw } from '../support/publish-raw.ts';

const signerOf = (number: number) => createSigner(new Uint8Array(32).fill(number));
const [one, two, member] = [signerOf(1), signerOf(2), signerOf(3)];
const now = Math.floor(Date.now() / 1000);
const record = (signer: typeof one, url: string, ...tags: string[][]) =>
  signer.sign({ kind: 30_166, created_at: now, content: '', tags: [['d', url], ...tags] });
const list = member.sign({
  kind: 10_002,
  created_at: now,
  content: '',
  tags: [
    ['r', 'wss://members.example.org'],
    ['r', 'wss://reads.example.org', 'read'],
  ],
});

describe('candidates', () => {
  it('N-66: are relays of members, then those of most monitors; closed and private ones are left out', () => {
    const events = [
      record(one, 'wss://a.example.org'),
      record(one, 'wss://b.example.org/'),
      record(two, 'wss://b.example.org', ['R', '!payment']),
      record(two, 'wss://paid.example.org', ['R', 'payment']),
      record(two, 'ws://192.168.0.1'),
      record(two, 'javascript:alert(1)'),
      list,
    ];
    expect(rankCandidates(events, [member.publicKey])).toEqual([
      { url: 'wss://members.example.org/', monitors: 0, members: 1 },
      { url: 'wss://b.example.org/', monitors: 2, members: 0 },
      { url: 'wss://a.example.org/', monitors: 1, members: 0 },
    ]);
    // a list of a key that is no member counts nothing
    expect(rankCandidates([list], [])).toEqual([]);
  });

  it('N-66: of one monitor that floods are limited', () => {
    const event = record(one, 'wss://r.example.org');
    const flood = Array.from({ length: 300 }, (_, i) => {
      return { ...event, tags: [['d', `wss://r${i}.example.org`]] };
    });
    expect(rankCandidates(flood, [])).toHaveLength(200);
  });
});

describe('nostrain relays find', () => {
  it('N-66: tests candidates, ranks them, and publishes records only where asked', async () => {
    const [board, good] = [await createRelay(), await createRelay()];
    await publishRaw(board.url, [record(one, good.url), record(one, 'ws://127.0.0.1:9')]);
    const asking = ['--relay', board.url, '--allow-private-relays', '--seconds', '10', '--json'];
    const key = ['--sec-key', '05'.repeat(32)];
    const found = await runCommand('relays', 'find', ...asking);
    expect(JSON.parse(found.stdout)).toMatchObject([
      { url: expect.stringContaining(good.url), carries: 'chunks' },
      { carries: 'nothing' },
    ]);
    for (const _ of [1, 2]) {
      const published = await runCommand(
        'relays',
        'find',
        ...asking,
        ...key,
        '--publish',
        board.url,
      );
      expect(published.exitCode, published.stderr).toBe(0);
      expect(published.stderr).toContain('published 2 records');
    }
    await Promise.all([board.close(), good.close()]);
  });

  it('N-66: says in a record what other monitors do not: size, burst, work, how long it is kept', () => {
    const report = {
      url: 'wss://relay.example.org',
      openedMs: 12.4,
      auth: { write: false, read: false },
      work: { bits: 8, words: '' },
      size: { keptBytes: 61_440 },
      rate: { accepted: 20, seconds: 1 },
      kinds: { 7810: { verdict: 'yes', words: '' }, 7811: { verdict: 'refused', words: '' } },
      filters: { s: 'works', c: 'works' },
      spent: { events: 1, bytes: 1, seconds: 1 },
    } as const;
    const { tags } = buildRelayRecord(
      { report, verdict: { carries: 'manifests', why: [] } },
      5,
      86_400,
    );
    for (const tag of [
      ['d', 'wss://relay.example.org/'],
      ['n', 'clearnet'],
      ['rtt-open', '12'],
      ['R', '!auth'],
      ['R', 'pow'],
      ['k', '7810'],
      ['k', '!7811'],
      ['event-bytes', '61440'],
      ['pow-bits', '8'],
      ['kept-seconds', '86400'],
    ]) {
      expect(tags).toContainEqual(tag);
    }
  });
});
