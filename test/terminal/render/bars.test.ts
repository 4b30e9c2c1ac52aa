import { expect, it } from 'vitest';
import { formatBytes, formatCount, formatRate } from '../../../src/base/numbers.ts';
import { bar, sparkline } from '../../../src/terminal/render/forecast.ts';
import { clip, padEnd, padStart, widthOf, wrap } from '../../../src/terminal/render/text.ts';

it.each([
  [0, '░░░░'],
  [0.25, '█░░░'],
  [0.47, '█▉░░'],
  [1, '████'],
  [7, '████'],
])('a bar of %d', (share, expected) => {
  expect(bar(share, 4)).toBe(expected);
});

it('a sparkline spans from the lowest to the highest', () => {
  expect(sparkline([], 8)).toBe('');
  expect(sparkline([2], 8)).toBe('▁');
  expect(sparkline([8, 6, 4, 1], 8)).toBe('█▆▄▁');
  expect(sparkline([4, Number.NaN, 1], 8)).toBe('█ ▁');
  expect(sparkline([9, 7, 5, 3, 1, 1], 3)).toBe('█▄▁');
});

it('numbers keep to few characters', () => {
  expect([0, 999, 1000, 834_048].map(formatCount)).toEqual(['0', '999', '1,000', '834,048']);
  expect([999, 1000, 401_234, 1_234_567].map(formatBytes)).toEqual([
    '999 B',
    '1.0 kB',
    '401.2 kB',
    '1.23 MB',
  ]);
  expect([12.3, 19_321, 1_200_000].map(formatRate)).toEqual(['12', '19.3k', '1.20M']);
});

it('clips and wraps by cells of the terminal, never inside a character', () => {
  expect(clip('😀😀😀', 3)).toBe('😀…');
  expect(clip('😀😀😀', 4)).toBe('😀…');
  expect(clip('😀😀😀', 2)).toBe('…');
  expect(clip('中文字', 6)).toBe('中文字');
  expect(clip('中文字', 5)).toBe('中文…');
  expect(clip('cafe\u0301', 4)).toBe('cafe\u0301');
  expect(wrap('中文字', 4)).toEqual(['中文', '字']);
  expect(wrap('😀😀', 1)).toEqual(['😀', '😀']);
  expect([widthOf('ﬁ…│█'), widthOf('ＡＢ'), widthOf('👩‍💻')]).toEqual([4, 4, 4]);
  expect([padEnd('中', 4), padStart('中', 4)]).toEqual(['中  ', '  中']);
  expect(clip('abc', 3)).toBe('abc');
  expect(clip('abc', 0)).toBe('');
  expect(wrap('to be or not', 6)).toEqual(['to be', 'or not']);
  expect(wrap('abcdefgh ij\n\nk', 3)).toEqual(['abc', 'def', 'gh', 'ij', '', 'k']);
});
