/** The committee of a round of a real run, followed on its relays from the run id on, as its workers do. */

import { ConfigError } from '../base/errors.ts';
import type { Committee } from '../run/committee.ts';
import type { WorkerId } from '../run/ids.ts';
import { roundName } from '../run/round-name.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { electorateOf, stakesOf } from './electorate.ts';
import type { Verdict } from './evidence.ts';
import { type DecisionOptions, decisionsOf } from './from-relays.ts';
import { type Chain, genesisOf, startOf, withEntropy } from './history.ts';
import { replay } from './replay.ts';

export interface RunCommittee {
  readonly chain: Chain;
  readonly committee: Committee;
  /** Of the table that holds; null in a run without. */
  readonly stakes: ReadonlyMap<WorkerId, bigint> | null;
}

/** Of the round asked for, else of the one in progress; a recovery epoch (`attempt` above 0) is drawn from all who may sit. */
export async function committeeInRun(
  spec: RunSpec,
  { round, attempt }: { readonly round: number | undefined; readonly attempt: number },
  options: DecisionOptions,
): Promise<RunCommittee> {
  const start = genesisOf(spec, startOf(spec), options.sha256);
  const { gathered } = await decisionsOf(spec, start, options);
  const before = chainBefore(replay(start, gathered), round);
  const chain = here(withEntropy(before, gathered));
  const stakes = here(stakesOf(chain.ledger, gathered));
  const electorate = electorateOf(chain, stakes);
  return { chain, stakes, committee: electorate.draw(attempt, electorate.eligible) };
}

function chainBefore(playing: ReturnType<typeof replay>, round: number | undefined): Chain {
  for (;;) {
    const next = playing.next();
    const chain = next.done ? next.value.state : next.value.before;
    if (chain.round === round || (next.done && round === undefined)) return chain;
    if (!next.done) continue;
    throw new ConfigError(
      'flag/round',
      `nobody decided who votes in ${roundName(round ?? chain.round)} yet`,
      {
        hint: `${roundName(chain.round)} is in progress, as far as these relays know`,
      },
    );
  }
}

function here<T>(verdict: Verdict<T>): T {
  if (verdict.ok) return verdict.value;
  const lacks = 'missing' in verdict ? verdict.missing.map(({ what, id }) => `${what} ${id}`) : [];
  throw new ConfigError('run/missing', `not here: ${lacks.join(', ')}`, {
    hint: 'name its stakes with --stake FILE, other relays with --relay URL, or endpoints of its beacon',
  });
}
