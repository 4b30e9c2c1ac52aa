/** What strangers, and quorums that sign twice, can do to readers that follow a run from its events. */

import {
  applyOutcome,
  buildMessage,
  type Gathered,
  gather,
  genesisOf,
  hasModel,
  type ReplayedRound,
  replay,
  startOf,
  withoutModel,
} from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import type { Message } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  certifiedSpec,
  foundersOf,
  type GeneratedRun,
  generateRun,
  type Round,
  signerOf,
} from '../support/certified-run.ts';
import { outcomeWith } from '../support/large-bodies.ts';

const life = { createdAt: 1_790_000_000, expiresAt: 2_500_000_000 };

function replayed({ spec, run }: GeneratedRun, events: readonly SignedEvent[], count = false) {
  const rounds: ReplayedRound[] = [];
  let reads = 0;
  const gathered = gather(events, { run, spec });
  const counted: Gathered = {
    ...gathered,
    commitsAfter: (parent) => {
      reads++;
      return gathered.commitsAfter(parent);
    },
  };
  const start = genesisOf(spec, startOf(spec));
  const playing = replay(count ? withoutModel(start) : start, count ? counted : gathered);
  for (;;) {
    const next = playing.next();
    if (next.done) return { rounds, end: next.value, reads };
    rounds.push(next.value);
  }
}

describe("a stranger's votes and proposals", () => {
  const made = generateRun([{}, {}, {}], certifiedSpec());
  const { run, state } = made;
  const { digest } = made.rounds[1]!;
  const commit = (more: object): Message => ({
    ...{ type: 'vote', step: 'commit', justify: -1, unlisted: [], view: 0 },
    ...{ run, round: state.round, parent: state.parent, attempt: 1, ctx: 'a'.repeat(64) },
    ...{ digest: 'b'.repeat(64), ...more },
  });
  const proposal = (more: object): Message => ({
    ...{ type: 'proposal', step: 'prepare', justify: -1, prepares: [], ballots: [], view: 0 },
    ...{ run, round: state.round, parent: state.parent, attempt: 0, ctx: 'a'.repeat(64) },
    ...{ digest, outcome: { ...outcomeWith(0), run, round: 9 }, ...more },
  });

  test.each<[string, Message]>([
    ['a commit in a recovery epoch of the round in progress', commit({})],
    ['a commit to an outcome of the past that nobody has', commit({ round: 2, parent: digest })],
    ['a proposal of a later round', proposal({ round: 5 })],
    ['a proposal of the round in progress', proposal({})],
  ])('%s: a replay is what it was', (_, message) => {
    const event = signerOf(9).sign(buildMessage(message, life));
    const { rounds, end } = replayed(made, [...made.events, event]);
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    expect(end.digests).toEqual(made.rounds.map((each) => each.digest));
  });

  test('one member cannot make a finished replay look incomplete either', () => {
    const events = [commit({}), proposal({ round: 5 })].map((message) =>
      signerOf(4).sign(buildMessage(message, life)),
    );
    const { rounds } = replayed(made, [...made.events, ...events]);
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
  });
});

describe('a history with many forks', () => {
  /** A quorum that signs two outcomes in each round, so the number of paths doubles each round. */
  function forked(depth: number): { readonly made: GeneratedRun; readonly events: SignedEvent[] } {
    const spec = certifiedSpec({ founders: foundersOf(1), training: { rounds: 32 } });
    const events = new Map<string, SignedEvent>();
    const play = (rounds: readonly Round[]) => {
      const made = generateRun(rounds, spec);
      for (const event of made.events) events.set(event.id, event);
      return made;
    };
    const calm = (count: number): Round[] => Array.from({ length: count }, () => ({}));
    for (let at = 1; at < depth; at++) {
      play([...calm(at), { result: 'void' }, ...calm(depth - at - 1)]);
    }
    const made = play(calm(depth));
    return { made, events: [...events.values()] };
  }

  test('each outcome is judged once, however often the run forks', () => {
    const work = [4, 8].map((depth) => {
      const { made, events } = forked(depth);
      const { rounds, end, reads } = replayed(made, events, true);
      expect(end.digests).toEqual(made.rounds.map(({ digest }) => digest));
      expect(rounds.filter(({ forks }) => forks.length > 0)).toHaveLength(depth - 1);
      const outcomes = new Set(events.filter(({ kind }) => kind === 7814).map(({ id }) => id));
      // one query of commits per outcome, and one for the run id
      expect(reads).toBeLessThanOrEqual(outcomes.size + 1);
      return reads;
    });
    // quadratic in outcomes, not exponential in paths
    expect(work[1]! / work[0]!).toBeLessThan(6);
  });
});

describe('a sole founder that continues alone', () => {
  const spec = certifiedSpec({ founders: foundersOf(1), training: { rounds: 32 } });
  const start: readonly Round[] = [{}, { joins: [2] }];
  const real = generateRun([...start, {}, { joins: [3] }, {}, {}, {}, {}], spec);

  test('more void rounds of one key lose against real rounds of all members', () => {
    const voids = Array.from({ length: 9 }, (): Round => ({ result: 'void' }));
    const alone = generateRun([{}, ...voids], spec);
    expect(alone.rounds.length).toBeGreaterThan(real.rounds.length);
    const { end, rounds } = replayed(real, [...alone.events, ...real.events]);
    expect(end.digests).toEqual(real.rounds.map(({ digest }) => digest));
    expect(rounds[1]!.forks).toEqual([alone.rounds[1]!.digest]);
    const signers = new Set(
      rounds.flatMap(({ decided }) => decided!.certificate.commits.map(({ key }) => key)),
    );
    expect(signers.size).toBe(3);
  });
});

describe('an empty contribution', () => {
  const made = generateRun([{}, { joins: [5] }, { empty: [5] }, {}, {}], certifiedSpec());
  const { rounds, end } = replayed(made, made.events);
  const five = signerOf(5).publicKey;
  const seatFrom = (at: number) =>
    rounds[at]!.before.ledger.members.find(({ key }) => key === five)?.seatFrom;

  test('is accepted and marked, but earns no seat; the first other one does, two rounds later', () => {
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(5).fill('full'));
    const marked = rounds.map(({ decided }) => decided!.outcome.accepted.filter((r) => r.empty));
    expect(marked.map(({ length }) => length)).toEqual([0, 0, 1, 0, 0]);
    expect([seatFrom(2), seatFrom(3), seatFrom(4)]).toEqual([-1, -1, 5]);
    const { members } = end.state.ledger;
    expect(members.find(({ key }) => key === five)?.seatFrom).toBe(5);
  });

  test('an outcome with a wrong `empty` mark is invalid', () => {
    const events = gather(made.events, made);
    const { before, decided } = rounds[2]!;
    if (!hasModel(before)) throw new Error('no model');
    const judged = (mark: boolean) => {
      const accepted = decided!.outcome.accepted.map((row) => ({ ...row, empty: mark }));
      return applyOutcome(before, { ...decided!.outcome, accepted }, events);
    };
    expect(applyOutcome(before, decided!.outcome, events).ok).toBe(true);
    expect(judged(false)).toMatchObject({ invalid: { code: 'wrong-empty' } });
    expect(judged(true)).toMatchObject({ invalid: { code: 'wrong-empty' } });
  });
});
