/**
 * Which checkpoints say the same: the least that speaks for one whose author nobody vouches for. Of f + 1 authors who publish
 * the same state one is honest, if at most f of them lie; that is for whoever knows the authors to judge, since keys cost nothing.
 */
import type { Digest, WorkerId } from '../../run/ids.ts';
import { stateDigest } from '../../tensor/digest.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { CheckpointEvent } from './checkpoints.ts';
import type { Kept } from './event-collector.ts';

/** One state, and who publishes it. */
export interface Agreed {
  readonly round: number;
  readonly nextRound: number;
  readonly model: Digest;
  /** Outer momentum in the sign of Δ = before - after; who resumes steps with it, so it must be the same too. */
  readonly momentum: Digest | undefined;
  /** By name; nobody who also publishes another state for the same round. */
  readonly authors: readonly WorkerId[];
  readonly checkpoints: readonly Kept<CheckpointEvent>[];
}

/** The states on offer: of the highest next round first, of one round that of most authors first. */
export function agreements(checkpoints: readonly Kept<CheckpointEvent>[]): readonly Agreed[] {
  const states = new Map<string, Kept<CheckpointEvent>[]>();
  /** Which states each author publishes for a round. */
  const claims = new Map<string, Set<string>>();
  for (const kept of checkpoints) {
    const { said, body } = kept.read;
    const momentum = body.momentum ? stateDigest(body.momentum) : '';
    const state = `${said.nextRound}:${said.round}:${said.model}:${momentum}`;
    states.set(state, [...(states.get(state) ?? []), kept]);
    const claim = `${said.nextRound}:${said.worker}`;
    claims.set(claim, (claims.get(claim) ?? new Set()).add(state));
  }
  return [...states]
    .map(([state, of]): Agreed => {
      const { round, nextRound, model } = of[0]!.read.said;
      const authors = new Set(of.map(({ read }) => read.said.worker));
      const single = [...authors].filter(
        (author) => claims.get(`${nextRound}:${author}`)!.size === 1,
      );
      const momentum = state.slice(state.lastIndexOf(':') + 1) || undefined;
      return { round, nextRound, model, momentum, authors: single.sort(), checkpoints: of };
    })
    .sort(
      (a, b) =>
        b.nextRound - a.nextRound ||
        b.authors.length - a.authors.length ||
        compareCodePoints(a.model, b.model),
    );
}

/** The newest state that at least `faults` + 1 authors publish. */
export const newestAgreed = (states: readonly Agreed[], faults: number): Agreed | undefined =>
  states.find(({ authors }) => authors.length > faults);
