import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePlay } from 'nostrain/model';
import { describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/processes.ts';

interface Document {
  readonly attackFree: number;
  readonly table: { attack: string; rule: string; loss: number; penalty: number }[];
  readonly wallSeconds: number;
}

describe('nostrain demo byzantine', () => {
  it('T-03: --table is one attack against every defence: the mean pays, robust rules do not', async () => {
    const dir = temporaryFolder();
    const corpus = join(dir, 'play.txt');
    const picture = join(dir, 'table.svg');
    writeFileSync(corpus, writePlay({ minimumBytes: 60_000 }));
    const { code, stdout } = await runProgram([
      ...['demo', 'byzantine', '--attack', 'sign-flip', '--hostile', '2/8', '--table', '--quick'],
      ...['--json', '--corpus', corpus, '--picture', picture],
    ]);
    expect(code).toBe(0);
    const { attackFree, table, wallSeconds }: Document = JSON.parse(stdout);
    expect(wallSeconds).toBeGreaterThan(0);
    const rules = table.map(({ rule }) => rule);
    expect(new Set(rules).size).toBe(rules.length);
    expect(rules).toEqual(expect.arrayContaining(['mean', 'trimmed-mean', 'mean+screening']));
    for (const { attack, loss, penalty } of table) {
      expect(attack).toBe('sign-flip');
      expect(penalty).toBeCloseTo(loss - attackFree, 9);
    }
    const cost = (name: string) => table.find(({ rule }) => rule === name)!.penalty;
    expect(cost('mean')).toBeGreaterThan(0.5);
    for (const rule of ['trimmed-mean', 'coordinate-median', 'multi-krum', 'geometric-median']) {
      expect([rule, cost(rule)]).toEqual([rule, expect.toSatisfy((each: number) => each < 0.2)]);
    }
    expect(readFileSync(picture, 'utf8')).toMatch(/^<svg .*<\/svg>\n$/s);
  }, 240_000);

  it('names what there is where somebody asks for something else', async () => {
    const { code, stderr } = await runProgram(['demo', 'byzantine', '--attack', 'bribe']);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/--attack is bribe.*\n.*sign-flip, small-flip, evade, noise/s);
    const most = await runProgram(['demo', 'byzantine', '--hostile', '8/8']);
    expect(most.stderr).toContain('leave no honest worker');
  });
});
