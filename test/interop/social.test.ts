/**
 * What we post about a run is read by other Nostr programs (applesauce, NDK, nostr-sdk) as we mean it, and every relay
 * of other projects takes each kind of event and gives it back.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { naddrEncode } from 'nostr-tools/nip19';
import { systemClock } from 'nostrain/base';
import { createRelaySet, createSigner } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { expect } from 'vitest';
import { buildAnnouncement } from '../../src/social/announce.ts';
import { buildRelayRecord, buildRetention } from '../../src/social/relay-records.ts';
import { buildHandler, buildSite } from '../../src/social/sites.ts';
import { installed, itWith } from '../support/needs.ts';
import { thirdParties } from './third-parties.ts';

const signer = createSigner(new Uint8Array(32).fill(31));
const author = signer.publicKey;
const [run, worker, other] = ['ab', 'cd', 'ef'].map((pair) => pair.repeat(32)) as [
  string,
  string,
  string,
];
const RELAY = 'wss://relay.example.org';
const now = Math.floor(Date.now() / 1000);
const page = 'https://page.example.org/';
const naddr = naddrEncode({ kind: 37_810, identifier: run, pubkey: author, relays: [RELAY] });
const about = {
  shown: {
    run,
    name: 'winter',
    model: 'char-gpt',
    planned: 2,
    lossUnit: '',
    rounds: [{ sharedLoss: 4 }, { sharedLoss: 2 }],
    workers: [{ worker, counted: 3 }],
  },
  author,
  naddr,
  relay: RELAY,
  page,
  split: {
    shares: [
      { key: worker, weight: 3 },
      { key: other, weight: 1 },
    ],
    leftOut: [],
  },
};
const report = {
  url: RELAY,
  openedMs: 12,
  auth: { write: false, read: false },
  size: { keptBytes: 61_440 },
  rate: { accepted: 20, seconds: 1 },
  kinds: {},
  filters: { s: 'works', c: 'works' },
  spent: { events: 1, bytes: 1, seconds: 1 },
} as const;
const files = [{ path: '/index.html', sha256: run }];
const split = { run: `37810:${author}:${run}`, shares: about.split.shares };
const site = { name: 'nostrain', title: 'a run', author, files, servers: [], relay: RELAY, split };
const [profile, handler] = buildHandler({ author, page, relay: RELAY }, now);
const [manifest, snapshot] = buildSite(site, now);
const drafts = {
  note: buildAnnouncement(about, now),
  card: buildAnnouncement(about, now, true),
  profile: profile!,
  handler: handler!,
  manifest,
  snapshot,
  comment: {
    kind: 1111,
    created_at: now,
    content: 'How long does a round take?',
    tags: [
      ['A', `37810:${author}:${run}`, RELAY],
      ['K', '37810'],
      ['a', `37810:${author}:${run}`, RELAY],
      ['k', '37810'],
    ],
  },
  relayList: { kind: 10_002, created_at: now, content: '', tags: [['r', RELAY, 'write']] },
  record: buildRelayRecord({ report, verdict: { carries: 'chunks', why: [] } }, now, 60),
  retention: buildRetention(now),
};
const events = Object.fromEntries(
  Object.entries(drafts).map(([name, draft]) => [name, signer.sign(draft)]),
);

const pathOf = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const answer = (...[program, ...args]: readonly [string, ...string[]]) =>
  JSON.parse(execFileSync(program, args, { input: JSON.stringify(events), encoding: 'utf8' }));

const reader = pathOf('../../.interop/applesauce/read.mjs');
itWith(installed(reader, 'applesauce'))(
  'N-61, N-63, N-64: applesauce and NDK read note, card, handler and relay record',
  async () => {
    const { valid, applesauce, ndk } = answer(process.execPath, reader);
    expect(valid).toBe(true);
    expect(applesauce).toEqual({
      splits: [
        [worker, 0.75],
        [other, 0.25],
      ],
      title: 'winter',
      summary: 'char-gpt, 2 of 2 rounds, 1 contributor',
      kinds: [37_810, 7812],
      name: 'nostrain',
      link: expect.stringMatching(/^https:\/\/page\.example\.org\/#naddr1/),
      relay: `${RELAY}/`,
      open: 12,
      requirements: ['!auth', '!pow'],
    });
    expect(ndk).toEqual({
      title: 'winter',
      address: `30023:${author}:nostrain/${run}`,
      splits: [
        [worker, '3'],
        [other, '1'],
      ],
    });
  },
  { timeout: 60_000 },
);

const python = pathOf('../../.interop/nostr-sdk/bin/python');
itWith(installed(python, 'nostr-sdk'))(
  'N-61, N-63: nostr-sdk verifies all of them, and finds the run in a note',
  async () => {
    expect(answer(python, pathOf('nostr-sdk/read.py'))).toEqual({
      valid: true,
      identifier: run,
      named: run,
      kind: 37_810,
      name: 'nostrain',
      zaps: [
        [worker, RELAY, '3'],
        [other, RELAY, '1'],
      ],
    });
  },
  { timeout: 60_000 },
);

const ours = {
  name: 'our relay',
  version: 'of this version',
  install: '',
  isInstalled: () => true,
  start: createRelay,
};
for (const { name, version, install, isInstalled, start } of [ours, ...thirdParties]) {
  const missing = isInstalled() ? undefined : `not installed; that takes: ${install}`;
  itWith(missing)(
    `N-61: ${name} ${version} takes every kind of event about a run, and gives it back`,
    async () => {
      const started = await start();
      const relays = createRelaySet([started.url], { openSocket, clock: systemClock });
      await relays.ready();
      const { signal } = new AbortController();
      const missed: string[] = [];
      for (const [what, event] of Object.entries(events)) {
        const [outcome] = await relays.publish(event, { signal });
        const filter = { kinds: [event.kind], authors: [author] };
        const { events: back } = await relays.query([filter], { waitMs: 5000, signal });
        const isBack = back.some(({ id }) => id === event.id);
        if (!isBack) missed.push(`${what}: ${outcome?.status} ${outcome?.message}`);
      }
      await relays.close();
      await started.close();
      expect(missed).toEqual([]);
    },
    { timeout: 60_000 },
  );
}
