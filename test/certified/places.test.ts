/**
 * Runs with `places`: members store their checkpoints at mirrors too, newcomers download from there, and everything is
 * verified.
 */

import { type Clock, systemClock } from 'nostrain/base';
import type { CheckpointChunks } from 'nostrain/certified/parts';
import { createRelaySet, type OpenSocket } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRunChunks } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import { startBlossomServer } from '../support/blossom-server.ts';
import { certifiedSpec, keyOf, noticesOf, startCertified } from '../support/certified-swarm.ts';
import { signerOf } from '../support/swarm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const at = temporaryFolder();
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

/** The checkpoint fields in events. */
async function claimsAt({
  relays: urls,
  ...options
}: {
  readonly relays: readonly string[];
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
}) {
  // biome-ignore format: one line
  const relays = createRelaySet(urls, options);
  await relays.ready();
  const { events } = await relays.query([{ kinds: [7812] }], { waitMs: 10_000 });
  await relays.close();
  return events.map(({ content }) => JSON.parse(content) as { features?: { places: { manifest: string } } }); // biome-ignore format: one line
}

/** Two workers that play a run with a checkpoint after each round on a relay, and a newcomer after them. */
async function play(places: readonly string[], spoil: () => void = () => undefined) {
  const relay = await createRelay();
  opened.push(relay);
  const document = places.length === 0 ? {} : { places, features: ['places'] };
  const rounds = 4;
  const spec = certifiedSpec({ founders: [0, 1], rounds, document: { checkpoint: { every: 1, keep: 3 }, ...document } }); // biome-ignore format: one line
  const told: string[] = [];
  const stored: Promise<void>[] = [];
  const chunksOf = (index: number): CheckpointChunks => {
    const made = createRunChunks({
      ...{
        servers: places,
        policy: null,
        signer: signerOf(index),
        folder: at(`worker${index}`),
        allowPrivate: true,
      },
      onNotice: (message) => told.push(message),
    });
    const store: CheckpointChunks['store'] = (packed, signal) => {
      const storing = made.store(packed, signal);
      stored.push(storing);
      return storing;
    };
    return { ...made, store };
  };
  const begin = (index: number, disk?: Parameters<typeof startCertified>[0]['disk']) =>
    startCertified({
      ...{ index, spec, relays: [relay.url], chunks: chunksOf(index), trainMs: 50 },
      ...(disk ? { disk } : { fetchesCheckpoint: true }),
    });
  const founders = [0, 1].map((index) => begin(index, { state: undefined, entry: undefined }));
  await Promise.all(founders.map(({ finished }) => finished));
  await Promise.allSettled(stored);
  spoil();
  const newcomer = begin(2);
  const end = await newcomer.finished;
  const asked = { relays: [relay.url], openSocket, clock: systemClock };
  return { newcomer, round: end.round, rounds, told, spec, claims: await claimsAt(asked) };
}

describe('a run that names places', () => {
  it('stores its checkpoints there, signed by the uploaders, and a newcomer downloads them', async () => {
    const server = await startBlossomServer();
    opened.push(server);
    const { newcomer, round, rounds, told, claims } = await play([server.url]);
    expect(round).toBe(rounds);
    expect(server.blobs.size).toBeGreaterThan(rounds);
    const manifests = claims.map(({ features }) => features!.places.manifest);
    expect(manifests.length).toBeGreaterThanOrEqual(rounds);
    expect(manifests.every((digest) => server.blobs.has(digest))).toBe(true);
    expect(server.reads.count).toBeGreaterThan(0);
    expect([...new Set(server.uploaders)].every((key) => [keyOf(0), keyOf(1)].includes(key))).toBe(true); // biome-ignore format: one line
    expect([...noticesOf(newcomer), ...told].filter((words) => /place|checkpoint/.test(words))).toEqual([]); // biome-ignore format: one line
  });

  it('falls back to relays if its mirrors lost or changed everything, or are offline', async () => {
    const server = await startBlossomServer();
    opened.push(server);
    const { newcomer, round, rounds } = await play([server.url, 'http://127.0.0.1:9'], () => {
      for (const [hash, blob] of server.blobs) if (blob.length > 0) server.blobs.set(hash, Buffer.from('other')); // biome-ignore format: one line
    });
    expect(round).toBe(rounds);
    expect(noticesOf(newcomer).join()).toContain('no checkpoint from the mirrors of this run; asking relays'); // biome-ignore format: one line
  });
});

describe('a run that names none', () => {
  it('R-20 has no `places` field in any event, and queries no mirror', async () => {
    const { spec, round, rounds, claims } = await play([]);
    expect(claims.length).toBeGreaterThanOrEqual(rounds);
    expect(claims.filter((claim) => 'features' in claim)).toEqual([]);
    expect(round).toBe(rounds);
    expect(JSON.stringify(spec.features)).toBe('[]');
  });
});
