import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { EventDraft, Signer } from '../../src/network/event.ts';
import { buildManifest } from '../../src/network/wire/manifests.ts';
import type { ProfileName } from '../../src/network/wire/profile.ts';
import { encodeNstr } from '../../src/python/codec/nstr.ts';
import { buildGradient } from '../../src/python/wire/gradients.ts';
import type { RejectReason } from '../../src/run/contribution.ts';
import { stateDigest } from '../../src/tensor/digest.ts';
import { type Block, blockBytes } from '../support/nstr-blocks.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { forgedTwin, signerOf } from '../support/signers.ts';
import { createStage } from '../support/stage.ts';
import { smallLayout as layout, type Member, roundsOf, startMember } from '../support/swarm.ts';

const { relay, start } = createStage(startMember);

/** A relay that stores whatever it is given: signatures, ids and sizes are the receiver's business. */
const credulousRelay = async (): Promise<string> => (await relay({ policies: [] })).url;

const nowSeconds = () => Math.floor(Date.now() / 1000);
const base = stateDigest({ layout, values: new Float32Array(layout.size) });
const stranger = signerOf(9);
const victim = signerOf(1);

const values = Float64Array.from({ length: layout.size }, (_, i) => i + 1);
const own = { run: 'swarm', round: 0, base, steps: 1, examples: 1 };
type More = { worker?: string; base?: string };

/** A well-formed gradient of round 0, unsigned, and one with a payload of the stranger's own, in either profile. */
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
    draft: (more: More = {}) =>
      manifestOf(encodeNstr({ layout, values }, { ratio: 1 }).container, more),
    withPayload: (container: Buffer, signer: Signer) => signer.sign(manifestOf(container, {})),
  },
};

function manifestOf(payload: Uint8Array, { base: said = base }: More): EventDraft {
  const lifetime = { createdAt: nowSeconds(), expiresAt: nowSeconds() + 60 };
  return buildManifest({ ...own, base: said, codec: 'nstr' }, payload, lifetime).draft;
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
  readonly container: Buffer;
}

const sealed = (name: string, reason: RejectReason, change: Partial<Block>): Hostile => ({
  ...{ name, reason },
  container: containerOf(blockBytes({ ...block, ...change })),
});
const fine = containerOf(blockBytes(block));

/** A payload each of those that lie, are too many, or are none. */
const hostile: readonly Hostile[] = [
  sealed('2^32 - 1 values', 'wrong-shape', { total: most, selected: most }),
  sealed('2^32 - 1 values sent', 'wrong-shape', { selected: most }),
  sealed('ten thousand tensors', 'wrong-shape', { tensors: 10_000, named }),
  sealed('a scale of NaN', 'not-finite', { scale: Number.NaN }),
  sealed('an infinite scale', 'not-finite', { scale: Number.POSITIVE_INFINITY }),
  sealed('a repeated index', 'bad-index', last(layout.size - 2)),
  sealed('an index out of range', 'bad-index', last(layout.size)),
  sealed('fewer values than announced', 'malformed', { quantized: [1] }),
  sealed('six megabytes behind it', 'malformed', { trailing: zeros }),
  { name: 'six megabytes of zeros', reason: 'malformed', container: containerOf(zeros) },
  { name: 'cut in two', reason: 'malformed', container: fine.subarray(0, fine.length >> 1) },
  { name: 'one byte', reason: 'malformed', container: Buffer.of(78) },
];

/** A run of one round whose own gradient comes a second late, so that everything hostile is judged before it closes. */
async function refusalsOf(
  profile: ProfileName,
  events: readonly unknown[],
): Promise<{ member: Member; reasons: RejectReason[] }> {
  const url = await credulousRelay();
  await publishRaw(url, events);
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

    it('N-13: forged, altered and misattributed gradients are refused by reason, the victim still counts', async () => {
      // a key each, or the relay would keep only the newest at one address
      const by = (number: number) => {
        const signer = signerOf(number);
        return signer.sign(draft({ worker: signer.publicKey }));
      };
      const { sig: _sig, ...unsigned } = by(12);
      // a manifest names no worker but the key that signs it
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

    it('N-14: each hostile payload is refused for its own reason, in little memory, and the run is unaffected', async () => {
      // what the first run of a worker leaves behind is not theirs
      await refusalsOf(profile, [forgedTwin(withPayload(fine, stranger))]);
      const events = hostile.map(({ container }, i) => withPayload(container, signerOf(20 + i)));
      const before = process.memoryUsage.rss();
      const { member } = await refusalsOf(profile, events);
      const grownBy = process.memoryUsage.rss() - before;
      const said = new Map(roundsOf(member)[0]!.refused.map((each) => [each.worker, each.reason]));
      const judged = hostile.map(({ name }, i) => [name, said.get(signerOf(20 + i).publicKey)]);
      expect(judged).toEqual(hostile.map(({ name, reason }) => [name, reason]));
      expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
      expect(grownBy).toBeLessThan(20_000_000);
    });
  },
);
