/** What the attack lab keeps of battles, and the table it makes of several seeds. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { adversaries } from '../../../demos/byzantine/adversaries.ts';
import { defencesFor } from '../../../demos/byzantine/defences.ts';
import {
  type BattleName,
  describeRows,
  KeptBattles,
  type Pairing,
  tableOf,
} from '../../../demos/byzantine/table.ts';
import { temporaryFolder } from '../../support/processes.ts';

const name: BattleName = {
  ...{ corpus: 'ab'.repeat(32), form: 'interleaved', hostile: '2/8', rounds: 10, innerSteps: 12 },
  ...{ seed: 1, attack: 'zero', rule: 'krum' },
};
const never = () => Promise.reject(new Error('played once more'));

describe('kept battles', () => {
  it('are played once, also by the next program, and again where anything is different', async () => {
    const file = join(temporaryFolder(), 'battles.ndjson');
    const first = await KeptBattles.open(file);
    const result = { loss: 2.5, answers: 0.25, refused: 3 };
    expect(await first.take(name, async () => result)).toEqual(result);
    await first.take({ ...name, seed: 2 }, async () => ({ loss: null }));
    const second = await KeptBattles.open(file);
    expect(await second.take(name, never)).toMatchObject(result);
    expect(await second.take({ ...name, seed: 2 }, never)).toMatchObject({ loss: null });
    expect(await second.take({ ...name, rounds: 11 }, async () => ({ loss: 1 }))).toEqual({
      loss: 1,
    });
    expect(readFileSync(file, 'utf8').trim().split('\n')).toHaveLength(3);
  });

  it('are refused by line where a file holds anything else', async () => {
    const file = join(temporaryFolder(), 'battles.ndjson');
    const good = JSON.stringify({ ...name, loss: 2 });
    for (const bad of [
      '{}',
      'x',
      JSON.stringify({ ...name, loss: 'low' }),
      `${good.slice(0, -4)}`,
    ]) {
      writeFileSync(file, `${good}\n${bad}\n`);
      await expect(KeptBattles.open(file)).rejects.toThrow(
        /line 2 of .*battles.ndjson is not a battle/,
      );
    }
  });
});

describe('a table of several seeds', () => {
  const fights: readonly Pairing[] = [[adversaries[0]!, defencesFor(8, 2)[0]!]];

  it('has the means of what an attack costs in each, and how far they lie apart', () => {
    const { attackFree, table } = tableOf(fights, [
      { free: 2, results: [{ loss: 2.5, answers: 1, refused: 1 }] },
      { free: 3, results: [{ loss: 3.75, answers: 0, refused: 2 }] },
    ]);
    expect(attackFree).toBe(2.5);
    expect(table).toEqual([
      {
        ...{ attack: 'sign-flip', rule: 'clipped-mean', loss: 3.125, penalty: 0.625 },
        ...{ spread: 0.25, answers: 0.5, refused: 3 },
      },
    ]);
    const [, , line] = describeRows({ attackFree, table, wallSeconds: 1 });
    expect(line).toContain('+0.625 ± 0.125');
  });

  it('has no loss where one of them broke off, and no spread of one', () => {
    const broken = tableOf(fights, [
      { free: 2, results: [{ loss: 2.5 }] },
      { free: 3, results: [{ loss: null }] },
    ]);
    expect(broken.table[0]).toMatchObject({ loss: null, penalty: null });
    const one = tableOf(fights, [{ free: 2, results: [{ loss: 2.5 }] }]);
    expect(one.table[0]).toEqual({
      ...{ attack: 'sign-flip', rule: 'clipped-mean', loss: 2.5, penalty: 0.5 },
    });
  });
});
