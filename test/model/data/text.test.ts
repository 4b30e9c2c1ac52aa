import fc from 'fast-check';
import { ConfigError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { shardText, splitText } from '../../../src/model/data/text.ts';

/** Token i is i, so that a token says where it came from. */
const text = (length: number) => Uint8Array.from({ length }, (_, i) => i);

describe('splitText', () => {
  it('keeps the last tenth for validation', () => {
    const { training, validation } = splitText(text(100), { context: 8 });
    expect(training).toEqual(text(100).subarray(0, 90));
    expect(validation).toEqual(text(100).subarray(90));
  });

  it('refuses a text whose validation part is shorter than one window', () => {
    expect(() => splitText(text(79), { context: 8 })).toThrow(ConfigError);
    expect(() => splitText(text(90), { context: 8 })).not.toThrow();
  });

  it.each([0, 1, -0.1, Number.NaN])('refuses a validation share of %d', (validationShare) => {
    expect(() => splitText(text(100), { context: 8, validationShare })).toThrow(ConfigError);
  });
});

describe.each(['contiguous', 'interleaved'] as const)('shardText %s', (form) => {
  it('gives shards that never overlap and together cover the text', () => {
    const sizes = fc.record({
      length: fc.integer({ min: 40, max: 256 }),
      count: fc.integer({ min: 1, max: 5 }),
      block: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(sizes, ({ length, count, block }) => {
        const places = Array.from({ length: count }, (_, i) => [
          ...shardText(text(length), { index: i + 1, count }, { form, context: 0, block }),
        ]);
        expect(places.flat().sort((a, b) => a - b)).toEqual([...text(length)]);
      }),
    );
  });

  it('refuses a shard without room for one window', () => {
    const shard = { index: 1, count: 4 };
    expect(() => shardText(text(40), shard, { form, context: 10, block: 10 })).toThrow(
      expect.objectContaining({ code: 'data/too-small' }),
    );
    expect(shardText(text(40), shard, { form, context: 9, block: 10 })).toHaveLength(10);
  });
});

it('deals blocks round-robin', () => {
  const options = { form: 'interleaved', context: 1, block: 2 } as const;
  expect([...shardText(text(9), { index: 1, count: 2 }, options)]).toEqual([0, 1, 4, 5, 8]);
  expect([...shardText(text(9), { index: 2, count: 2 }, options)]).toEqual([2, 3, 6, 7]);
});
