/** One branch of a certified run, followed without its model: the chain state after each outcome, and the forks passed on the way. */
import type { Digest } from '../run/ids.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { Outcome } from '../run/outcome.ts';
import { listVotes } from './certificate.ts';
import type { Chain } from './chain-state.ts';
import type { Decided } from './decided.ts';
import type { Gathered } from './gather.ts';
import { replay, withoutModel } from './replay.ts';

/** What an outcome led to. */
export interface Stop {
  readonly chain: Chain;
  /** What led there; undefined in round 0. */
  readonly outcome: Outcome | undefined;
  /** A quorum of commits for it. */
  readonly votes: ListedVotes | null;
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
  let before: { readonly decided: Decided; readonly chain: Chain } | undefined;
  let tip: Stop = { chain: withoutModel(start), outcome: undefined, votes: null };
  for (;;) {
    const { done, value } = playing.next();
    const chain = done ? value.state : value.before;
    // an outcome that cannot be leads nowhere
    if (before?.decided.certificate.digest === chain.parent) {
      const { certificate, outcome } = before.decided;
      const place = { ...certificate, ctx: certificate.committee.ctx };
      const votes = listVotes(before.chain.ledger, place, certificate.commits);
      tip = { chain, outcome, votes };
    }
    stops.set(tip.chain.parent, tip);
    if (done) return { stops, tip, forks };
    const { decided } = value;
    before = decided && { decided, chain: value.before };
    const followed = decided?.certificate.digest;
    if (followed === undefined) continue;
    forks.push(...value.forks.map((other) => ({ round: value.round, followed, other })));
  }
}
