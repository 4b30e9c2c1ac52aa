/** From the battles of several seeds to rows of the table: means of what attacks cost, and how far seeds lie apart. */
import type { Adversary } from './adversaries/adversary.ts';
import type { Defence } from './defences.ts';
import type { Result } from './kept-battles.ts';
import type { LabDocument, LabRow } from './words.ts';

/** An attack and what is set against it. */
export type Pairing = readonly [Adversary, Defence];

export interface SeedLosses {
  /** Where all are honest. */
  readonly free: number;
  /** Of each pairing. */
  readonly results: readonly Result[];
}

export const tableOf = (
  fights: readonly Pairing[],
  seeds: readonly SeedLosses[],
): Pick<LabDocument, 'attackFree' | 'table'> => ({
  attackFree: mean(seeds.map(({ free }) => free)),
  table: fights.map(([{ name: attack }, { name: rule }], i): LabRow => {
    const results = seeds.map(({ results }) => results[i]!);
    const losses = results.flatMap(({ loss }) => (loss === null ? [] : [loss]));
    if (losses.length < seeds.length) return { attack, rule, loss: null, penalty: null };
    const penalties = losses.map((loss, k) => loss - seeds[k]!.free);
    const answers = results.flatMap((each) => each.answers ?? []);
    const refused = results.reduce((sum, each) => sum + (each.refused ?? 0), 0);
    return {
      attack,
      rule,
      loss: mean(losses),
      penalty: mean(penalties),
      ...(seeds.length > 1 && { spread: Math.max(...penalties) - Math.min(...penalties) }),
      ...(answers.length > 0 && { answers: mean(answers) }),
      ...(refused > 0 && { refused }),
    };
  }),
});

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
