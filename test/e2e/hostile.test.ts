import { deflateSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { createRelay, type Relay } from '../../relay/server.ts';
import type { SignedEvent } from '../../src/network/event.ts';
import { buildGradient } from '../../src/network/wire/gradients.ts';
import type { RejectReason } from '../../src/run/contribution.ts';
import { stateDigest } from '../../src/tensor/digest.ts';
import { forgedTwin, signerOf } from '../support/signers.ts';
import { layout, type Member, roundsOf, startMember } from '../support/swarm.ts';

const relays: Relay[] = [];
const members: Member[] = [];
afterEach(async () => {
  for (const member of members.splice(0)) member.stop();
  for (const relay of relays.splice(0)) await relay.close();
});

/** A relay that stores whatever it is given: signatures, ids and sizes are the receiver's business. */
async function credulousRelay(): Promise<string> {
  const relay = await createRelay({ policies: [] });
  relays.push(relay);
  return relay.url;
}

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

/** A well-formed gradient of round 0, as the stranger would sign it. */
function draft(more: { worker?: string; base?: string; run?: string } = {}) {
  const own = { run: 'swarm', round: 0, worker: stranger.publicKey, base, steps: 1, examples: 1 };
  const values = Float64Array.from({ length: layout.size }, (_, i) => i + 1);
  return buildGradient({ ...own, ...more }, { layout, values }, { ratio: 1 }, nowSeconds()).draft;
}

/** The stranger's event with a payload of its own. */
function withPayload(block: Uint8Array): SignedEvent {
  const container = Buffer.concat([Buffer.from('NSCP'), Buffer.of(1, 1), deflateSync(block)]);
  return stranger.sign({ ...draft(), content: container.toString('base64') });
}

/** A run of one round whose own gradient comes a second late, so that everything hostile is judged before it closes. */
async function refusalsOf(
  events: readonly unknown[],
): Promise<{ member: Member; reasons: RejectReason[] }> {
  const url = await credulousRelay();
  await publish(url, events);
  const member = startMember({
    index: 0,
    relays: [url],
    trainMs: 1000,
    plan: { rounds: 1, sync: { strategy: 'strict', workers: 1 } },
  });
  members.push(member);
  await member.finished;
  return { member, reasons: roundsOf(member)[0]!.refused.map(({ reason }) => reason) };
}

describe('a relay that carries anything', () => {
  it('N-13: forged, altered and misattributed gradients are refused by reason, the victim still counts', async () => {
    // a key each, or the relay would keep only the newest at one address
    const by = (number: number) => {
      const signer = signerOf(number);
      return signer.sign(draft({ worker: signer.publicKey }));
    };
    const { sig: _sig, ...unsigned } = by(12);
    const inTheNameOfTheVictim = stranger.sign(draft({ worker: victim.publicKey }));
    const { member, reasons } = await refusalsOf([
      forgedTwin(by(10)),
      { ...by(11), content: 'AAAA' },
      unsigned,
      inTheNameOfTheVictim,
    ]);
    expect(reasons).toContain('bad-signature');
    expect(reasons).toContain('bad-id');
    expect(reasons).toContain('worker-key-mismatch');
    expect(member.id).toBe(victim.publicKey);
    expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
  });

  it('N-15: a gradient made from another base is listed with its reason and not averaged', async () => {
    const { member, reasons } = await refusalsOf([stranger.sign(draft({ base: 'c'.repeat(64) }))]);
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
    const { member, reasons } = await refusalsOf([
      withPayload(header),
      // six kilobytes that would inflate to six megabytes, where the model has 57 values
      withPayload(Buffer.concat([header, Buffer.alloc(6_000_000)])),
    ]);
    // one address per worker and round: the second replaced the first
    expect(reasons.length).toBeGreaterThan(0);
    expect(reasons.every((reason) => reason === 'wrong-shape' || reason === 'malformed')).toBe(
      true,
    );
    expect(roundsOf(member)[0]!.accepted).toEqual([member.id]);
    expect(process.memoryUsage().rss - heapBefore).toBeLessThan(200_000_000);
  });
});
