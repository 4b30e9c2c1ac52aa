import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { drawTerminal, finalFrame } from '../../../demos/gpt/picture.ts';
import { wholeRun } from '../../support/demo-events.ts';

const events = wholeRun.map(([name, event]) => ({ name, ...event }));

it('draws the last screen of a recorded run', () => {
  const lines = finalFrame(events, 'a <title> & more');
  const svg = drawTerminal(lines, 'a <title> & more');
  expect(svg).toContain('<title>a &lt;title&gt; &amp; more</title>');
  const texts = [...svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) => text);
  expect(texts).toContain('QUEEN: What crown is this?');
  expect(texts).toContain('✓ d2d2d2d2');
  expect(texts.every((text) => !text!.includes('\u001b'))).toBe(true);
});

it('puts every text where the terminal would', () => {
  const svg = drawTerminal(['\u001b[1mab\u001b[0m  cd'], '');
  expect(svg).toContain(
    '<text x="16.0" y="49.2" textLength="16.8" fill="#f0f6fc" font-weight="bold" xml:space="preserve" style="white-space:pre">ab<',
  );
  expect(svg).toContain(
    '<text x="49.6" y="49.2" textLength="16.8" fill="#c9d1d9" xml:space="preserve" style="white-space:pre">cd<',
  );
});

it.each([
  ['a new picture', () => drawTerminal(finalFrame(events, 'demo'), 'demo')],
  ["README's picture", () => readFileSync('docs/assets/demo.svg', 'utf8')],
])('%s keeps its spaces in browsers that reset `white-space` at every text', (_name, svg) => {
  const texts = svg().match(/<text [^>]*>/g) ?? [];
  expect(texts.length).toBeGreaterThan(3);
  for (const text of texts) expect(text).toContain('style="white-space:pre"');
});
