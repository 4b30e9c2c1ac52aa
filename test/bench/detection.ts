/**
 * How soon who does harm is known, and how often somebody honest is taken for it: the workers of the attack lab, judged as committee members
 * and witnesses of certified rounds judge. First a run in which everybody is honest, then one for each attack against two of eight.
 *
 *   npm run bench:detection -- --corpus tinyshakespeare.txt [--skewed] [--rounds 100] [--attack sign-flip ...] [--scores FILE]
 *
 * `--scores` keeps the score of every worker in every round, a line each.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import { gainOf, Judgment, type MeasuredGain, rowsFor } from 'nostrain/certified/parts';
import type { Row } from 'nostrain/consensus';
import type { ShardForm } from 'nostrain/model';
import type { Vector } from 'nostrain/tensor';
import { adversaries } from '../../demos/byzantine/adversaries.ts';
import { type BattlePlan, fight } from '../../demos/byzantine/battle.ts';
import { type GptCamp, openCamp } from '../../demos/byzantine/camp.ts';
import { type DefenceScreen, defencesFor } from '../../demos/byzantine/defences.ts';
import { withScope } from '../../src/base/async.ts';
import { belowFloor, scoreOfGain, weightVector, withScore } from '../../src/consensus/scores.ts';

const { values: flags } = parseArgs({
  options: {
    corpus: { type: 'string', default: 'tinyshakespeare.txt' },
    skewed: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '100' },
    attack: { type: 'string', multiple: true },
    seed: { type: 'string', default: '1' },
    scores: { type: 'string' },
  },
});
const WORKERS = 8;
const HOSTILE = 2;
/** Rows that all witnesses measure on. */
const SHARED_ROWS = 32;
const seed = Number(flags.seed);
const corpus = readFileSync(flags.corpus);
const form: ShardForm = flags.skewed ? 'contiguous' : 'interleaved';
const plain = defencesFor(WORKERS, HOSTILE).find(({ name }) => name === 'clipped-mean')!;

/** Everything that is said of a worker in one round. */
interface ContributionVerdicts {
  readonly worker: string;
  /** Members that would not list its contribution, and that would refuse an outcome which does. */
  readonly unlisted: number;
  readonly refused: number;
  readonly weight: number;
  readonly isUnderFloor: boolean;
}

/** Judges every round as all honest members do; the one whose turn it is decides what counts. */
function judgeOf(
  camp: GptCamp,
  honest: number,
  attack: string | undefined,
  tell: (said: readonly ContributionVerdicts[]) => void,
): DefenceScreen {
  const histories = new Map<string, readonly number[]>();
  const rows = rowsFor(WORKERS);
  return async (params, listed, round) => {
    const judgments: Judgment[] = [];
    for (let member = 0; member < honest; member++) {
      const draw = { key: deriveKey('bench', seed, member, round), rows };
      const losses = (at: Vector) => camp.trainers[member]!.measure!(at, 'shard', draw);
      judgments.push(new Judgment(await findingsOf(params, listed, losses)));
    }
    const draw = { key: deriveKey('bench', seed, 'shared', round), rows: SHARED_ROWS };
    const losses = (at: Vector) => camp.trainers[0]!.measure!(at, 'validation', draw);
    for (const [id, { gain }] of await findingsOf(params, listed, losses)) {
      histories.set(id, withScore(histories.get(id) ?? [], scoreOfGain(gain)));
    }
    if (flags.scores !== undefined) {
      const scores = [...histories.values()].map((history) => history.at(-1));
      appendFileSync(flags.scores, `${JSON.stringify({ attack: attack ?? '', round, scores })}\n`);
    }
    const rated = [...histories].map(([key, history]) => ({ key, history }));
    const weights = new Map(weightVector(rated).map(({ key, weight }) => [key, weight]));
    const below = belowFloor(rated);
    const count = (isSo: (judgment: Judgment) => boolean) => judgments.filter(isSo).length;
    tell(
      listed.map(({ id }) => ({
        worker: id,
        unlisted: count((each) => !each.mayPropose(id)),
        refused: count((each) => !each.mayAccept(id, 0)),
        weight: weights.get(id) ?? 0,
        isUnderFloor: below.has(id),
      })),
    );
    return listed.filter(({ id }) => judgments[round % honest]!.mayPropose(id));
  };
}

async function findingsOf(
  params: Vector,
  rows: readonly Row[],
  losses: (at: Vector) => Promise<Float32Array>,
): Promise<ReadonlyMap<string, MeasuredGain>> {
  const before = await losses(params);
  const findings = new Map<string, MeasuredGain>();
  for (const { id, delta } of rows) {
    findings.set(id, await gainOf(params, { delta }, before, losses));
  }
  return findings;
}

const percent = (part: number, all: number) => `${((100 * part) / all).toFixed(3)} %`;

async function play(
  rounds: number,
  attack: string | undefined,
): Promise<readonly (readonly ContributionVerdicts[])[]> {
  const lab = { corpus, workers: WORKERS, hostile: HOSTILE, rounds, innerSteps: 12, seed, form };
  const plan: BattlePlan = {
    ...{ ...lab, normBound: 1.5, signal: new AbortController().signal },
  };
  return withScope(async (scope) => {
    const camp = await openCamp(lab, scope);
    const said: (readonly ContributionVerdicts[])[] = [];
    const honest = WORKERS - (attack === undefined ? 0 : HOSTILE);
    const screen = judgeOf(camp, honest, attack, (each) => said.push(each));
    const adversary = adversaries.find(({ name }) => name === attack);
    const { loss } = await fight(camp, plan, { adversary, defence: plain, screen });
    console.log(
      `${attack ?? 'everybody is honest'}: loss ${loss.toFixed(3)} after ${rounds} rounds`,
    );
    return said;
  });
}

/** The first round from which on something holds to the end, from 1; undefined where it does not at the end. */
function heldFrom(rounds: readonly boolean[]): number | undefined {
  const last = rounds.lastIndexOf(false);
  return last === rounds.length - 1 ? undefined : last + 2;
}

const told = (round: number | undefined) => (round === undefined ? 'never' : `round ${round}`);

const begun = process.cpuUsage();
if (flags.attack === undefined) {
  const all = (await play(Number(flags.rounds), undefined)).flat();
  const sum = (of: (said: ContributionVerdicts) => number) =>
    all.reduce((total, each) => total + of(each), 0);
  const opinions = all.length * WORKERS;
  console.log(
    `  not listed by a member: ${percent(
      sum((each) => each.unlisted),
      opinions,
    )} of ${opinions}`,
  );
  console.log(
    `  refused by a member: ${percent(
      sum((each) => each.refused),
      opinions,
    )}`,
  );
  console.log(`  under the floor: ${sum((each) => Number(each.isUnderFloor))} of ${all.length}`);
  console.log(`  without weight: ${sum((each) => Number(each.weight === 0))} of ${all.length}`);
}
for (const attack of flags.attack ?? adversaries.map(({ name }) => name)) {
  const rounds = await play(10, attack);
  const hostile = (said: readonly ContributionVerdicts[]) => said.slice(WORKERS - HOSTILE);
  const isNone = (of: (said: ContributionVerdicts) => boolean) =>
    told(heldFrom(rounds.map((said) => hostile(said).every(of))));
  const unlisted = rounds.flatMap(hostile).reduce((sum, each) => sum + each.unlisted, 0);
  const opinions = rounds.flatMap(hostile).length * (WORKERS - HOSTILE);
  if (opinions === 0) {
    console.log('  refused unread, so that nothing of it is scored');
    continue;
  }
  const blamed = rounds.flatMap((said) => said.slice(0, WORKERS - HOSTILE));
  console.log(
    `  weight 0 from ${isNone((each) => each.weight === 0)}, under the floor from ${isNone((each) => each.isUnderFloor)}`,
  );
  console.log(
    `  not listed by ${percent(unlisted, opinions)} of members; honest ones under the floor: ${blamed.filter((each) => each.isUnderFloor).length}`,
  );
}
const { user, system } = process.cpuUsage(begun);
console.log(`${((user + system) / 1e6).toFixed(0)} CPU seconds`);
