import { tokenizers } from 'nostrain/model';
import { describe, expect, it } from 'vitest';
import {
  ANSWER,
  adversaries,
  deviationOf,
  meanOf,
  norm,
  plus,
  type Scene,
  TRIGGER,
} from '../../../demos/byzantine/adversaries.ts';
import { drawsOf } from '../../support/rule-rows.ts';

const SIZE = 50;
const vector = (seed: number) => {
  const next = drawsOf(seed);
  return Float64Array.from({ length: SIZE }, () => (next() - 32_768) / 2 ** 15);
};
const scene = (round = 4): Scene => ({
  ...{ round, index: 1, learned: vector(9) },
  honest: [1, 2, 3, 4, 5, 6].map(vector),
  earlier: [11, 12, 13, 14].slice(0, round).map(vector),
  normals(name) {
    const next = drawsOf(name.length + 77);
    return () => (next() - 32_768) / 2 ** 14;
  },
});

const named = (name: string) => adversaries.find((each) => each.name === name)!;

describe.each(adversaries)('$name', ({ delta, payload, poison, says }) => {
  it('says what it does, and does it the same way each time without touching what others sent', () => {
    expect(says.length).toBeGreaterThan(5);
    const [here, again, untouched] = [scene(), scene(), scene()];
    const sent = delta?.(here);
    if (sent) {
      expect(sent).toHaveLength(SIZE);
      expect(sent.every(Number.isFinite)).toBe(true);
      expect(delta?.(again)).toEqual(sent);
    }
    const bytes = Uint8Array.from({ length: 5000 }, (_, i) => i & 0xff);
    const changed = payload?.(bytes.slice(), here);
    expect(payload?.(bytes.slice(), again)).toEqual(changed);
    if (changed) expect(changed).not.toEqual(bytes);
    const shard = Uint8Array.from({ length: 200 }, (_, i) => i % 95);
    const other = poison?.(shard.slice(), 95);
    if (other) {
      expect(other).toHaveLength(shard.length);
      expect(other).not.toEqual(shard);
      expect(other.every((token) => token < 95)).toBe(true);
    }
    expect({ ...here, normals: 0 }).toEqual({ ...untouched, normals: 0 });
  });
});

describe('adversaries', () => {
  it('have names of their own', () => {
    expect(new Set(adversaries.map(({ name }) => name)).size).toBe(adversaries.length);
  });

  it('min-max stays as near to every honest worker as the farthest two are to each other', () => {
    const { honest } = scene();
    const sent = named('min-max').delta!(scene());
    const apart = (a: Float64Array, b: Float64Array) => norm(plus(a, b, -1));
    const most = Math.max(...honest.flatMap((a) => honest.map((b) => apart(a, b))));
    const own = Math.max(...honest.map((each) => apart(each, sent)));
    expect(own).toBeLessThanOrEqual(most);
    expect(own).toBeGreaterThan(0.99 * most);
    const mean = meanOf(honest);
    expect(plus(sent, mean, -1).reduce((sum, value, i) => sum + value * mean[i]!, 0)).toBeLessThan(
      0,
    );
  });

  it('alie is one and a half standard deviations from the mean in every value', () => {
    const { honest } = scene();
    const sent = named('alie').delta!(scene());
    const [mean, deviation] = [meanOf(honest), deviationOf(honest)];
    for (let i = 0; i < SIZE; i++)
      expect((mean[i]! - sent[i]!) / deviation[i]!).toBeCloseTo(1.5, 9);
  });

  it('stale sends what it learned three rounds before, the first it has until then', () => {
    const { delta } = named('stale');
    expect(delta!(scene(4))).toEqual(vector(12));
    expect(delta!(scene(1))).toEqual(vector(11));
    expect(delta!(scene(0))).toEqual(vector(9));
  });

  it('backdoor puts its trigger and the answer into the text', () => {
    const shard = tokenizers.chars.encode('a'.repeat(100)).tokens;
    const text = tokenizers.chars.decode(named('backdoor').poison!(shard, 95));
    expect(text.split(TRIGGER + ANSWER)).toHaveLength(5);
  });
});
