/**
 * Screening by loss in the attack lab, as committee members do it: whoever proposes lists what its own measure allows. Every worker proposes in
 * turn; what a hostile one proposes has to be acceptable to an honest member, whose bound is wider.
 */
import { deriveKey } from '../../src/base/rng.ts';
import { type Finding, gainOf, Judgment } from '../../src/certified/checks/screening.ts';
import type { Vector } from '../../src/tensor/params.ts';
import type { Trainer } from '../../src/worker/ports.ts';
import type { Screen } from './battle.ts';

/** Rows of its own data on which a member measures, as in certified rounds. */
const ROWS = 32;

export interface Members {
  readonly trainers: readonly Pick<Trainer, 'measure'>[];
  /** The last ones. */
  readonly hostile: number;
  readonly seed: number;
}

export const screenOf =
  ({ trainers, hostile, seed }: Members): Screen =>
  async (params, rows, round) => {
    const proposer = round % trainers.length;
    const honest = trainers.length - hostile;
    const member = proposer < honest ? proposer : round % honest;
    const draw = { key: deriveKey('nostrain/lab/screening', seed, member, round), rows: ROWS };
    const losses = (values: Vector) => trainers[member]!.measure!(values, 'shard', draw);
    const before = await losses(params);
    const findings = new Map<string, Finding>();
    for (const { id, delta } of rows) {
      findings.set(id, await gainOf(params, { delta }, before, losses));
    }
    const judgment = new Judgment(findings);
    return rows.filter(({ id }) =>
      proposer < honest ? judgment.mayPropose(id) : judgment.mayAccept(id, 0),
    );
  };
