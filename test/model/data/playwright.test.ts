import { sha256Hex } from 'nostrain/base';
import { tokenizers } from 'nostrain/model';
import { expect, it } from 'vitest';
import { writePlay } from '../../../src/model/data/playwright.ts';

const play = writePlay();
const text = new TextDecoder().decode(play);

it('writes the same bytes on every machine', () => {
  expect(play.length).toBeGreaterThanOrEqual(1_100_000);
  expect(play.length).toBeLessThan(1_110_000);
  expect(sha256Hex(play)).toBe('887a4249b769d6eff66c7c1f01c9ff0915fa304ca487d596f763a141ca7696b4');
});

it('writes another play for another seed', () => {
  const small = { minimumBytes: 2000 };
  expect(writePlay({ ...small, seed: 2 })).not.toEqual(writePlay({ ...small, seed: 3 }));
});

it('uses nothing the char tokenizer lacks', () => {
  expect(tokenizers.chars.encode(text).replaced).toBe(0);
});

it('is dialogue: a name, lines, an empty line', () => {
  const speeches = text.slice(0, -2).split('\n\n');
  expect(speeches.length).toBeGreaterThan(5000);
  for (const speech of speeches) {
    if (!/^[A-Z]+:(?:\n[^\n]+)+$/.test(speech)) expect.fail(`not a speech: ${speech}`);
    if (/[{}_]|undefined|\ba [aeiou]/.test(speech)) expect.fail(`a slip: ${speech}`);
  }
});

it('has many words and no line that is said all the time', () => {
  expect(new Set(text.toLowerCase().match(/[a-z]+/g)).size).toBeGreaterThan(500);
  const lines = text.split('\n').filter((line) => line !== '' && !line.endsWith(':'));
  expect(new Set(lines).size / lines.length).toBeGreaterThan(0.9);
});
