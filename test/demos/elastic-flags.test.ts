/** The flags of `demo elastic`: what they do to the network is the same for the same seed. */
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { elasticFlags, type LineFlags, lineFaults } from '../../demos/elastic/flags.ts';
import { createDelay, createDraws, createDrop } from '../../relay/faults/plan.ts';
import { addFlags } from '../../src/terminal/flag-table.ts';

function parse(...words: readonly string[]) {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  return addFlags(command, elasticFlags)
    .parse(['node', 'demo', ...words])
    .opts<LineFlags & { tiers?: number[] }>();
}

describe('flags of the elastic demo', () => {
  it('E-13: twice the same latency, loss, bandwidth and seed inject the same sequence', () => {
    const flags = ['--latency', 'normal:50,10', '--loss', '.1', '--bandwidth', '1MB/s'];
    const faults = lineFaults(parse(...flags))!;
    expect(faults).toEqual({
      delay: { shape: 'normal', meanMs: 50, deviationMs: 10 },
      drop: 0.1,
      bandwidth: 1_000_000,
    });
    const sequence = (seed: number) => {
      const drop = createDrop(faults, createDraws(seed, 'drop:1'))!;
      const delay = createDelay(faults, createDraws(seed, 'delay:1'))!;
      return Array.from({ length: 500 }, () => delay(drop([0])));
    };
    expect(sequence(42)).toEqual(sequence(42));
    expect(sequence(42)).not.toEqual(sequence(43));
    const lost = sequence(42).filter((copies) => copies.length === 0).length;
    expect(lost).toBeGreaterThan(20);
    expect(lost).toBeLessThan(90);
  });

  it('one delay, a range and other units are understood; without flags there are no faults', () => {
    expect(lineFaults(parse('--latency', '30'))).toEqual({
      delay: { shape: 'uniform', minMs: 30, maxMs: 30 },
    });
    expect(lineFaults(parse('--bandwidth', '500kB/s'))).toEqual({ bandwidth: 500_000 });
    expect(lineFaults(parse())).toBeUndefined();
    expect(parse('--tiers', '0,0,2').tiers).toEqual([0, 0, 2]);
  });

  it.each([
    [['--latency', 'soon'], /--latency is "soon": it must be milliseconds/],
    [['--latency', 'normal:50,10,drop=1'], /--latency/],
    [['--loss', '2'], /drop must be a share|it must be/],
    [['--loss', '10%'], /a share from 0 to 1/],
    [['--bandwidth', '1'], /with their unit/],
    [['--bandwidth', '0MB/s'], /above 0/],
    [['--tiers', '1,2'], /--tiers is "1,2"/],
    [['--tiers', '0,x'], /--tiers/],
  ] as const)('%s is refused in words', (words, message) => {
    expect(() => parse(...words)).toThrow(message);
  });
});
