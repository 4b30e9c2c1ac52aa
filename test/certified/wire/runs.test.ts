/**
 * Run specs on relays: what an address guarantees, what a relay cannot change, and the slice that is published with a
 * spec.
 */

import { sha256Hex, systemClock } from 'nostrain/base';
import { chunkTree, createRelaySet, type RelaySet } from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { canonicalSpec, runIdOf } from 'nostrain/run';
import { afterEach, describe, expect, it } from 'vitest';
import {
  buildRun,
  decodeRunAddress,
  encodeRunAddress,
  fetchRun,
  fetchSlice,
  isServable,
  listRuns,
  publishRun,
  readCanonical,
  toRun,
} from '../../../src/certified/wire/runs.ts';
import { sampleSpec } from '../../support/run-spec.ts';
import { signerOf } from '../../support/signers.ts';

const [alice, bob] = [signerOf(1), signerOf(2)];
const createdAt = Math.floor(Date.now() / 1000);
const lifetime = { createdAt, expiresAt: createdAt + 3600 };
const spec = sampleSpec();
const run = runIdOf(spec);
const address = { run, author: alice.publicKey };
const signal = new AbortController().signal;

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const thing of opened.splice(0).reverse()) await thing.close();
});

async function startRelay(): Promise<Relay> {
  const relay = await createRelay();
  opened.push(relay);
  return relay;
}

async function connect(...relays: readonly Relay[]): Promise<RelaySet> {
  const urls = relays.map(({ url }) => url);
  const set = createRelaySet(urls, { openSocket, clock: systemClock, crypto: nativeCrypto });
  opened.push(set);
  await set.ready();
  return set;
}

const relaySession = (relays: RelaySet) => ({
  relays,
  clock: systemClock,
  sha256: nativeSha256,
  signal,
});
const patient = (relays: RelaySet) => ({ ...relaySession(relays), timeoutMs: 5000 });

describe('a spec', () => {
  it('that names more keys than fit in an event is not published', () => {
    const keys = Array.from({ length: 1000 }, (_, i) => i.toString(16).padStart(64, '0'));
    const large = sampleSpec({ admission: { kind: 'list', keys } });
    expect([isServable(spec), isServable(large)]).toEqual([true, false]);
    expect(() => buildRun(large, lifetime)).toThrow('characters');
  });
});

describe('an address', () => {
  it('names run, author and relays, with or without nostr: before it', () => {
    const relays = ['wss://relay.example.org', 'ws://127.0.0.1:7777'];
    const text = encodeRunAddress({ ...address, relays });
    expect(text).toMatch(/^naddr1/);
    expect(decodeRunAddress(text)).toEqual({ ok: true, value: { ...address, relays } });
    expect(decodeRunAddress(`nostr:${text}`)).toMatchObject({ ok: true });
  });

  it.each([
    ['', 'cut off or mistyped'],
    [encodeRunAddress({ ...address, relays: [] }).slice(0, -1), 'cut off or mistyped'],
    ['npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6', 'a npub'],
    [
      'naddr1qqzkjurnw4ksz9thwden5te0wfjkccte9ehx7um5wghx7un8qgs2d90kkcq3nk2jry62dyf50k0h36rhpdtd594my40w9pkal876jxgrqsqqqa28pccpzu',
      'kind 30023',
    ],
    [encodeRunAddress({ run: 'demo', author: alice.publicKey, relays: [] }), 'without its id'],
  ])('is refused: %s', (text, message) => {
    const decoded = decodeRunAddress(text);
    expect(decoded.ok ? 'accepted' : decoded.issue.message).toContain(message);
  });
});

describe('a run event', () => {
  const draft = buildRun(spec, lifetime);

  it('carries the spec in the text whose hash is the run id', () => {
    expect(draft.content).toBe(canonicalSpec(spec));
    expect(toRun(alice.sign(draft))).toEqual({ ok: true, value: { run, spec, createdAt } });
  });

  it.each([
    ['worker-key-mismatch', bob.sign(draft), 'signed by'],
    [
      'malformed',
      alice.sign({ ...draft, content: draft.content.replace('"rounds":5', '"rounds":6') }),
      '`d` is the SHA-256',
    ],
    ['too-large', alice.sign({ ...draft, content: ' '.repeat(60_001) }), 'too long'],
  ])('is refused as %s', (reason, event, detail) => {
    const judged = toRun(event);
    expect(judged).toMatchObject({ ok: false, rejection: { reason } });
    expect(judged.ok ? '' : judged.rejection.detail).toContain(detail);
  });

  it('counts in canonical form only, and only if it is consistent', () => {
    expect(readCanonical(canonicalSpec(spec))).toEqual({ ok: true, value: spec });
    expect(readCanonical(` ${canonicalSpec(spec)}`)).toMatchObject({
      issue: { code: 'not-canonical' },
    });
    const odd = canonicalSpec(spec).replace('"weights":"equal"', '"weights":"stake"');
    expect(readCanonical(odd)).toMatchObject({
      issue: { code: 'bad-spec', at: 'committee.weights' },
    });
    expect(readCanonical('{"a":')).toMatchObject({ issue: { code: 'bad-spec' } });
  });
});

describe('on relays', () => {
  it('a run is found by its address alone, and a later event of its author cannot change it', async () => {
    const relay = await startRelay();
    const mine = await connect(relay);
    const sign = alice.sign.bind(alice);
    const sent = await publishRun(spec, undefined, { ...relaySession(mine), sign });
    expect(sent.accepted).toEqual([relay.url]);

    // same d, newer event, other rules: relays replace the first one by it
    const other = {
      ...buildRun(sampleSpec({ liveRounds: 4 }), lifetime),
      created_at: createdAt + 9,
    };
    const tags = other.tags.map((tag) => (tag[0] === 'd' || tag[0] === 's' ? [tag[0], run] : tag));
    await mine.publish(alice.sign({ ...other, tags }));
    const found = await fetchRun(address, patient(await connect(relay)));
    expect(found).toMatchObject({ ok: false, issue: { code: 'no-run' } });
    expect(found.ok ? '' : found.issue.message).toContain('the events on relays are invalid');

    await mine.publish(alice.sign({ ...buildRun(spec, lifetime), created_at: createdAt + 20 }));
    expect(await fetchRun(address, patient(await connect(relay)))).toEqual({
      ok: true,
      value: spec,
    });
  });

  it('reports if no relay has it, and lists each available run once', async () => {
    const [one, two] = [await startRelay(), await startRelay()];
    const both = await connect(one, two);
    expect(await fetchRun(address, patient(both))).toMatchObject({
      issue: { message: 'no relay has it' },
    });
    await both.publish(alice.sign(buildRun(spec, lifetime)));
    const later = { createdAt: createdAt + 5, expiresAt: createdAt + 3600 };
    const second = sampleSpec({ author: bob.publicKey, name: 'second' });
    await both.publish(bob.sign(buildRun(second, later)));
    await both.publish(bob.sign({ ...buildRun(spec, later), created_at: createdAt + 7 }));
    const runs = await listRuns(patient(both));
    expect(runs.map(({ spec: { name } }) => name)).toEqual(['second', 'two friends']);
  });

  it('a slice is sent in chunks and checked against root and hash', async () => {
    const relay = await startRelay();
    const mine = await connect(relay);
    const slice = Uint8Array.from({ length: 100_000 }, (_, i) => 97 + ((i * 7) % 26));
    const { root } = chunkTree(slice);
    const evaluation = { sha256: sha256Hex(slice), bytes: slice.length, root };
    const data = { kind: 'own' };
    const own = sampleSpec({ training: { model: 'gpt' }, data, evaluation });
    const sign = alice.sign.bind(alice);
    await publishRun(own, slice, { ...relaySession(mine), sign });
    const theirs = patient(await connect(relay));
    expect(await fetchSlice(evaluation, alice.publicKey, theirs)).toEqual({
      ok: true,
      value: slice,
    });
    const wrong = { ...evaluation, sha256: 'ab'.repeat(32) };
    expect(await fetchSlice(wrong, alice.publicKey, theirs)).toMatchObject({
      issue: { code: 'wrong-slice' },
    });
    const nowhere = { ...evaluation, root: 'ab'.repeat(32) };
    const brief = { ...theirs, timeoutMs: 300 };
    expect(await fetchSlice(nowhere, alice.publicKey, brief)).toMatchObject({
      issue: { code: 'no-slice', message: '0 of its 3 chunks arrived' },
    });
  });
});
