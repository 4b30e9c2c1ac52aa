import { encodeRunAddress } from 'nostrain/certified/parts';
import { expect, it } from 'vitest';
import { parseLink } from '../../src/browser/link.ts';

const run = 'ab'.repeat(32);
const author = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const PUBLIC = 'wss://relay.example.org/';
const LOCAL = 'ws://127.0.0.1:7777/';
const naddr = (...relays: readonly string[]) => encodeRunAddress({ run, author, relays });

it('names the run, its relays, and how the tab takes part', () => {
  const link = parseLink(`#${naddr(PUBLIC)}&device=webgpu&threads=2&slot=b`, 'example.org');
  expect(link).toMatchObject({ device: 'webgpu', threads: 2, slot: 'b', relays: [PUBLIC] });
  expect(link.address.run).toBe(run);
  const plain = parseLink(`#${naddr(PUBLIC)}`, 'example.org');
  expect(plain).toMatchObject({ device: 'auto', slot: 'main', evaluates: true });
  expect(plain.threads).toBeUndefined();
});

it('dials relays of a private network only from a page that this machine serves', () => {
  const both = `#${naddr(PUBLIC, LOCAL)}`;
  expect(parseLink(both, 'example.org').relays).toEqual([PUBLIC]);
  expect(parseLink(both, '127.0.0.1').relays).toEqual([PUBLIC, LOCAL]);
  expect(() => parseLink(`#${naddr(LOCAL)}`, 'example.org')).toThrow(/no allowed relay/);
  const said = `#${naddr(PUBLIC)}&relay=${encodeURIComponent(LOCAL)}`;
  expect(() => parseLink(said, 'example.org')).toThrow(/no allowed relay/);
});

it.each([
  ['', /names no run/],
  ['#naddr1qq', /the run in the link is/],
  [`#${naddr(PUBLIC)}&device=cuda`, /is unknown/],
  [`#${naddr(PUBLIC)}&threads=0`, /not a number of threads/],
  [`#${naddr(PUBLIC)}&threads=1e9`, /not a number of threads/],
  [`#${naddr(PUBLIC)}&slot=../x`, /not a short name/],
])('says what is wrong with %s', (hash, words) => {
  expect(() => parseLink(hash, 'example.org')).toThrow(words);
});

it('takes few of many relays that an address names', () => {
  const many = Array.from({ length: 20 }, (_, i) => `wss://relay${i}.example.org/`);
  expect(parseLink(`#${naddr(...many)}`, 'example.org').relays).toHaveLength(8);
});
