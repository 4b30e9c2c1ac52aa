/** One branch of a certified run, followed without its model: where it stood after each outcome. */
import type { Digest, EventId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { Chain } from './chain-state.ts';
import type { Gathered } from './gather.ts';
import { type Decided, replay, withoutModel } from './replay.ts';

/** What an outcome led to. */
export interface Stop {
  readonly chain: Chain;
  /** What led there; undefined in round 0. */
  readonly outcome: Outcome | undefined;
  /** A quorum of commits for it. */
  readonly votes: readonly EventId[];
}

/** Two outcomes of one round that a quorum decided each. */
export interface Fork {
  readonly round: number;
  readonly followed: Digest;
  readonly other: Digest;
}

export interface Path {
  /** By the outcome before, oldest first; the run id stands for none. */
  readonly stops: ReadonlyMap<Digest, Stop>;
  readonly tip: Stop;
  readonly forks: readonly Fork[];
}

/** The branch to be on, as far as it is at hand: the one through this outcome, else the one that the fork rule prefers. */
export function pathOf(start: Chain, events: Gathered, through?: Digest): Path {
  const stops = new Map<Digest, Stop>();
  const forks: Fork[] = [];
  const playing = replay(withoutModel(start), events, through);
  let before: Decided | undefined;
  let tip: Stop = { chain: withoutModel(start), outcome: undefined, votes: [] };
  for (;;) {
    const { done, value } = playing.next();
    const chain = done ? value.state : value.before;
    // an outcome that cannot be leads nowhere
    if (before?.certificate.digest === chain.parent) {
      const votes = before.certificate.commits.map(({ id }) => id);
      tip = { chain, outcome: before.outcome, votes };
    }
    stops.set(tip.chain.parent, tip);
    if (done) return { stops, tip, forks };
    before = value.decided;
    const followed = before?.certificate.digest;
    if (followed === undefined) continue;
    forks.push(...value.forks.map((other) => ({ round: value.round, followed, other })));
  }
}
