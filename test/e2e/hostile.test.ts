import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { EventDraft } from '../../src/network/event.ts';
import { buildManifest } from '../../src/network/wire/manifests.ts';
import type { ProfileName } from '../../src/network/wire/profile.ts';
import { encodeNstr } from '../../src/python/codec/nstr.ts';
import { buildGradient } from '../../src/python/wire/gradients.ts';
import type { RejectReason } from '../../src/run/contribution.ts';
import { stateDigest } from '../../src/tensor/digest.ts';
import { forgedTwin, signerOf } from '../support/signers.ts';
import { createStage } from '../support/stage.ts';
import { smallLayout as layout, type Member, roundsOf, startMember } from '../support/swarm.ts';

const { relay, start } = createStage(startMember);

/** A relay that stores whatever it is given: signatures, ids and sizes are the receiver's business. */
const credulousRelay = async (): Promise<string> => (await relay({ policies: [] })).url;

async function publish(url: string, events: readonly unknown[]): Promise<void> {
  const socket = new WebSocket(url);
  await new Promise((resolve) => socket.once('open', resolve));
  for (const event of events) socket.send(JSON.stringify(['EVENT', event]));
  await new Promise((resolve) => setTimeout(resolve, 200));
  socket.close();
}

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
    withPayload: (container: Buffer) =>
      stranger.sign({ ...forms['nostrain/0'].draft(), content: container.toString('base64') }),
  },
  'nostrain/1': {
    draft: (more: More = {}) =>
      manifestOf(encodeNstr({ layout, values }, { ratio: 1 }).container, more),
    withPayload: (container: Buffer) => stranger.sign(manifestOf(container, {})),
  },
};

function manifestOf(payload: Uint8Array, { base: said = base }: More): EventDraft {
  const lifetime = { createdAt: nowSeconds(), expiresAt: nowSeconds() + 60 };
  return buildManifest({ ...own, base: said, codec: 'nstr' }, payload, lifetime).draft;
}

const containerOf = (block: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from('NSCP'), Buffer.of(1, 1), deflateSync(block)]);

/** A run of one round whose own gradient comes a second late, so that everything hostile is judged before it closes. */
async function refusalsOf(
  profile: ProfileName,
  events: readonly unknown[],
): Promise<{ member: Member; reasons: RejectReason[] }> {
  const url = await credulousRelay();
  await publish(url, events);
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

    it('N-14: hostile payloads are refused and the run is unaffected', async () => {
      const header = Buffer.alloc(31);
      header.write('NSTR');
      header.writeUInt8(1, 4);
      header.writeDoubleLE(1, 5);
      header.writeUInt32LE(2 ** 32 - 1, 13);
      header.writeUInt32LE(2 ** 32 - 1, 17);
      header.writeUInt16LE(10_000, 21);
      header.writeDoubleLE(Number.NaN, 23);
      const heapBefore = process.memoryUsage().rss;
      const { member, reasons } = await refusalsOf(profile, [
        withPayload(containerOf(header)),
        // six kilobytes that would inflate to six megabytes, where the model has 57 values
        withPayload(containerOf(Buffer.concat([header, Buffer.alloc(6_000_000)]))),
      ]);
      // one address per worker and round: the second replaced the first
      expect(reasons.length).toBeGreaterThan(0);
      expect(reasons.every((reason) => reason === 'wrong-shape' || reason === 'malformed')).toBe(
        true,
      );
      expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
      expect(process.memoryUsage().rss - heapBefore).toBeLessThan(200_000_000);
    });
  },
);
