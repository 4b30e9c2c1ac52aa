import { encodeRunAddress, parseRunName } from 'nostrain/certified/parts';
import { expect, it } from 'vitest';

const id = 'ab'.repeat(32);
const author = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const naddr = encodeRunAddress({ run: id, author, relays: ['wss://relay.example.org/'] });
const relay = 'relay=wss%3A%2F%2Fother.example.org';

it.each([
  [naddr, naddr, []],
  [`  ${naddr}\n`, naddr, []],
  [`nostr:${naddr}`, naddr, []],
  [`web+nostr:${naddr}`, naddr, []],
  [id, id, []],
  [`#${naddr}`, naddr, []],
  [`https://example.org/page/#${naddr}`, naddr, []],
  [`https://example.org/#nostr:${naddr}&${relay}`, naddr, ['wss://other.example.org']],
  [`http://127.0.0.1:8000/#run=${naddr}&${relay}&verify=`, naddr, ['wss://other.example.org']],
  [`https://example.org/#run=${id}&${relay}`, id, ['wss://other.example.org']],
])('%s names a run', (text, run, relays) => {
  expect(parseRunName(text)).toMatchObject({ run, relays });
});

it.each([
  '',
  'winter',
  './run.json',
  'https://example.org/',
  'https://example.org/#about',
  `https://example.org/#events=events.jsonl`,
  `${id}0`,
  'npub1qqqq',
  '#%E0%A4%A',
])('%s names none', (text) => {
  expect(parseRunName(text)).toBeUndefined();
});

it('takes few of many relays', () => {
  const many = Array.from({ length: 100 }, (_, i) => `relay=wss://r${i}.example.org`).join('&');
  expect(parseRunName(`#${naddr}&${many}`)?.relays).toHaveLength(16);
});
