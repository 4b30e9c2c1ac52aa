/** Notes and model cards about a run, and the events by which clients find a program for it. */
import { createHash } from 'node:crypto';
import { naddrEncode } from 'nostr-tools/nip19';
import { describe, expect, it } from 'vitest';
import {
  addressOfRun,
  buildAnnouncement,
  drawLosses,
  type Shown,
} from '../../src/social/announce.ts';
import { buildHandler, buildSite, siteHash } from '../../src/social/sites.ts';

const [run, author, worker] = ['ab', 'cd', 'ef'].map((pair) => pair.repeat(32)) as [
  string,
  string,
  string,
];
const RELAY = 'wss://relay.example.org';
const naddr = naddrEncode({ kind: 37_810, identifier: run, pubkey: author, relays: [RELAY] });
const shown: Shown = {
  run,
  name: 'a run \u202eof strangers',
  model: 'char-gpt',
  planned: 3,
  lossUnit: '',
  rounds: [{ sharedLoss: 4 }, { trainingLoss: 3 }, { sharedLoss: 2 }],
  workers: [{ worker, counted: 3 }],
};
const about = {
  shown,
  author,
  naddr,
  relay: RELAY,
  page: 'https://page.example.org/',
  tab: 'https://page.example.org/tab.html',
  split: { shares: [{ key: worker, weight: 3 }], leftOut: [author] },
};

describe('an announcement', () => {
  it('N-61: names the run for clients, links to tab and page, and splits zaps', () => {
    const note = buildAnnouncement(about, 5);
    expect(note.kind).toBe(1);
    expect(note.tags).toEqual([
      ['a', addressOfRun(author, run), RELAY],
      ['t', 'nostrain'],
      ['zap', worker, RELAY, '3'],
    ]);
    expect(note.content).toContain(
      'a run ·of strangers is trained: char-gpt, 3 of 3 rounds, 1 contributor',
    );
    expect(note.content).toContain('█▅▁ loss 4.0000 → 2.0000');
    expect(note.content).toContain(`nostr:${naddr}`);
    expect(note.content).toContain(`https://page.example.org/tab.html#${naddr}`);
    expect(note.content).toContain('zaps leave out, without a Lightning address: nostr:npub1');
  });

  it('N-61: is a card that a later one replaces, if asked', () => {
    const picture = {
      url: 'https://b.example.org/x.png',
      sha256: run,
      type: 'image/png',
      size: '640x320',
    };
    const card = buildAnnouncement({ ...about, picture }, 5, true);
    expect(card.kind).toBe(30_023);
    expect(card.tags).toContainEqual(['d', `nostrain/${run}`]);
    expect(card.tags).toContainEqual(['image', picture.url]);
    expect(card.tags.find(([name]) => name === 'imeta')).toContain(`x ${run}`);
    expect(card.content).not.toContain('<');
  });

  it('draws losses in at most 32 bars', () => {
    expect([...drawLosses(Array.from({ length: 500 }, (_, i) => 500 - i))]).toHaveLength(32);
    expect(drawLosses([2, 2])).toBe('▁▁');
    expect(drawLosses([2])).toBe('');
  });
});

describe('a handler', () => {
  it('N-64: opens runs and checkpoints in page and tab, and names the site it comes from', () => {
    const handler = {
      author,
      page: 'https://p.example.org/',
      tab: 'https://p.example.org/tab.html',
    };
    const [profile, event] = buildHandler({ ...handler, site: 'nostrain', relay: RELAY }, 5);
    expect(JSON.parse(profile!.content).name).toBe('nostrain');
    expect(event!.kind).toBe(31_990);
    expect(event!.tags).toEqual([
      ['d', 'nostrain'],
      ['k', '37810'],
      ['k', '7812'],
      ['latest', `35128:${author}:nostrain`, RELAY],
      ['web', 'https://p.example.org/#<bech32>', 'naddr'],
      ['web', 'https://p.example.org/tab.html#<bech32>', 'naddr'],
      ['web', 'https://p.example.org/#<bech32>', 'nevent'],
    ]);
  });
});

describe('a site', () => {
  const files = [
    {
      path: '/index.html',
      sha256: '186ea5fd14e88fd1ac49351759e7ab906fa94892002b60bf7f5a428f28ca1c99',
    },
    {
      path: '/favicon.ico',
      sha256: 'fedcba0987654321fedcba0987654321fedcba0987654321fedcba0987654321',
    },
  ];

  it('N-64: has the aggregate hash of NIP-5A, in any order of its files', () => {
    const text = files.map(({ path, sha256 }) => `${sha256} ${path}\n`).join('');
    expect(siteHash(files)).toBe(createHash('sha256').update(text).digest('hex'));
    expect(siteHash([...files].reverse())).toBe(siteHash(files));
  });

  it('N-64: is published with a snapshot of the same files, which names it', () => {
    const site = { name: 'nostrain', title: 'a run', author, files, servers: [], relay: RELAY };
    const [manifest, snapshot] = buildSite({ ...site, source: 'https://git.example.org/x' }, 5);
    const tags = (name: string, of: typeof manifest) => of.tags.filter(([first]) => first === name);
    for (const name of ['path', 'x']) expect(tags(name, snapshot)).toEqual(tags(name, manifest));
    expect(snapshot.kind).toBe(5128);
    expect(tags('a', snapshot)).toEqual([['a', `35128:${author}:nostrain`, RELAY]]);
    expect(tags('d', snapshot)).toEqual([]);
    expect(tags('x', manifest)).toEqual([['x', siteHash(files), 'aggregate']]);
    expect(tags('source', manifest)).toHaveLength(1);
    expect(tags('app', manifest)).toEqual([['app', `31990:${author}:nostrain`, RELAY]]);
  });
});
