import { buildRelayList, parseRelayList, relayHints } from 'nostrain/network';
import { expect, test } from 'vitest';
import { eventOf } from '../../support/signers.ts';

const listOf = (tags: readonly (readonly string[])[]) =>
  parseRelayList(eventOf('', { kind: 10_002, tags }));

test('what is built is read', () => {
  const urls = ['wss://a.test', 'wss://b.test/x'];
  expect(parseRelayList(buildRelayList(urls, 1))).toEqual({ read: urls, write: urls });
});

test('markers decide, and what is no address is left out', () => {
  const tags = [
    ['r', 'wss://r.test', 'read'],
    ['r', 'wss://w.test', 'write'],
    ['r', 'wss://both.test', ''],
    ['r', 'wss://both.test'],
    ['r', 'wss://odd.test', 'sometimes'],
    ['r', 'https://web.test'],
    ['r', `wss://${'x'.repeat(300)}.test`],
    ['r'],
    ['x', 'wss://x.test'],
  ];
  expect(listOf(tags)).toEqual({
    read: ['wss://r.test', 'wss://both.test'],
    write: ['wss://w.test', 'wss://both.test'],
  });
  expect(listOf(Array.from({ length: 99 }, (_, i) => ['r', `wss://${i}.test`]))!.read).toHaveLength(
    16,
  );
  expect(parseRelayList(eventOf(''))).toBeUndefined();
});

test('hints stand beside ids, each once', () => {
  const id = 'a'.repeat(64);
  const tags = [
    ['e', id, 'wss://a.test', 'reply'],
    ['p', id, 'wss://a.test'],
    ['a', `1:${id}:`, 'ws://b.test'],
    ['e', id, ''],
    ['e', id],
    ['t', 'x', 'wss://t.test'],
  ];
  expect(relayHints(eventOf('', { tags }))).toEqual(['wss://a.test', 'ws://b.test']);
});
