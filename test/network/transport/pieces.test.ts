/** Small parts of the transport: addresses, filters, frames, memory. */
import fc from 'fast-check';
import { ConfigError, Recent } from 'nostrain/base';
import {
  createSigner,
  type Filter,
  Handed,
  Inbox,
  matchesFilter,
  parseFrame,
  parseRelayUrls,
} from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { compileFilter, defaultLimits } from 'nostrain/relay';
import { describe, expect, test } from 'vitest';
import { isTooComplex } from '../../../src/network/transport/frames.ts';
import { createManualClock } from '../../support/manual-clock.ts';

describe('addresses', () => {
  test('are trimmed, empty ones dropped, each relay kept once in order', () => {
    const urls = [' wss://b.test ', '', 'ws://a.test:80/', 'ws://A.test', 'wss://b.test/x'];
    expect(parseRelayUrls(urls)).toEqual(['wss://b.test', 'ws://a.test:80/', 'wss://b.test/x']);
  });

  test.each([['http://a.test'], ['a.test'], ['ws://'], ['ws://a.test/#x'], [' ']])(
    '%j is refused with the accepted form',
    (url) => {
      expect(() => parseRelayUrls([url])).toThrow(ConfigError);
      expect(() => parseRelayUrls([url])).toThrow(
        expect.objectContaining({ hint: expect.stringContaining('ws://') }),
      );
    },
  );
});

test('our filter test and the relay agree', () => {
  const few = fc.constantFrom('a', 'b', 'c');
  const some = fc.array(few, { maxLength: 2 });
  const second = fc.integer({ min: 0, max: 5 });
  const filter = fc.record(
    {
      ids: some,
      authors: some,
      kinds: fc.array(second, { maxLength: 2 }),
      since: second,
      until: second,
      limit: second,
      '#t': some,
      '#d': some,
    },
    { requiredKeys: [] },
  );
  const event = fc.record({
    id: few,
    pubkey: few,
    kind: second,
    created_at: second,
    tags: fc.array(fc.array(fc.constantFrom('t', 'd', 'a', 'b'), { minLength: 1, maxLength: 3 })),
    content: fc.constant(''),
    sig: fc.constant(''),
  });
  fc.assert(
    fc.property(filter, event, (asked, sent) => {
      const compiled = compileFilter(asked, defaultLimits);
      if (typeof compiled === 'string') throw new Error(compiled);
      const theirs = compiled.matches({ ...sent, json: Buffer.from('') });
      expect(matchesFilter(asked as Filter, sent)).toBe(theirs);
    }),
    { numRuns: 500 },
  );
});

describe('frames', () => {
  const nestsDeeper = (text: string, max: number) => isTooComplex(text, max, Infinity);

  test('nesting is measured outside strings only', () => {
    expect(nestsDeeper('[{"a":["b"]}]', 3)).toBe(false);
    expect(nestsDeeper('[{"a":["b"]}]', 2)).toBe(true);
    expect(nestsDeeper('["[[[[\\"[[[[","\\\\",[]]', 2)).toBe(false);
    expect(nestsDeeper('["unterminated [[[[', 2)).toBe(false);
  });

  test('nesting agrees with the parsed value', () => {
    const depth = (json: unknown): number =>
      typeof json === 'object' && json !== null
        ? 1 + Math.max(0, ...Object.values(json).map(depth))
        : 0;
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 4 }), (json, max) => {
        expect(nestsDeeper(JSON.stringify(json), max)).toBe(depth(json) > max);
      }),
    );
  });

  test('what has very many parts is not read, and a long string is one part', () => {
    expect(isTooComplex('[[],[]]', 2, 4)).toBe(false);
    expect(isTooComplex('[[],[]]', 2, 3)).toBe(true);
    expect(isTooComplex('["[,[,[,["]', 1, 1)).toBe(false);
    expect(parseFrame(`["NOTICE","x",[${'[],'.repeat(70_000)}0]]`)).toBeUndefined();
  });

  test('EOSE tells whether there is more; contradictions and unknown hints are doubted', () => {
    const hint = (text: string) => {
      const frame = parseFrame(text);
      return frame?.type === 'eose' ? (frame.hint ?? 'none') : 'no EOSE';
    };
    expect(hint('["EOSE","n1"]')).toBe('none');
    expect(hint('["EOSE","n1",["finish"]]')).toBe('finish');
    expect(hint('["EOSE","n1",["more","x"]]')).toBe('more');
    expect(hint('["EOSE","n1",["finish","more"]]')).toBe('more');
    expect(hint('["EOSE","n1",["soon",7]]')).toBe('none');
    expect(hint('["EOSE","n1","finish"]')).toBe('none');
  });

  test('a long text is cut without keeping the whole in memory; a long challenge is ignored', () => {
    expect(parseFrame(JSON.stringify(['NOTICE', 'x'.repeat(9000)]))).toEqual({
      type: 'notice',
      message: 'x'.repeat(500),
    });
    expect(parseFrame(JSON.stringify(['AUTH', 'x'.repeat(501)]))).toBeUndefined();
  });

  test('never throws on any text', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseFrame(text)));
    fc.assert(fc.property(fc.json(), (text) => void parseFrame(`["EVENT",${text}]`)));
  });
});

test('an event counts however the relay escapes its text', () => {
  const ascii = (json: string) =>
    json.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const signer = createSigner(new Uint8Array(32).fill(1), nativeCrypto);
  const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.base64String(), fc.json());
  fc.assert(
    fc.property(text, text, (content, tag) => {
      const event = signer.sign({ kind: 1, created_at: 1, tags: [['t', tag]], content });
      const plain = JSON.stringify(['EVENT', 'n1', event]);
      for (const written of [plain, ascii(plain), plain.replaceAll('/', '\\/')]) {
        const frame = parseFrame(written);
        if (frame?.type !== 'event') throw new Error('no event');
        expect(frame.isPlain).toBe(!written.includes('\\'));
        const handed = new Handed(1, createManualClock());
        expect(
          new Inbox(nativeCrypto, createManualClock()).receive(frame, [{}], handed).verdict,
        ).toBe('new');
      }
    }),
    { numRuns: 200 },
  );
});

describe('what is remembered', () => {
  test('is never more than the number, and at least half of it', () => {
    const recent = new Recent<number>(100);
    for (let i = 0; i < 1000; i++) {
      recent.set(`${i}`, i);
      expect(recent.size).toBeLessThanOrEqual(100);
      for (let back = 0; back < 50 && back <= i; back += 7) {
        expect(new Map(recent.entries()).get(`${i - back}`)).toBe(i - back);
      }
    }
  });

  test('is let go of by age, at least so old, and twice as old at most where anything is seen', async () => {
    const clock = createManualClock();
    const recent = new Recent<number>(100, { clock, ms: 1000 });
    for (let i = 0; i < 100; i++) {
      recent.set(`${i}`, i);
      expect(recent.size).toBeLessThanOrEqual(20);
      for (let back = 0; back <= Math.min(i, 9); back++)
        expect(new Map(recent.entries()).get(`${i - back}`)).toBe(i - back);
      await clock.advance(100);
    }
  });

  test('stays while it is used', () => {
    const recent = new Recent<string>(4);
    recent.set('kept', 'v');
    for (let i = 0; i < 50; i++) {
      recent.set(`${i}`, '');
      expect(recent.get('kept')).toBe('v');
    }
    expect(recent.get('10')).toBeUndefined();
    recent.set('kept', 'w');
    expect([...recent.entries()].filter(([key]) => key === 'kept')).toEqual([['kept', 'w']]);
  });
});
