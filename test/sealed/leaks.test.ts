/** What the test of plaintext hygiene would find. */
import { tokenizers } from 'nostrain/model';
import { expect, it } from 'vitest';
import { countLeaks } from './leaks.ts';

const data = Array.from({ length: 400 }, (_, i) => String.fromCharCode(33 + ((i * i) % 89))).join(
  '',
);
const part = data.slice(101, 117);
const { tokens } = tokenizers.chars.encode(part);

it.each([
  ['raw', Buffer.from(part)],
  ['hex', Buffer.from(Buffer.from(part).toString('hex'))],
  ['base64', Buffer.from(Buffer.from(`x${part}y`).toString('base64'))],
  ['tokens', Buffer.from(tokens)],
  ['int32', Buffer.from(Int32Array.from(tokens).buffer)],
  ['list', Buffer.from(JSON.stringify([...tokens]))],
])('16 bytes in the form %s are found', (form, bytes) => {
  const among = Buffer.concat([Buffer.alloc(99, 1), bytes, Buffer.alloc(99, 2)]);
  expect(Object.keys(countLeaks(among, data))).toContain(form);
});

it('other bytes are not', () => {
  const other = Array.from({ length: 4000 }, (_, i) => (i * 31) % 251);
  expect(countLeaks(Buffer.from(other), data)).toEqual({});
});
