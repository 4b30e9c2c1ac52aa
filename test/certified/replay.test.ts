import fc from 'fast-check';
import {
  applyToChain,
  buildMessage,
  explain,
  gather,
  genesisOf,
  pathOf,
  type ReplayedRound,
  replay,
  startOf,
  toProposal,
  withoutModel,
} from 'nostrain/certified/parts';
import {
  chunk as chunkKind,
  memberKind,
  proposal as proposalKind,
  vote as voteKind,
} from 'nostrain/kinds';
import { apartIn, type SignedEvent } from 'nostrain/network';
import type { Outcome } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  certifiedSpec,
  eventful,
  foundersOf,
  type GeneratedRun,
  generateRun,
  type Round,
  signerOf,
} from '../support/certified-run.ts';

function replayed({ spec, run }: GeneratedRun, events: readonly SignedEvent[]) {
  const rounds: ReplayedRound[] = [];
  const playing = replay(genesisOf(spec, startOf(spec)), gather(events, { run, spec }));
  for (;;) {
    const next = playing.next();
    if (next.done) return { rounds, end: next.value };
    rounds.push(next.value);
  }
}

const made = generateRun();
const keyOf = (number: number) => signerOf(number).publicKey;
const wasWrong = ({ rounds }: { readonly rounds: readonly ReplayedRound[] }) =>
  rounds.find(({ invalid }) => invalid !== undefined);

const isCommit = ({ kind, content }: SignedEvent): boolean =>
  kind === voteKind.kind && content.includes('"commit"');

const inRound = ({ content }: SignedEvent, round: number): boolean =>
  content.includes(`"round":${round},`);

/** Manifests of a round by one worker. */
const isManifest = (event: SignedEvent, number: number, round: number): boolean =>
  event.kind === 7810 &&
  event.pubkey === keyOf(number) &&
  event.content.includes(`"round":${round},`);

describe('a replay', () => {
  const whole = replayed(made, made.events);

  it('recomputes the roots of every round', () => {
    expect(whole.rounds.map(({ checked }) => checked)).toEqual(made.rounds.map(() => 'full'));
    expect(whole.end.digests).toEqual(made.rounds.map(({ digest }) => digest));
    expect(whole.end.state.modelRoot).toBe(made.state.modelRoot);
    expect(whole.end.state.ledgerRoot).toBe(made.state.ledgerRoot);
  });

  it('does not depend on the order of events', () => {
    const reversed = [...made.events].reverse();
    expect(replayed(made, reversed).end.digests).toEqual(whole.end.digests);
    expect(replayed(made, [...made.events, ...reversed]).end.digests).toEqual(whole.end.digests);
  });

  it('C-01: readers of the events in other orders, some of them twice, have the same seed in every round', () => {
    const { run, spec } = made;
    const seedsOf = (events: readonly SignedEvent[]) =>
      [...pathOf(genesisOf(spec, startOf(spec)), gather(events, { run, spec })).stops.values()].map(
        ({ chain }) => chain.ledger.entropy,
      );
    const seeds = seedsOf(made.events);
    expect(new Set(seeds).size).toBe(eventful.length + 1);
    const last = made.state.ledger.entropy;
    expect(last).toMatch(/^[0-9a-f]{64}$/);
    expect(seeds.at(-1)).toBe(last);
    fc.assert(
      fc.property(
        fc.shuffledSubarray([...made.events], { minLength: made.events.length }),
        fc.subarray([...made.events]),
        (shuffled, again) => {
          expect(seedsOf([...shuffled, ...again])).toEqual(seeds);
        },
      ),
      { numRuns: 5 },
    );
  });

  it('reports the void round, the late worker, the newcomer, the leaver and the equivocator', () => {
    expect(whole.rounds.map(({ decided }) => decided?.outcome.result)).toEqual([
      ...['final', 'final', 'final', 'void', 'final', 'final', 'final'],
    ]);
    expect(whole.rounds[2]!.decided!.outcome.accepted.filter(({ late }) => late)).toHaveLength(1);
    const [voided, before] = [whole.rounds[4]!.before, whole.rounds[3]!.before];
    expect(voided.modelRoot).toBe(before.modelRoot);
    const keys = whole.end.state.ledger.members.map(({ key }) => key);
    expect(keys).toContain(keyOf(5));
    expect(keys).not.toContain(keyOf(4));
    expect(keys).not.toContain(keyOf(3));
    expect(whole.end.state.ledger.faulted).toEqual([keyOf(3)]);
  });

  it('reports what it cannot check without a payload, and continues with the chain', () => {
    const events = made.events.filter((event) => !isManifest(event, 1, 2));
    const { rounds, end } = replayed(made, events);
    expect(rounds.map(({ checked }) => checked)).toEqual([
      ...['full', 'full', 'chain', 'chain', 'chain', 'chain', 'chain'],
    ]);
    expect(rounds[2]!.missing).toHaveLength(1);
    expect(end.digests).toEqual(whole.end.digests);
  });

  it('does not need a vote event that an outcome lists', () => {
    const one = made.events.find((event) => isCommit(event) && inRound(event, 1))!;
    const { rounds, end } = replayed(
      made,
      made.events.filter((event) => event !== one),
    );
    expect(end.digests).toEqual(whole.end.digests);
    expect(rounds.map(({ checked }) => checked)).toEqual(made.rounds.map(() => 'full'));
  });

  it('succeeds without any join and leave, and with only the last commits', () => {
    const last = made.rounds.length - 1;
    const left = made.events.filter(
      (event) => event.kind !== memberKind.kind && (!isCommit(event) || inRound(event, last)),
    );
    expect(left.length).toBeLessThan(made.events.length - 20);
    const { rounds, end } = replayed(made, left);
    expect(end.digests).toEqual(whole.end.digests);
    expect(rounds.map(({ checked }) => checked)).toEqual(made.rounds.map(() => 'full'));
    expect(rounds[1]!.decided!.certificate.commits).toEqual(
      whole.rounds[1]!.decided!.certificate.commits,
    );
  });

  it('stops if a quorum of votes is lost and no later outcome lists it', () => {
    const events = made.events.filter((event) => !isCommit(event) || !inRound(event, 6));
    const { rounds } = replayed(made, events);
    expect(rounds.at(-1)).toMatchObject({ round: 5, checked: 'full' });
    const later = made.events.filter(
      (event) =>
        (!isCommit(event) || !inRound(event, 4)) &&
        (event.kind !== proposalKind.kind || !inRound(event, 5)),
    );
    expect(replayed(made, later).rounds.at(-1)).toMatchObject({ round: 4, checked: 'nothing' });
  });

  it('detects a vote or join in an outcome with a wrong signature, even if the event exists', () => {
    const events = gather(made.events, made);
    const judged = (round: number, change: (outcome: Outcome) => Outcome) => {
      const { before, decided } = whole.rounds[round]!;
      return applyToChain(withoutModel(before), change(decided!.outcome), events);
    };
    expect(judged(2, (outcome) => outcome).ok).toBe(true);
    const [first, ...rest] = whole.rounds[2]!.decided!.outcome.votes!.rows;
    const votes = (more: object) => (outcome: Outcome) => ({
      ...outcome,
      votes: { ...outcome.votes!, rows: [{ ...first!, ...more }, ...rest] },
    });
    const forged = { invalid: { code: 'bad-signature' } };
    expect(judged(2, votes({ unlisted: [3] }))).toMatchObject(forged);
    expect(judged(2, votes({ sig: rest[0]!.sig }))).toMatchObject(forged);
    expect(judged(2, votes({ createdAt: first!.createdAt - 1 }))).toMatchObject(forged);
    const join = whole.rounds[1]!.decided!.outcome.joins[0]!;
    const joins = [{ ...join, tip: 'f'.repeat(64) }];
    expect(judged(1, (outcome) => ({ ...outcome, joins }))).toMatchObject(forged);
  });

  it('recomputes every bit: a quorum that certifies a wrong model root is detected', () => {
    const forged = generateRun([{}, {}, { forgeModelRoot: true }], certifiedSpec());
    const { rounds } = replayed(forged, forged.events);
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'nothing']);
    expect(wasWrong({ rounds })).toMatchObject({ round: 2, invalid: { code: 'wrong-modelRoot' } });
  });

  it('follows a recovery epoch drawn from its view-change votes', () => {
    const run = generateRun([{}, { attempt: 1, balloting: [1, 2, 3] }, {}, {}], certifiedSpec());
    const { rounds, end } = replayed(run, run.events);
    expect(rounds[1]!.decided!.certificate).toMatchObject({ attempt: 1 });
    expect(rounds[1]!.decided!.certificate.committee.size).toBe(3);
    expect(end.state.modelRoot).toBe(run.state.modelRoot);
  });

  it('is not misled by a committee hash that does not follow from the view-change votes', () => {
    const run = generateRun([{}, { attempt: 1, balloting: [1, 2, 3] }, {}], certifiedSpec());
    const proposals = run.events.flatMap((event) => {
      const judged = toProposal(event);
      return judged?.ok ? [judged] : [];
    });
    const { value: genuine } = proposals.find(({ value }) => value.attempt === 1)!;
    const { id, key: _, ...said } = genuine;
    const mislabeled = { ...said, ballots: said.ballots.slice(1) };
    // sorted before the others by id
    let createdAt = 1_790_000_000;
    const sign = () =>
      signerOf(9).sign(buildMessage(mislabeled, { createdAt, expiresAt: 2_500_000_000 }));
    while (sign().id >= id) createdAt++;
    const { rounds, end } = replayed(run, [sign(), ...run.events]);
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    expect(end.state.modelRoot).toBe(run.state.modelRoot);
  });

  it('follows the better one of two branches and reports the fork', () => {
    const spec = certifiedSpec();
    const long = generateRun([{}, {}, {}], spec);
    const short = generateRun([{}, { ignored: [1] }], spec);
    const { rounds, end } = replayed(long, [...short.events, ...long.events]);
    expect(rounds[1]!.forks).toEqual([short.rounds[1]!.digest]);
    expect(end.digests).toEqual(long.rounds.map(({ digest }) => digest));
  });

  it('divides parameters among owners and moves them in fragments', () => {
    const training = { model: 'mlp', hidden: [100, 150], packing: 'int8', owners: 2, fragments: 2 };
    const limits = { payloadBytes: 70_000 };
    const run = generateRun([{}, { joins: [5] }, {}, {}], certifiedSpec({ training, limits }));
    const { rounds, end } = replayed(run, run.events);
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full', 'full']);
    expect(end.state.modelRoot).toBe(run.state.modelRoot);
  });

  it('reads outcomes that are larger than their events, and reports a missing chunk', () => {
    const rounds = [{ wordy: true }, { leaves: [4] }, {}];
    const run = generateRun(rounds, certifiedSpec({ founders: foundersOf(12) }));
    const large = run.events.filter((event) => apartIn(event) !== undefined);
    expect(large).toHaveLength(1);
    const { rounds: all, end } = replayed(run, run.events);
    expect(all.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    expect(end.state.modelRoot).toBe(run.state.modelRoot);
    expect(replayed(run, [...run.events].reverse()).end.digests).toEqual(end.digests);
    const chunk = run.events.find(({ kind }) => kind === chunkKind.kind);
    const lost = replayed(
      run,
      run.events.filter((event) => event !== chunk),
    );
    expect(lost.rounds.at(-1)).toMatchObject({
      ...{ round: 1, checked: 'nothing' },
      missing: [{ what: 'proposal', id: run.rounds[1]!.digest }],
    });
  });

  it('ignores proposals that no quorum committed', () => {
    const events = made.events.filter(
      ({ kind, content }) => kind !== proposalKind.kind || !content.includes('"round":6,'),
    );
    const { end, rounds } = replayed(made, events);
    expect(end.digests).toHaveLength(6);
    expect(rounds.at(-1)?.missing).toMatchObject([{ what: 'proposal' }]);
  });
});

describe('any run', () => {
  const some = fc.subarray([1, 2, 3]);
  const anyRound = fc.record({
    absent: some.filter((numbers) => numbers.length < 3),
    ignored: some.filter((numbers) => numbers.length < 3),
    silent: fc.subarray([1, 2, 3, 4], { maxLength: 1 }),
    result: fc.constantFrom('final', 'final', 'void'),
    view: fc.nat(3),
    attempt: fc.constantFrom(0, 0, 0, 1),
  }) satisfies fc.Arbitrary<Round>;

  it('replays to its original roots', () => {
    fc.assert(
      fc.property(fc.array(anyRound, { minLength: 1, maxLength: 4 }), (rounds) => {
        const run = generateRun([{}, ...rounds], certifiedSpec());
        const { end, rounds: again } = replayed(run, run.events);
        expect(again.map(({ checked }) => checked)).toEqual(run.rounds.map(() => 'full'));
        expect(end.digests).toEqual(run.rounds.map(({ digest }) => digest));
        expect(end.state.modelRoot).toBe(run.state.modelRoot);
        expect(end.state.ledgerRoot).toBe(run.state.ledgerRoot);
      }),
      { numRuns: 8 },
    );
  });
});

describe('an explanation', () => {
  const { rounds } = replayed(made, made.events);
  const found = gather(made.events, made);
  const told = (number: number, round: number) =>
    explain(keyOf(number), rounds[round]!, rounds[round + 1], found);

  it('names the outcome and the manifest that counted', () => {
    expect(told(1, 0)).toMatchObject({ counted: true });
    expect(told(1, 0).why[0]).toContain(made.rounds[0]!.digest);
  });

  it('covers late, rejected, unlisted contributions and those of strangers', () => {
    expect(told(4, 1).why[0]).toContain('Counted late');
    expect(told(5, 4).why[0]).toContain('base-mismatch');
    expect(told(2, 5).why.join()).toContain(`Not listed by ${made.rounds[5]!.proposer}`);
    expect(told(1, 3).why[0]).toContain('void');
    expect(told(5, 1).why.join()).toContain('Not in the roster of round 2');
    expect(told(9, 1).why.join()).toContain('These events have no join of this worker');
    expect(eventful).toHaveLength(rounds.length);
  });
});
