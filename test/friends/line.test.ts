/** Join lines: whole, in any form that people paste, cut off, and of something else. */
import fc from 'fast-check';
import { naddrEncode, npubEncode } from 'nostr-tools/nip19';
import { describe, expect, it } from 'vitest';
import { decodeJoinLine, encodeInvitation, type Invitation } from '../../src/friends/line.ts';
import { keyOf } from '../support/swarm.ts';

const invitation: Invitation = {
  host: keyOf(0),
  name: 'winter',
  relays: ['ws://192.168.1.5:7777', 'wss://relay.example.org'],
  secret: '0f'.repeat(16),
};
const line = encodeInvitation(invitation);
const meant = { ok: true, value: { type: 'lobby', invitation } };

describe('a join line', () => {
  it.each([
    ['as printed', line],
    ['in capitals, as the QR code has it', line.toUpperCase()],
    ['with the command', `nostrain join ${line}`],
    ['as a nostr: address', `nostr:${line}`],
    ['as a web link', `https://example.org/join#${line}`],
    ['with spaces around it', `  ${line}\n`],
  ])('is understood %s', (_, text) => {
    expect(decodeJoinLine(text)).toEqual(meant);
  });

  it('may be the naddr of a lobby, which has no secret', () => {
    const { host: pubkey, name: identifier, relays } = invitation;
    const naddr = naddrEncode({ kind: 37_814, pubkey, identifier, relays: [...relays] });
    const { secret, ...open } = invitation;
    expect(decodeJoinLine(`nostr:${naddr}`)).toEqual({
      ok: true,
      value: { type: 'lobby', invitation: open },
    });
  });

  it('may be the naddr of a run, and otherwise names something on this machine', () => {
    const naddr = naddrEncode({ kind: 37_810, pubkey: keyOf(0), identifier: 'ab'.repeat(32) });
    const run = { ok: true, value: { type: 'run' } };
    expect(decodeJoinLine(naddr)).toEqual(run);
    expect(decodeJoinLine(`https://example.org/#run=${naddr}`)).toEqual(run);
    expect(decodeJoinLine('winter')).toEqual({ ok: true, value: { type: 'run' } });
    expect(decodeJoinLine('winter.run.json')).toEqual({ ok: true, value: { type: 'run' } });
  });

  it('is refused wherever it was cut off or mistyped', () => {
    for (let length = 'nostrain1'.length; length < line.length; length++) {
      expect(decodeJoinLine(line.slice(0, length)).ok).toBe(false);
    }
    expect(decodeJoinLine(line.replace(/.$/, (last) => (last === 'q' ? 'p' : 'q'))).ok).toBe(false);
  });

  it('is refused if it names an event that is neither', () => {
    const note = naddrEncode({ kind: 30_023, pubkey: keyOf(0), identifier: 'essay' });
    expect(decodeJoinLine(note)).toMatchObject({
      ok: false,
      issue: { message: expect.stringContaining('kind 30023') },
    });
    expect(decodeJoinLine(npubEncode(keyOf(0)))).toEqual({ ok: true, value: { type: 'run' } });
  });

  it('never throws', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string().map((end) => `nostrain1${end}`),
      fc.string().map((end) => `naddr1${end}`),
    );
    fc.assert(fc.property(text, (each) => typeof decodeJoinLine(each).ok === 'boolean'));
  });
});
