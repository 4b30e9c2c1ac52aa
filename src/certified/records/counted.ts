/** What counted of one worker's work in a certified run, round by round, and why the rest did not. */
import { roundNumber, type WorkerId } from '../../run/ids.ts';
import type { CertifiedSummary } from '../rounds/events.ts';

/** Rounds of one worker in a certified run. */
export interface WorkCounted {
  /** Decided rounds of the run. */
  readonly rounds: number;
  /** Indices of the rounds that count a contribution of this worker. */
  readonly counted: readonly number[];
  /** Indices of all other rounds, by reason. */
  readonly others: ReadonlyMap<string, readonly number[]>;
}

/** Returns what counted in the first `rounds` rounds; `history` has the rounds that this worker finished. */
export function countedWork(
  history: readonly CertifiedSummary[],
  rounds: number,
  me: WorkerId,
): WorkCounted {
  const known = new Map(history.map((round) => [round.index, round]));
  const counted: number[] = [];
  const others = new Map<string, number[]>();
  for (let index = 0; index < rounds; index++) {
    const isLate = known.get(index + 1)?.certified?.late.includes(me);
    const why = isLate ? undefined : reasonOf(known.get(index), me);
    if (why === undefined) counted.push(index);
    else others.set(why, [...(others.get(why) ?? []), index]);
  }
  return { rounds, counted, others };
}

/** Returns why a round does not count the worker; undefined if it does. */
function reasonOf(round: CertifiedSummary | undefined, me: WorkerId): string | undefined {
  if (round === undefined) return 'decided before this worker took part';
  const { certified, accepted, trainingLoss } = round;
  if (certified?.result === 'void') return 'the round ended void';
  if (certified?.unused?.includes(me)) return 'the rule of the run left your work out';
  if (accepted.includes(me)) return undefined;
  const rejected = certified?.rejected.find(({ worker }) => worker === me);
  if (rejected !== undefined) return `your work was refused (${rejected.reason})`;
  return Number.isFinite(trainingLoss)
    ? 'your work arrived after the round was decided'
    : 'this worker was away';
}

/** Returns sentences that say how much of the worker's work counted; empty if all of it did. */
export function describeCounted({ rounds, counted, others }: WorkCounted): readonly string[] {
  if (others.size === 0) return [];
  const reasons = [...others].map(([why, indices]) => `${why}: ${rangesOf(indices)}`).join('; ');
  return counted.length === 0
    ? [
        `None of your work counted in this run (${reasons})`,
        'To take part, join the next run before it starts',
      ]
    : [`Your work counted in ${counted.length} of ${rounds} rounds. Not counted: ${reasons}`];
}

/** Formats ascending round indices, such as `rounds 1 to 3, 7`. */
function rangesOf(indices: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const index of indices) {
    const last = ranges.at(-1);
    if (last?.[1] === index - 1) last[1] = index;
    else ranges.push([index, index]);
  }
  const words = ranges.map(([from, to]) =>
    from === to ? `${roundNumber(from)}` : `${roundNumber(from)} to ${roundNumber(to)}`,
  );
  return `${indices.length === 1 ? 'round' : 'rounds'} ${words.join(', ')}`;
}
