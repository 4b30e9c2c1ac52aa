import { buildHolder, createSigner, type HolderOffer, type Signer } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import { Directory, isAskable, readAnswer } from '../../../src/network/directory/directory.ts';
import { idOf, NOW } from '../../support/directory.ts';

const signer = (n: number): Signer => createSigner(new Uint8Array(32).fill(n));
const offer = (change: Partial<HolderOffer> = {}): HolderOffer => ({
  ...{ region: 'europe', tier: 'known', weight: 1, classes: [], freeBytes: 1, held: [] },
  contacts: ['https://holder.example.org'],
  ...change,
});
const announced = (n: number, change: Partial<HolderOffer> = {}, at = NOW, seconds = 3600) =>
  JSON.stringify(signer(n).sign(buildHolder(offer(change), at, seconds)));
const options = (allowPrivate = false) => ({
  ...{ localKey: signer(9).publicKey, now: () => NOW, crypto: nativeCrypto, allowPrivate },
});

describe('the directory at a holder server', () => {
  it('stores announcements and returns them to every client', () => {
    const directory = new Directory(options());
    const object = idOf('object');
    expect(directory.take(announced(1), '203.0.113.1')).toMatchObject({ ok: true });
    expect(directory.take(announced(2, { held: [object] }), '203.0.113.1')).toMatchObject({
      ok: true,
    });
    const text = directory.answer(object);
    const records = readAnswer(text!, options());
    expect(records?.map(({ key }) => key)).toEqual([signer(2).publicKey, signer(1).publicKey]);
    expect(records?.[0]?.held).toEqual([object]);
    expect(directory.answer('../../etc/passwd')).toBeUndefined();
  });

  it.each([
    ['is expired', announced(1, {}, NOW - 7200), 'expired'],
    ['is of the future', announced(1, {}, NOW + 7200), 'from-the-future'],
    [
      'names only a private address',
      announced(1, { contacts: ['http://192.168.1.1:8790'] }),
      'no-contact',
    ],
    [
      'names only this machine',
      announced(1, { contacts: ['http://localhost:8790'] }),
      'no-contact',
    ],
    ['names no contact', announced(1, { contacts: [] }), 'no-contact'],
    ['was changed', announced(1).replace('europe', 'asia-x'), 'bad-id'],
    ['has another signature', announced(1).replace(/"sig":"../, '"sig":"00'), 'bad-signature'],
    ['is no JSON', '{', 'bad-json'],
    ['is too long', `${' '.repeat(9000)}{}`, 'too-large'],
  ])('refuses an announcement that %s', (_, text, code) => {
    expect(new Directory(options()).take(text, '203.0.113.1')).toMatchObject({
      ok: false,
      issue: { code },
    });
  });

  it('takes private contacts where that is allowed', () => {
    const text = announced(1, { contacts: ['http://127.0.0.1:8790'] });
    expect(new Directory(options(true)).take(text, '203.0.113.1')).toMatchObject({ ok: true });
  });

  it('verifies at most 60 announcements a minute of one address, and malformed ones count against no address', () => {
    const directory = new Directory(options());
    for (let i = 0; i < 1000; i++) directory.take('{', '203.0.113.1');
    const forged = announced(1).replace(/"sig":"../, '"sig":"00');
    for (let i = 0; i < 60; i++) directory.take(forged, '203.0.113.1');
    const busy = { ok: false, issue: { code: 'busy' } };
    expect(directory.take(announced(1), '203.0.113.1')).toMatchObject(busy);
    expect(directory.take(announced(1), '203.0.113.2')).toMatchObject({ ok: true });
    for (let i = 0; i < 600; i++) directory.take(forged, `198.51.100.${i % 100}`);
    expect(directory.take(announced(2), '203.0.113.3')).toMatchObject(busy);
  });

  it('takes announcements of an address again in the next minute, and answers with at most 32 records', () => {
    let now = NOW;
    const directory = new Directory({ ...options(), now: () => now });
    for (let n = 1; n <= 60; n++) directory.take(announced(n), '203.0.113.1');
    const next = announced(61);
    expect(directory.take(next, '203.0.113.1')).toMatchObject({ ok: false });
    now += 60;
    expect(directory.take(next, '203.0.113.1')).toMatchObject({ ok: true });
    const object = idOf('object');
    for (let n = 100; n < 120; n++) {
      directory.take(announced(n, { held: [object] }), `198.51.100.${n}`);
    }
    directory.localRecord = signer(9).sign(buildHolder(offer(), NOW, 3600));
    const { holders } = JSON.parse(directory.answer(object)!);
    expect(holders).toHaveLength(32);
    expect(holders[0].pubkey).toBe(signer(9).publicKey);
  });

  it('keeps holders that others announced when one address floods it', () => {
    const directory = new Directory(options());
    const object = idOf('object');
    const hidden = announced(1, { held: [object] });
    for (let n = 20; n < 40; n++) directory.take(announced(n, { held: [object] }), '203.0.113.1');
    expect(directory.take(hidden, '203.0.113.2')).toMatchObject({ ok: true });
    const holds = () =>
      readAnswer(directory.answer(object)!, options())!.some(
        ({ key, held }) => key === signer(1).publicKey && held.includes(object),
      );
    expect(holds()).toBe(true);
    for (let n = 40; n < 60; n++) {
      const held = Array.from({ length: 64 }, (_, i) => idOf(`junk ${n} ${i}`));
      directory.take(announced(n, { held }), '203.0.113.1');
    }
    expect(holds()).toBe(true);
  });

  it('reads an answer of anyone: what is wrong is left out, and no more than 32 are looked at', () => {
    const good = JSON.parse(announced(1));
    const forged = { ...good, id: idOf('other') };
    const read = (value: unknown) => readAnswer(JSON.stringify(value), options());
    expect(read({ holders: [forged, 5, null, {}, good, good] })).toHaveLength(1);
    expect(read({ holders: [...Array.from({ length: 32 }, () => ({})), good] })).toEqual([]);
    for (const nothing of [[], 'x', { holders: 'x' }, {}]) expect(read(nothing)).toBeUndefined();
    expect(readAnswer('{"holders":[', options())).toBeUndefined();
    expect(readAnswer(' '.repeat(300_000), options())).toBeUndefined();
  });

  it.each([
    ['https://holder.example.org/chunks', true],
    ['http://93.184.216.34:8790', true],
    ['http://127.0.0.1:8790', false],
    ['http://[::1]:8790', false],
    ['https://10.0.0.7', false],
    ['https://router.lan', false],
    ['http://169.254.169.254', false],
    ['http://93.184.216.34:22', false],
    ['http://93.184.216.34:6379', false],
  ])('%s of a stranger may be asked: %s', (url, isGood) => {
    expect(isAskable(url)).toBe(isGood);
  });
});
