import { describe, expect, it } from 'vitest';
import { createSealKeys } from '../../src/sealed/hpke.ts';
import {
  canonicalManifest,
  manifestHash,
  readManifest,
  type SealedManifest,
  unwrapKey,
  wrapKey,
} from '../../src/sealed/manifest.ts';

const id = 'ab'.repeat(32);
const [alice, bob] = ['01'.repeat(32), '02'.repeat(32)];
const keys = { alice: await createSealKeys(), bob: await createSealKeys() };
const key = Uint8Array.from({ length: 32 }, (_, i) => i);
const shards = [0, 1, 2].map((shard) => ({
  shard,
  bytes: 10,
  digest: `${shard}`.repeat(64),
  chunks: 'c'.repeat(64),
}));
const envelopes = [
  await wrapKey(id, shards[0]!, { worker: alice, sealKey: keys.alice.publicKey, key }),
  await wrapKey(id, shards[1]!, { worker: bob, sealKey: keys.bob.publicKey, key }),
  await wrapKey(id, shards[2]!, { worker: alice, sealKey: keys.alice.publicKey, key }),
];
const manifest: SealedManifest = { id, form: 'text', shards, envelopes };

describe('T-15 a manifest', () => {
  it('has one hash in every order, and reads back as it is', () => {
    const other = {
      ...manifest,
      shards: shards.toReversed(),
      envelopes: [envelopes[2]!, envelopes[0]!, envelopes[1]!],
    };
    expect(manifestHash(other)).toBe(manifestHash(manifest));
    expect(readManifest(canonicalManifest(other))).toEqual({ ok: true, value: manifest });
  });

  it('has another hash if an envelope is edited', () => {
    const edited = { ...envelopes[1]!, worker: alice };
    const other = { ...manifest, envelopes: [envelopes[0]!, edited, envelopes[2]!] };
    expect(manifestHash(other)).not.toBe(manifestHash(manifest));
  });

  const text = canonicalManifest(manifest);
  const changed = (change: Record<string, unknown>) =>
    JSON.stringify({ ...JSON.parse(text), ...change });
  it.each([
    ['no document', '', 'malformed'],
    ['nothing', 'null', 'unknown-version'],
    ['another version', changed({ version: 2 }), 'unknown-version'],
    ['another form', changed({ form: 'music' }), 'malformed'],
    ['no shards', changed({ shards: [] }), 'malformed'],
    ['too many shards', changed({ shards: Array(4097).fill(shards[0]) }), 'malformed'],
    ['a shard twice', changed({ shards: [...shards, shards[0]] }), 'twice'],
    ['an envelope twice', changed({ envelopes: [...envelopes, envelopes[0]] }), 'twice'],
    [
      'an envelope of no shard',
      changed({ envelopes: [{ ...envelopes[0], shard: 9 }] }),
      'unknown-shard',
    ],
    [
      'a wrapped key of another length',
      changed({ envelopes: [{ ...envelopes[0], wrapped: 'ab' }] }),
      'malformed',
    ],
    ['a member more', changed({ shards: [{ ...shards[0], more: 1 }] }), 'malformed'],
    ['an absurd length', changed({ shards: [{ ...shards[0], bytes: 2 ** 50 }] }), 'malformed'],
    ['a text without end', ' '.repeat(2 ** 24 + 1), 'too-large'],
  ])('with %s is refused', (_, document, code) => {
    expect(readManifest(document)).toMatchObject({ issue: { code } });
  });
});

describe('the key of a shard', () => {
  const mine = { worker: alice, secretKey: keys.alice.secretKey };

  it('is unwrapped by its recipient', async () => {
    expect(await unwrapKey(manifest, shards[0]!, mine)).toEqual({ ok: true, value: key });
  });

  it('is not for other workers, nor for other keys of the same worker', async () => {
    const theirs = await unwrapKey(manifest, shards[1]!, mine);
    expect(theirs).toMatchObject({ issue: { code: 'no-envelope' } });
    const other = await unwrapKey(manifest, shards[0]!, { ...mine, ...keys.bob });
    expect(other).toMatchObject({ issue: { code: 'wrong-key' } });
  });

  it('does not move to another shard, data set or encrypted file', async () => {
    const swapped = { ...manifest, envelopes: [{ ...envelopes[2]!, shard: 0 }] };
    for (const [data, shard] of [
      [swapped, shards[0]!],
      [{ ...manifest, id: 'cd'.repeat(32) }, shards[0]!],
      [manifest, { ...shards[0]!, digest: 'f'.repeat(64) }],
    ] as const) {
      const unwrapped = await unwrapKey(data, shard, mine);
      expect(unwrapped).toMatchObject({ issue: { code: 'wrong-key' } });
    }
  });
});
