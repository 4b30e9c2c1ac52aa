/**
 * Simulates one run of the attack lab (`nostrain demo byzantine`), without relays and votes: with the trainers,
 * payloads, norm bound, aggregation rule and outer step of real runs, and hostile workers among honest ones.
 */
import type { Layout, Trainer } from 'nostrain';
import { deriveKey } from 'nostrain';
import { toHex, utf8 } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/hash.ts';
import { philox, unit } from '../../src/base/rng.ts';
import { aggregateBounded } from '../../src/consensus/aggregate/bounded.ts';
import type { Row } from '../../src/consensus/aggregate/mean.ts';
import { nextSizes, rootMeanSquare } from '../../src/consensus/aggregate/norm-bound.ts';
import { nesterovStep } from '../../src/consensus/outer/nesterov.ts';
import { createPacker } from '../../src/network/wire/packer.ts';
import type { WorkerId } from '../../src/run/ids.ts';
import { comparable } from '../../src/run/spec/presets.ts';
import type { Vector } from '../../src/tensor/params.ts';
import { addPartial } from '../../src/tensor/partial-vector.ts';
import { assignChunks } from '../../src/worker/chunk-assignment.ts';
import type { Adversary, Scene } from './adversaries.ts';
import type { Defence, DefenceScreen } from './defences.ts';

/** Trainers that battles share, one battle after another; they keep no state in between. */
export interface Camp {
  readonly layout: Layout;
  readonly start: Vector;
  /** One trainer per worker, the hostile ones last. */
  readonly trainers: readonly Pick<Trainer, 'train'>[];
  /** Returns trainers of hostile workers with data poisoned by an adversary. */
  poisoned(adversary: Adversary): Promise<readonly Pick<Trainer, 'train'>[]>;
  /** Returns the validation loss of shared parameters. */
  loss(params: Vector): Promise<number>;
}

export interface BattlePlan {
  readonly hostile: number;
  readonly rounds: number;
  readonly innerSteps: number;
  readonly seed: number;
  /** Norm bound of the run; the plain mean does not use it. */
  readonly normBound: number;
  readonly signal: AbortSignal;
}

export interface Fight {
  /** Undefined if every worker is honest. */
  readonly adversary: Adversary | undefined;
  readonly defence: Defence;
  readonly screen?: DefenceScreen | undefined;
}

export interface Ending {
  readonly params: Vector;
  readonly loss: number;
  /** Number of payloads that could not be decoded. */
  readonly refused: number;
}

interface Fighter {
  readonly id: WorkerId;
  readonly isHostile: boolean;
  /** Index among the honest or the hostile workers, from 0. */
  readonly index: number;
  readonly trainer: Pick<Trainer, 'train'>;
  moments: readonly Float32Array[];
  readonly earlier: Float64Array[];
  isOut: boolean;
}

const RUN = 'attack lab';

export async function fight(
  camp: Camp,
  plan: BattlePlan,
  { adversary, defence, screen }: Fight,
): Promise<Ending> {
  const fighters = await crewOf(camp, plan, adversary);
  const { layout } = camp;
  let params: Vector = camp.start.slice();
  let momentum: Vector = params.slice().fill(0);
  let history: readonly number[] = [];
  let refused = 0;
  for (let round = 0; round < plan.rounds; round++) {
    plan.signal.throwIfAborted();
    const sent = await sendAll(camp, plan, fighters, { adversary, params, round });
    refused += sent.refused;
    const listed = screen ? await screen(params, sent.rows, round) : sent.rows;
    if (listed.length === 0) continue;
    const isGuest = (id: string) =>
      defence.strangers === true && fighters.some((each) => each.id === id && each.isHostile);
    const rows = listed.map((row) => ({ ...row, isGuest: isGuest(row.worker) }));
    const { aggregate: aggregated, typical } = aggregateBounded(rows, {
      size: layout.size,
      normBound: plan.normBound,
      history,
      parameters: rootMeanSquare(params),
      normalize: 'workers',
      aggregation: defence.aggregation,
      seed: `${plan.seed} ${round}`,
    });
    history = nextSizes(history, typical);
    const outer = { learningRate: aggregated.rate, momentum: 0 };
    ({ values: params, momentum } = nesterovStep(params, momentum, aggregated, outer));
    // two signed contributions in one round prove the fault: the next outcome removes the key
    if (adversary?.equivocates) for (const each of fighters) each.isOut ||= each.isHostile;
  }
  return { params, loss: await camp.loss(params), refused };
}

async function crewOf(
  { trainers, poisoned }: Camp,
  { hostile }: BattlePlan,
  adversary: Adversary | undefined,
): Promise<readonly Fighter[]> {
  const honest = trainers.length - (adversary ? hostile : 0);
  const theirs = adversary?.poison ? await poisoned(adversary) : trainers.slice(honest);
  return trainers.map((trainer, i) => {
    const isHostile = i >= honest;
    const index = isHostile ? i - honest : i;
    return {
      id: toHex(sha256(utf8(`fighter ${i}`))),
      isHostile,
      index,
      trainer: isHostile ? theirs[index]! : trainer,
      moments: [],
      earlier: [],
      isOut: false,
    };
  });
}

interface BattleRound {
  readonly adversary: Adversary | undefined;
  readonly params: Vector;
  readonly round: number;
}

/** Trains all workers and collects their contributions, honest ones first, because hostile workers see those. */
async function sendAll(
  camp: Camp,
  plan: BattlePlan,
  fighters: readonly Fighter[],
  { adversary, params, round }: BattleRound,
) {
  const present = fighters.filter(({ isOut }) => !isOut);
  const { layout } = camp;
  const size = layout.size;
  const { eventBudget } = comparable;
  const packer = createPacker({ run: RUN, layout, packing: 'trellis', eventBudget, sha256 });
  const roster = fighters.map(({ id }) => id);
  const division = { run: RUN, round, base: '0'.repeat(64), owners: 0, fragments: 1 };
  const assignment = assignChunks({ ...division, roster, size });
  const learned = new Map<Fighter, Float64Array>();
  await Promise.all(
    present.map(async (fighter) => {
      const trains = !fighter.isHostile || adversary?.trains === true;
      learned.set(
        fighter,
        trains ? await trainOne(fighter, plan, params, round) : new Float64Array(size),
      );
    }),
  );
  const rows: Row[] = [];
  const honest: Float64Array[] = [];
  let refused = 0;
  for (const fighter of [...present].sort((a, b) => Number(a.isHostile) - Number(b.isHostile))) {
    const { id, isHostile, index, earlier } = fighter;
    const learnedDelta = learned.get(fighter)!;
    const scene: Scene = {
      round,
      index,
      honest,
      learned: learnedDelta,
      earlier,
      normals: (name) => normalsOf(plan.seed, name),
    };
    const delta = (isHostile ? adversary?.delta?.(scene) : undefined) ?? learnedDelta;
    const context = { round, worker: id, assignment };
    const packed = packer.pack(delta.slice(), context);
    const bytes =
      (isHostile ? adversary?.payload?.(packed.payload, scene) : undefined) ?? packed.payload;
    if (isHostile) earlier.push(learnedDelta.slice());
    const opened = packer.open(bytes, packed.codec, context);
    if (!opened.ok) {
      refused++;
      continue;
    }
    rows.push({ worker: id, id, late: false, delta: opened.value, weight: 1, scale: 1 });
    if (isHostile) continue;
    const values = new Float64Array(size);
    addPartial(values, opened.value, 1);
    honest.push(values);
  }
  return { rows, refused };
}

async function trainOne(
  fighter: Fighter,
  { innerSteps, seed, signal }: BattlePlan,
  params: Vector,
  round: number,
): Promise<Float64Array> {
  const task = {
    params,
    moments: fighter.moments,
    round,
    steps: innerSteps,
    firstStep: round * innerSteps,
    batchKey: deriveKey('nostrain/batches', seed, fighter.id),
  };
  const trained = await fighter.trainer.train(task, () => undefined, signal);
  fighter.moments = trained.moments;
  return Float64Array.from(params, (value, i) => value - trained.params[i]!);
}

/** Returns a generator of normal draws (Box-Muller). */
function normalsOf(seed: number, name: string): () => number {
  const key = deriveKey('nostrain/lab', seed, name);
  let count = 0;
  return () => {
    const [a, b] = philox(key, count++, 0, 0, 0);
    return Math.sqrt(-2 * Math.log(1 - unit(a))) * Math.cos(2 * Math.PI * unit(b));
  };
}
