import { createHash } from 'node:crypto';
import { schnorr } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { ConfigError, fromHex, toHex } from 'nostrain/base';
import { nativeCrypto } from 'nostrain/node';
import { describe, expect, test } from 'vitest';
import {
  createSigner,
  eventId,
  parseEvent,
  type SignedEvent,
  verifyEvent,
  verifySignature,
} from '../../src/network/event.ts';
import { eventOf, forgedTwin, signerOf } from '../support/signers.ts';
import crypto from '../vectors/crypto.json' with { type: 'json' };
import events from '../vectors/events.json' with { type: 'json' };

const bytes = (hex: string) => fromHex(hex.trim().toLowerCase())!;
const codeOf = (result: ReturnType<typeof parseEvent>) => (result.ok ? 'ok' : result.issue.code);

describe('keys and signatures agree with the reference', () => {
  test.each([...crypto.pubkeys, ...crypto.normalised_secret_keys])('public key of $sk', (v) => {
    expect(createSigner(bytes(v.sk)).publicKey).toBe(v.pk);
  });

  test.each(crypto.invalid_secret_keys)('refuses secret key $sk', ({ sk }) => {
    expect(() => createSigner(fromHex(sk) ?? new Uint8Array())).toThrow(ConfigError);
  });

  test.each(crypto.sign)('signature of $msg', ({ sk, msg, aux, sig }) => {
    const made = schnorr.sign(bytes(msg), bytes(sk), aux ? bytes(aux) : new Uint8Array(32));
    expect(toHex(made)).toBe(sig);
    expect(verifySignature(sig, bytes(msg), createSigner(bytes(sk)).publicKey)).toBe(true);
  });

  test.each(crypto.verify)('verdict on $sig', ({ pk, msg, sig, result }) => {
    expect(verifySignature(sig.toLowerCase(), bytes(msg), pk)).toBe(result ?? false);
  });
});

const recorded = [...events.gradient, ...events.heartbeat, ...events.checkpoint];
const signed = recorded.filter((v) => 'sig' in v.event && v.name !== 'explicit-aux-rand');

describe('N-01: events agree with the reference', () => {
  test.each(signed)('$name: id, signature, verification', ({ event, sk, nip01_preimage }) => {
    const parsed = parseEvent(event);
    if (!parsed.ok) throw new Error(parsed.issue.message);
    const { id, sig, pubkey, ...draft } = parsed.value;
    expect(createHash('sha256').update(nip01_preimage!).digest('hex')).toBe(id);
    expect(eventId(pubkey, draft)).toBe(id);
    expect(createSigner(bytes(sk!)).sign(draft)).toEqual(parsed.value);
    expect(verifyEvent(parsed.value).ok).toBe(true);
    expect(verifyEvent(parsed.value, nativeCrypto).ok).toBe(true);
    expect(sig).toHaveLength(128);
  });

  test('a signature made with other randomness is as good', () => {
    const other = recorded.find((v) => v.name === 'explicit-aux-rand');
    const parsed = parseEvent(other?.event);
    expect(parsed.ok && verifyEvent(parsed.value).ok).toBe(true);
  });

  test.each(recorded.filter((v) => !('sig' in v.event)))('$name counts as unsigned', (v) => {
    expect(codeOf(parseEvent(v.event))).toBe('unsigned');
  });
});

test('N-01: text that languages escape differently has one id', () => {
  const text = '"\\ \n\r\t\b\f\u0001\u007f\u2028 \u{1f600} é';
  const event = eventOf(text, { tags: [['d', text]] });
  expect(verifyEvent(event).ok).toBe(true);
  // from CPython: sha256(json.dumps(..., ensure_ascii=False, separators=(',', ':')))
  expect(event.id).toBe('954cf9613228ed9b95640f906c417af60d5a652e43abef7cb0f46567e271dcf7');
});

describe('verification', () => {
  const event = eventOf('payload');

  test('names what is wrong', () => {
    expect(codeOf(verifyEvent(event))).toBe('ok');
    expect(codeOf(verifyEvent({ ...event, content: 'other' }))).toBe('bad-id');
    expect(codeOf(verifyEvent(forgedTwin(event)))).toBe('bad-signature');
    expect(codeOf(verifyEvent({ ...event, pubkey: signerOf(2).publicKey }))).toBe('bad-id');
  });

  test('a key that is no point on the curve is a bad signature, not an exception', () => {
    const pubkey = 'f'.repeat(64);
    const { kind, created_at, tags, content } = event;
    const id = eventId(pubkey, { kind, created_at, tags, content });
    expect(codeOf(verifyEvent({ ...event, pubkey, id }))).toBe('bad-signature');
  });
});

describe('reading', () => {
  const event = eventOf('payload', { tags: [['d', 'x']] });
  const without = (field: keyof SignedEvent) => ({ ...event, [field]: undefined });

  test('drops unknown fields', () => {
    const parsed = parseEvent({ ...event, extra: 1 });
    expect(parsed).toEqual({ ok: true, value: event });
  });

  test.each(['id', 'pubkey', 'sig'] as const)('without %s it is unsigned', (field) => {
    expect(codeOf(parseEvent(without(field)))).toBe('unsigned');
    expect(codeOf(parseEvent({ ...event, [field]: '' }))).toBe('unsigned');
    expect(codeOf(parseEvent({ ...event, [field]: event[field].toUpperCase() }))).toBe('malformed');
  });

  test.each([
    { kind: 1.5 },
    { kind: -1 },
    { kind: 65_536 },
    { kind: '1' },
    { created_at: null },
    { created_at: -1 },
    { created_at: 1e300 },
    { tags: {} },
    { tags: [[]] },
    { tags: [['d', 1]] },
    { content: 7 },
  ])('refuses %j', (change) => {
    expect(codeOf(parseEvent({ ...event, ...change }))).toBe('malformed');
  });

  test('refuses half a surrogate pair, which languages write differently', () => {
    expect(codeOf(parseEvent({ ...event, tags: [['d', '\ud800']] }))).toBe('not-text');
    expect(codeOf(parseEvent({ ...event, content: 'a\udc00' }))).toBe('not-text');
    expect(codeOf(parseEvent({ ...event, content: '\ud83d\ude00' }))).toBe('ok');
  });

  test('bounds tags', () => {
    const many = Array.from({ length: 2001 }, () => ['t']);
    expect(codeOf(parseEvent({ ...event, tags: many }))).toBe('too-large');
    expect(codeOf(parseEvent({ ...event, tags: [many.map(() => 'x')] }))).toBe('too-large');
    expect(codeOf(parseEvent({ ...event, tags: [['d', 'x'.repeat(8193)]] }))).toBe('too-large');
  });

  test('never throws on any JSON', () => {
    fc.assert(fc.property(fc.jsonValue(), (json) => void parseEvent(json)));
    const field = fc.constantFrom(...Object.keys(event));
    fc.assert(
      fc.property(
        field,
        fc.jsonValue(),
        (name, json) => void parseEvent({ ...event, [name]: json }),
      ),
    );
  });
});

test('any draft that is signed and read back verifies', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 });
  const draft = fc.record({
    kind: fc.integer({ min: 0, max: 65_535 }),
    created_at: fc.integer({ min: 0, max: 4e9 }),
    tags: fc.array(fc.array(text, { minLength: 1, maxLength: 3 }), { maxLength: 3 }),
    content: text,
  });
  fc.assert(
    fc.property(draft, (value) => {
      const event = signerOf(3).sign(value);
      const parsed = parseEvent(JSON.parse(JSON.stringify(event)));
      expect(parsed).toEqual({ ok: true, value: event });
      expect(verifyEvent(event).ok).toBe(true);
    }),
    { numRuns: 20 },
  );
});
