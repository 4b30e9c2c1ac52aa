import { expect, test } from 'vitest';
import { createTextStream } from '../../../src/model/data/text-stream.ts';
import { tokenizers } from '../../../src/model/data/tokenizer.ts';

const piecesOf = (tokens: ArrayLike<number>): readonly string[] => {
  const stream = createTextStream((some) => tokenizers.bytes.decode(some));
  return [...Array.from(tokens, (token) => stream.push(token)), stream.end()];
};
const bytes = (text: string) => new TextEncoder().encode(text);

test('a character comes as soon as its last byte does', () => {
  expect(piecesOf(bytes('aé😀b'))).toEqual(['a', '', 'é', '', '', '', '😀', 'b', '']);
});

test('bytes that are no character are not held back for ever, and none is lost at the end', () => {
  const text = piecesOf([0xff, 0xfe, ...bytes('one'), 0xe2, 0x82]).join('');
  expect(text).toBe('\ufffd\ufffdone\ufffd');
  expect(piecesOf(Array.from({ length: 20 }, () => 0xff)).join('')).toBe('\ufffd'.repeat(20));
});

test('a tokenizer that writes its first token in another way keeps the spaces', () => {
  const words = ['one', 'two', 'three'];
  const stream = createTextStream((tokens) =>
    Array.from(tokens, (token) => ` ${words[token]}`)
      .join('')
      .trimStart(),
  );
  expect([0, 1, 2].map((token) => stream.push(token))).toEqual(['one', ' two', ' three']);
});
