import { tokenizers } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import {
  encodeDocument,
  encodePieces,
  parseDocument,
  type TextForm,
} from '../../../src/model/data/documents.ts';

const END = 300;
/** Bytes, in which `#` is a special token that ends documents and turns. */
const form: TextForm = {
  tokenizer: {
    ...tokenizers.bytes,
    vocabulary: 400,
    encode: (text) => ({
      tokens: Int32Array.from(tokenizers.bytes.encode(text).tokens, (id) => (id === 35 ? END : id)),
      replaced: 0,
    }),
  },
  begin: [299],
  end: [END],
  special: new Set([299, END]),
};
const ids = (text: string) => [...form.tokenizer.encode(text).tokens];
const line = (value: unknown) => parseDocument(JSON.stringify(value));

describe('a line', () => {
  test('is a text, a completion or a conversation, whatever else it says', () => {
    expect(line({ text: 'a', id: 7 })).toEqual({ ok: true, value: { kind: 'text', text: 'a' } });
    expect(line({ prompt: '', completion: 'b' })).toMatchObject({
      value: { kind: 'completion', prompt: '', completion: 'b' },
    });
    const messages = [
      { role: 'user', content: 'a', name: 'x' },
      { role: 'assistant', content: 'b' },
    ];
    expect(line({ messages })).toEqual({ ok: true, value: { kind: 'messages', messages } });
  });

  test.each<[unknown, string]>([
    [[1], 'not an object'],
    [null, 'not an object'],
    [{ content: 'a' }, 'none of text, prompt with completion, or messages'],
    [{ text: 'a', messages: [] }, 'more than one'],
    [{ text: 5 }, 'text is empty or not a string'],
    [{ text: '' }, 'text is empty or not a string'],
    [{ prompt: 'a' }, 'completion is empty or not a string'],
    [{ completion: 'a' }, 'prompt is not a string'],
    [{ prompt: 'a', completion: '' }, 'completion is empty'],
    [{ messages: [] }, 'not a list of 1 to 1024 turns'],
    [{ messages: new Array(1025).fill({ role: 'user', content: 'a' }) }, 'not a list of 1 to 1024'],
    [{ messages: [null] }, 'message 1 has no role'],
    [{ messages: [{ role: 'user', content: ['a'] }] }, 'content of message 1 is not a string'],
    [{ messages: [{ role: 'user', content: 'a' }] }, 'no message is from the assistant'],
  ])('case %# is refused', (value, reason) => {
    const parsed = line(value);
    expect(parsed.ok).toBe(false);
    if (!parsed.ok) expect(parsed.issue.message).toContain(reason);
  });

  test('that is no JSON is refused', () => {
    expect(parseDocument('{"text": "a"')).toMatchObject({ issue: { message: 'not valid JSON' } });
  });
});

test('all of a text counts, and of a completion what the model is to write', () => {
  expect(encodeDocument({ kind: 'text', text: 'ab' }, form)).toEqual({
    tokens: [299, 97, 98, END],
    counted: [1, 1, 1, 1],
  });
  expect(encodeDocument({ kind: 'completion', prompt: 'ab', completion: 'c' }, form)).toEqual({
    tokens: [299, 97, 98, 99, END],
    counted: [0, 0, 0, 1, 1],
  });
});

describe('a conversation', () => {
  const encode = (...parts: readonly [text: string, counted: boolean][]) =>
    encodePieces(
      parts.map(([text, counted]) => ({ text, counted })),
      form,
    );

  test('counts turns up to the token that ends them, and ends once', () => {
    const { tokens, counted } = encode(['u:a#\na:', false], ['b#\n', true]);
    expect(tokens).toEqual(ids('u:a#\na:b#\n'));
    expect(counted).toEqual([0, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
  });

  test('goes on behind such a turn', () => {
    const { tokens, counted } = encode(['u:', false], ['b#\n', true], ['u:', false], ['c#', true]);
    expect(tokens).toEqual(ids('u:b#\nu:c#'));
    expect(counted.map(String).join('')).toBe('001100011');
  });

  test('without a token that ends turns counts the line break, and is ended', () => {
    const { tokens, counted } = encode(['u:a\na:', false], ['b\n', true]);
    expect(tokens).toEqual([...ids('u:a\na:b\n'), END]);
    expect(counted.map(String).join('')).toBe('000000111');
  });
});
