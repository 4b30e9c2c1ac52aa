import { deflateSync } from 'node:zlib';
import { buildManifest, type EventDraft, type ProfileName, type Signer } from 'nostrain/network';
import { buildGradient } from 'nostrain/python/parts';
import type { RejectReason } from 'nostrain/run';
import { stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { type Block, blockBytes } from '../python/support/nstr-blocks.ts';
import { packWhole } from '../support/pack-whole.ts';
import { forgedTwin, signerOf } from '../support/signers.ts';
import { smallLayout as layout, type Member, roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const { relay, start } = stage;

/** A relay that stores anything: checking signatures, ids and sizes is up to the receiver. */
const credulousRelay = async (): Promise<string> => relay({ policies: [] }).url;

const nowSeconds = () => Math.floor(stage.clock.now() / 1000);
const base = stateDigest({ layout, values: new Float32Array(layout.size) });
const stranger = signerOf(9);
const victim = signerOf(1);

const values = Float64Array.from({ length: layout.size }, (_, i) => i + 1);
const own = { run: 'swarm', round: 0, base, steps: 1, examples: 1 };
type More = { worker?: string; base?: string };

/** A well-formed unsigned gradient of round 0, with an optional payload, in either profile. */
const forms = {
  'nostrain/0': {
    draft: (more: More = {}) => {
      const said = { ...own, worker: stranger.publicKey, ...more };
      return buildGradient(said, { layout, values }, { ratio: 1 }, nowSeconds()).draft;
    },
    withPayload: (container: Buffer, signer: Signer) => {
      const { draft } = forms['nostrain/0'];
      const content = container.toString('base64');
      return signer.sign({ ...draft({ worker: signer.publicKey }), content });
    },
  },
  'nostrain/1': {
    draft: (more: More = {}) => manifestOf(packWhole(values, own), more),
    withPayload: (payload: Buffer, signer: Signer) => signer.sign(manifestOf(payload, {})),
  },
};

function manifestOf(payload: Uint8Array, { base: said = base }: More): EventDraft {
  const lifetime = { createdAt: nowSeconds(), expiresAt: nowSeconds() + 60 };
  return buildManifest({ ...own, base: said, codec: 'int8' }, payload, lifetime).draft;
}

const containerOf = (block: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from('NSCP'), Buffer.of(1, 1), deflateSync(block)]);

const block: Block = {
  ...{ magic: 'NSTR', version: 1, ratio: 1, total: layout.size, tensors: 2, scale: 0.5 },
  named: [
    { name: 'b', shape: [7] },
    { name: 'w', shape: [5, 10] },
  ],
  indices: Array.from({ length: layout.size }, (_, i) => i),
  quantized: Array.from({ length: layout.size }, (_, i) => i + 1),
};
const most = 2 ** 32 - 1;
const last = (index: number) => ({ indices: [...block.indices.slice(0, -1), index] });
const zeros = Buffer.alloc(6_000_000);
const named = Array.from({ length: 10_000 }, () => ({ name: 't', shape: [1] }));

interface Hostile {
  readonly name: string;
  readonly reason: RejectReason;
  readonly payload: Buffer;
}

const sealed = (name: string, reason: RejectReason, change: Partial<Block>): Hostile => ({
  ...{ name, reason },
  payload: containerOf(blockBytes({ ...block, ...change })),
});
const container = containerOf(blockBytes(block));

/** Hostile payloads: false, too many, or missing values. */
const hostileContainers: readonly Hostile[] = [
  sealed('2^32 - 1 values', 'wrong-shape', { total: most, selected: most }),
  sealed('2^32 - 1 values sent', 'wrong-shape', { selected: most }),
  sealed('ten thousand tensors', 'wrong-shape', { tensors: 10_000, named }),
  sealed('a scale of NaN', 'not-finite', { scale: Number.NaN }),
  sealed('an infinite scale', 'not-finite', { scale: Number.POSITIVE_INFINITY }),
  sealed('a repeated index', 'bad-index', last(layout.size - 2)),
  sealed('an index out of range', 'bad-index', last(layout.size)),
  sealed('fewer values than announced', 'malformed', { quantized: [1] }),
  sealed('six megabytes behind it', 'malformed', { trailing: zeros }),
  { name: 'six megabytes of zeros', reason: 'malformed', payload: containerOf(zeros) },
  {
    name: 'cut in two',
    reason: 'malformed',
    payload: container.subarray(0, container.length >> 1),
  },
  { name: 'one byte', reason: 'malformed', payload: Buffer.of(78) },
];

const packedWhole = Buffer.from(packWhole(values, own));
const altered = (name: string, reason: RejectReason, at: number, ...bytes: number[]): Hostile => {
  const payload = Buffer.from(packedWhole);
  payload.set(bytes, at);
  return { name, reason, payload };
};

/** The same for the payload of docs/payload.md: a header of 84 bytes, and a chunk that starts with its level. */
const hostilePayloads: readonly Hostile[] = [
  altered('2^32 - 1 parameters', 'wrong-shape', 12, 255, 255, 255, 255),
  altered('2^32 - 1 chunks', 'wrong-shape', 16, 255, 255, 255, 255),
  altered('another run', 'other-run', 20, 1, 2, 3),
  altered('another round', 'wrong-round', 8, 1),
  altered('another roster', 'other-roster', 52, 1, 2, 3),
  altered('an unknown packing', 'unknown-codec', 5, 255),
  altered('a removed packing', 'unknown-codec', 5, 2),
  {
    name: 'a packing that its manifest does not name',
    reason: 'malformed',
    payload: Buffer.from(packWhole(values, { ...own, packing: { codec: 'trellis', kept: 1024 } })),
  },
  altered('a level of NaN', 'malformed', 84, 0xc0, 0x7f),
  altered('an infinite level', 'malformed', 84, 0x80, 0x7f),
  {
    name: 'four kilobytes behind it',
    reason: 'malformed',
    payload: Buffer.concat([packedWhole, Buffer.alloc(4000)]),
  },
  { name: 'a container of nostrain/0', reason: 'malformed', payload: container },
  { name: 'cut in two', reason: 'malformed', payload: packedWhole.subarray(0, 100) },
  { name: 'one byte', reason: 'malformed', payload: Buffer.of(78) },
];

const cases = {
  'nostrain/0': { fine: container, hostile: hostileContainers },
  'nostrain/1': { fine: packedWhole, hostile: hostilePayloads },
};

/** A run of one round whose own gradient is a second late, so that everything hostile is judged before it closes. */
async function refusalsOf(
  profile: ProfileName,
  events: readonly unknown[],
): Promise<{ member: Member; reasons: RejectReason[] }> {
  const url = await credulousRelay();
  await stage.publish(url, events);
  const member = start({
    profile,
    index: 0,
    relays: [url],
    trainMs: 1000,
    plan: { rounds: 1, sync: { strategy: 'strict', workers: 1 } },
  });
  await member.finished;
  return { member, reasons: roundsOf(member)[0]!.refused.map(({ reason }) => reason) };
}

describe.each(['nostrain/0', 'nostrain/1'] as const)(
  'a relay that carries anything, %s',
  (profile) => {
    const { draft, withPayload } = forms[profile];
    const { fine, hostile } = cases[profile];

    it('N-13: forged, altered and misattributed gradients are refused by reason, the victim still counts', async () => {
      // one key each, since the relay keeps only the newest event per address
      const by = (number: number) => {
        const signer = signerOf(number);
        return signer.sign(draft({ worker: signer.publicKey }));
      };
      const { sig: _sig, ...unsigned } = by(12);
      // a manifest's worker is the key that signs it
      const inTheNameOfTheVictim = stranger.sign(
        draft({ worker: victim.publicKey, base: 'c'.repeat(64) }),
      );
      const { member, reasons } = await refusalsOf(profile, [
        forgedTwin(by(10)),
        { ...by(11), content: 'AAAA' },
        unsigned,
        inTheNameOfTheVictim,
      ]);
      expect(reasons).toContain('bad-signature');
      expect(reasons).toContain('bad-id');
      const expected = profile === 'nostrain/0' ? 'worker-key-mismatch' : 'base-mismatch';
      expect(reasons).toContain(expected);
      expect(member.id).toBe(victim.publicKey);
      expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
    });

    it('N-15: a gradient made from another base is listed with its reason and not averaged', async () => {
      const { member, reasons } = await refusalsOf(profile, [
        stranger.sign(draft({ base: 'c'.repeat(64) })),
      ]);
      expect(reasons).toEqual(['base-mismatch']);
      expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
      const told = member.events.find((event) => event.type === 'refused');
      expect(told).toMatchObject({ reason: 'base-mismatch', worker: stranger.publicKey });
    });

    it('N-14: each hostile payload is refused for its own reason, and the run is unaffected', async () => {
      // skip what the worker's first run left behind
      await refusalsOf(profile, [forgedTwin(withPayload(fine, stranger))]);
      const events = hostile.map(({ payload }, i) => withPayload(payload, signerOf(20 + i)));
      const { member } = await refusalsOf(profile, events);
      const said = new Map(roundsOf(member)[0]!.refused.map((each) => [each.worker, each.reason]));
      const judged = hostile.map(({ name }, i) => [name, said.get(signerOf(20 + i).publicKey)]);
      expect(judged).toEqual(hostile.map(({ name, reason }) => [name, reason]));
      expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
    });
  },
);
