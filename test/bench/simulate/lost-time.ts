/**
 * Where the time of simulated workers goes, and what ideal ones would bring under the same kills: they lose no step, choose the phases that end
 * in time, and their rounds all last as long and are decided at once.
 */
import type { VirtualClock } from './virtual-clock.ts';

/** What a worker is doing. */
type Doing = 'away' | 'returning' | 'training' | 'waiting' | 'over';

interface Range {
  readonly doing: Doing;
  readonly round: number;
  readonly fromMs: number;
  toMs: number;
}

interface Row {
  readonly round: number;
  readonly worker: number;
  readonly late: boolean;
}

/** Shares of all time of all workers. */
export interface LostTime {
  /** Killed, and not started again yet. */
  readonly away: number;
  /** From the start of the process until it trains or waits for the round's end: connections, state, what others decided. */
  readonly returning: number;
  /** Inner phases whose contribution its own round counted. */
  readonly counted: number;
  /** Inner phases whose contribution the next round counted. */
  readonly countedLate: number;
  /** Inner phases that no round counted. */
  readonly lost: number;
  /** After the own contribution, for the round to end. */
  readonly waiting: number;
  /** Without a phase in the round, for it to end. */
  readonly idle: number;
}

/** What one worker did in a round in which it was killed; seconds. */
export interface KilledRound {
  readonly worker: number;
  readonly round: number;
  readonly away: number;
  readonly returning: number;
  readonly training: number;
  readonly waiting: number;
  readonly counted: 'in time' | 'late' | 'no';
}

export class TimeBook {
  readonly #clock: VirtualClock;
  readonly #intervals = new Map<number, Range[]>();
  readonly #rows = new Map<string, boolean>();

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  /** From now on a worker is doing this, in the round it plays. */
  is(worker: number, doing: Doing, round?: number): void {
    const all = this.#intervals.get(worker) ?? [];
    const last = all.at(-1);
    const now = this.#clock.now();
    if (last) last.toMs = now;
    const interval = { doing, round: round ?? last?.round ?? 0, fromMs: now, toMs: now };
    this.#intervals.set(worker, all);
    all.push(interval);
  }

  /** How many workers do what now. */
  doing(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const all of this.#intervals.values()) {
      const { doing, round } = all.at(-1)!;
      const name = `${doing} ${round}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }

  /** An outcome counts this. */
  row({ worker, round, late }: Row): void {
    this.#rows.set(`${worker} ${late ? round - 1 : round}`, late);
  }

  #ending(worker: number, round: number): KilledRound['counted'] {
    const late = this.#rows.get(`${worker} ${round}`);
    return late === undefined ? 'no' : late ? 'late' : 'in time';
  }

  /** Until a moment, from the beginning. */
  shares(endMs: number): LostTime {
    const sums = {
      away: 0,
      returning: 0,
      counted: 0,
      countedLate: 0,
      lost: 0,
      waiting: 0,
      idle: 0,
    };
    let whole = 0;
    for (const [worker, all] of this.#intervals) {
      for (const { doing, round, fromMs, toMs } of all) {
        const ms = Math.max(0, Math.min(endMs, toMs) - Math.min(endMs, fromMs));
        whole += ms;
        const ending = this.#ending(worker, round);
        if (doing === 'training')
          sums[ending === 'no' ? 'lost' : ending === 'late' ? 'countedLate' : 'counted'] += ms;
        else if (doing === 'waiting') {
          const hasTrained = all.some((each) => each.doing === 'training' && each.round === round);
          sums[hasTrained ? 'waiting' : 'idle'] += ms;
        } else if (doing !== 'over') sums[doing] += ms;
      }
    }
    return Object.fromEntries(
      Object.entries(sums).map(([name, ms]) => [name, ms / whole]),
    ) as unknown as LostTime;
  }

  /** Each round of each worker that was away in it. */
  killed(): readonly KilledRound[] {
    return [...this.#intervals].flatMap(([worker, all]) => {
      const rounds = new Set(all.filter(({ doing }) => doing === 'away').map(({ round }) => round));
      return [...rounds].map((round) => {
        const of = (doing: Doing) =>
          all
            .filter((each) => each.doing === doing && each.round === round)
            .reduce((sum, { fromMs, toMs }) => sum + (toMs - fromMs) / 1000, 0);
        return {
          ...{ worker, round, away: of('away'), returning: of('returning') },
          ...{ training: of('training'), waiting: of('waiting') },
          counted: this.#ending(worker, round),
        };
      });
    });
  }
}

export interface Kill {
  /** Seconds after the first worker ended the round before. */
  readonly at: number;
  readonly back: number;
}

export interface IdealOptions {
  readonly workers: number;
  readonly rounds: number;
  /** Whether the next round counts what is late. */
  readonly defers: boolean;
  killOf(worker: number, round: number): Kill | undefined;
  trainSeconds(worker: number, round: number): number;
}

/** Contributions an hour of ideal workers in rounds of so many seconds. */
export function idealGoodput(options: IdealOptions, seconds: number): number {
  const { workers, rounds, defers, killOf, trainSeconds } = options;
  let counted = 0;
  for (let worker = 0; worker < workers; worker++) {
    const away: Kill[] = [];
    for (let round = 0; round < rounds; round++) {
      const end = (round + 1) * seconds;
      const kill = killOf(worker, round);
      if (!kill || away.some(({ at, back }) => at <= end && end < back)) continue;
      away.push({ at: end + kill.at, back: end + kill.back });
    }
    away.sort((a, b) => a.at - b.at);
    const most = (round: number, free: number): number => {
      if (round === rounds) return 0;
      const without = most(round + 1, free);
      const from = Math.max(free, round * seconds);
      const end = endOf(from, trainSeconds(worker, round), away);
      const last = defers && round + 1 < rounds ? round + 2 : round + 1;
      return end > last * seconds ? without : Math.max(without, 1 + most(round + 1, end));
    };
    counted += most(0, 0);
  }
  return (3600 * counted) / (rounds * seconds);
}

/** When so many seconds of work are done. */
function endOf(from: number, work: number, away: readonly Kill[]): number {
  let [now, left] = [from, work];
  for (const { at, back } of away) {
    if (back <= now) continue;
    if (at > now && at - now >= left) return now + left;
    left -= Math.max(0, at - now);
    now = back;
  }
  return now + left;
}
