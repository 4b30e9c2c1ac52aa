/** What a replay reports of each round, what a record keeps, and the exact sentences of an explanation. */
import { explainRound, type ReplayOptions, replayRun as replayWith } from 'nostrain/certified';
import {
  explain,
  gather,
  genesisOf,
  type ReplayedRound,
  replay,
  startOf,
} from 'nostrain/certified/parts';
import { proposal as proposalKind, run as runKind } from 'nostrain/kinds';
import { apartIn, type SignedEvent } from 'nostrain/network';
import { nativeCrypto as crypto } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import { explainWorkers } from '../../src/certified/records/explain.ts';
import { recordRun } from '../../src/certified/records/replay-run.ts';
import { runRoot } from '../../src/consensus/roots.ts';
import {
  certifiedSpec,
  foundersOf,
  type GeneratedRun,
  generateRun,
  signerOf,
} from '../support/certified-run.ts';
import { eventfulEvidence, eventfulRun, largeRun, runOnce } from '../support/eventful-run.ts';

const keyOf = (number: number) => signerOf(number).publicKey;
const archiveOf = (events: readonly SignedEvent[]) => ({ events, beacons: [] });
type Archive = Parameters<typeof replayWith>[0];
const replayRun = (archive: Archive, options: ReplayOptions = {}) =>
  replayWith(archive, { crypto, ...options });
const made = eventfulRun();
const whole = archiveOf(made.events);
const found = eventfulEvidence();
const digests = made.rounds.map(({ digest }) => digest);

const isManifest = ({ kind, pubkey, content }: SignedEvent, number: number, round: number) =>
  kind === 7810 && pubkey === keyOf(number) && content.includes(`"round":${round},`);
const manifestOf = (number: number, round: number) =>
  made.events.find((event) => isManifest(event, number, round))!;
/** The run without what worker 1 sent in round 2: the model is lost from there on. */
const lossy = archiveOf(made.events.filter((event) => !isManifest(event, 1, 2)));

function roundsOf({ spec, run, events }: GeneratedRun) {
  const gathered = gather(events, { run, spec }, { crypto });
  return { gathered, rounds: [...replay(genesisOf(spec, startOf(spec)), gathered)] };
}

describe('the report of a replay', () => {
  it('has a line for each round: who decided it, and what counted', async () => {
    const report = await replayRun(whole);
    expect(report).toMatchObject({
      ...{ ok: true, isTrusted: true, run: made.run, rounds: 7, firstBad: null, bad: [] },
      ...{ believed: 0, runRoot: runRoot(digests) },
      ...{ modelRoot: made.state.modelRoot, ledgerRoot: made.state.ledgerRoot },
    });
    const all = foundersOf(4);
    const { digest: outcome, modelRoot, ledgerRoot } = made.rounds[0]!;
    expect(report.lines[0]).toEqual({
      ...{ round: 0, checked: 'full', result: 'final', outcome, attempt: 0, view: 0 },
      accepted: all.map((worker) => ({ worker, late: false })),
      ...{ rejected: [], signers: 4, seats: 4, joined: all, left: [], faults: [], forks: [] },
      ...{ modelRoot, ledgerRoot },
    });
    const line = (round: number) => report.lines[round]!;
    expect(line(1).joined).toEqual([keyOf(5)]);
    expect(line(2).accepted).toContainEqual({ worker: keyOf(4), late: true });
    expect(line(3)).toMatchObject({ result: 'void', view: 4, accepted: [] });
    expect(line(2)).toMatchObject({ signers: line(2).seats! - 1 });
    expect(line(4).rejected).toEqual([{ worker: keyOf(5), reason: 'base-mismatch' }]);
    expect(line(5).faults).toEqual([{ worker: keyOf(3), kind: expect.any(String) }]);
    expect(line(6).left).toEqual([keyOf(4)]);
  });

  it('calls with each round and with each state that has its model', async () => {
    const calls = async (archive: typeof whole) => {
      const [rounds, states, models]: number[][] = [[], [], []];
      await replayRun(archive, {
        onRound: ({ round }) => rounds!.push(round),
        onState: ({ round }) => states!.push(round),
        onModel: (_, { values }) => models!.push(values.length),
      });
      return { rounds, states, models: models!.length };
    };
    const rounds = [0, 1, 2, 3, 4, 5, 6];
    expect(await calls(whole)).toEqual({ rounds, states: [...rounds, 7], models: 1 });
    expect(await calls(lossy)).toEqual({ rounds, states: [0, 1, 2], models: 0 });
  });

  it('does not succeed without a payload, and names what is missing', async () => {
    const report = await replayRun(lossy);
    expect(report).toMatchObject({ ok: false, rounds: 7, firstBad: null });
    expect(report.lines[2]).toMatchObject({
      checked: 'chain',
      missing: [`event ${manifestOf(1, 2).id}`],
    });
    expect(report.lines[3]).not.toHaveProperty('missing');
    expect(report.lines[3]).not.toHaveProperty('problem');
  });

  it('names at most five of the missing payloads', async () => {
    const run = runOnce('seven', () =>
      generateRun([{}], certifiedSpec({ founders: foundersOf(7) })),
    );
    const events = run.events.filter(({ kind }) => kind !== 7810);
    const { lines } = await replayRun(archiveOf(events));
    expect(lines[0]!.missing).toHaveLength(5);
  });

  it('names the first round that is wrong, by broken lines or by what they lack', async () => {
    const broken = (round?: number) => ({
      line: 3,
      reason: 'x',
      ...(round !== undefined && { round }),
    });
    const firstBad = async (archive: typeof whole, ...bad: readonly object[]) => {
      const report = await replayRun({ ...archive, bad: bad as never });
      expect(report).toMatchObject({ ok: false, bad });
      return report.firstBad;
    };
    expect(await firstBad(whole, broken())).toBeNull();
    expect(await firstBad(whole, broken(5), broken(4))).toBe(4);
    expect(await firstBad(lossy, broken())).toBe(2);
    expect(await firstBad(lossy, broken(5))).toBe(2);
    expect(await firstBad(lossy, broken(1))).toBe(1);
  });

  it('finds the round of a broken chunk by the manifest or the proposal that names its root', async () => {
    const { manifest } = found.message(manifestOf(2, 4).id) as never as {
      manifest: { root: string };
    };
    const roundsOfBad = async (
      archive: typeof whole,
      roots: readonly string[],
      more: object = {},
    ) => {
      const bad = roots.map((root, line) => ({ line, reason: 'x', root, ...more }));
      return (await replayRun({ ...archive, bad })).bad.map(({ round }) => round);
    };
    const unknown = 'a'.repeat(64);
    expect(await roundsOfBad(whole, [manifest.root, unknown])).toEqual([4, undefined]);
    expect(await roundsOfBad(whole, [manifest.root], { round: 1 })).toEqual([1]);
    const large = largeRun();
    const proposal = large.events.find(
      (event) => event.kind === proposalKind.kind && apartIn(event),
    )!;
    const { root } = apartIn(proposal)!;
    expect(await roundsOfBad(archiveOf(large.events), [root, unknown])).toEqual([1, undefined]);
  });

  it('ends with the problem of an outcome that is not what its events give', async () => {
    const forged = runOnce('forged', () =>
      generateRun([{}, {}, { forgeModelRoot: true }], certifiedSpec()),
    );
    const report = await replayRun(archiveOf(forged.events));
    expect(report).toMatchObject({ ok: false, rounds: 2, firstBad: 2 });
    expect(report.lines[2]!.problem).toMatch(/^wrong-modelRoot: /);
    expect(report.runRoot).toBe(runRoot(forged.rounds.slice(0, 2).map(({ digest }) => digest)));
  });

  it('does not succeed if a decided round lacks its votes', async () => {
    const votes = made.events.filter(
      ({ kind, content }) =>
        !(content.includes('"commit"') && content.includes('"round":4,')) &&
        !(kind === proposalKind.kind && content.includes('"round":5,')),
    );
    const report = await replayRun(archiveOf(votes));
    expect(report).toMatchObject({ ok: false, rounds: 4, firstBad: null });
    const missing = ['event a quorum of commits of round 5'];
    expect(report.lines.at(-1)).toEqual({ round: 4, checked: 'nothing', missing });
  });

  it('has no root before the first round', async () => {
    const [announced] = made.events;
    expect(announced!.kind).toBe(runKind.kind);
    const report = await replayRun(archiveOf([announced!]));
    expect(report).toMatchObject({ rounds: 0, runRoot: null, lines: [], firstBad: null });
  });

  it('follows a trusted outcome, or the chosen branch, and fails without the trusted one', async () => {
    const spec = certifiedSpec();
    const long = runOnce('long', () => generateRun([{}, {}, {}], spec));
    const short = runOnce('short', () => generateRun([{}, { ignored: [1] }], spec));
    const both = archiveOf([...short.events, ...long.events]);
    const [other] = short.rounds.slice(1);
    const better = await replayRun(both);
    expect(better).toMatchObject({ ok: true, isTrusted: true, rounds: 3 });
    expect(better.lines[1]!.forks).toEqual([other!.digest]);
    const through = await replayRun(both, { through: other!.digest });
    expect(through.lines.at(-1)).toMatchObject({ outcome: other!.digest, round: 1 });
    const trusted = await replayRun(both, {
      trust: other!.digest,
      through: long.rounds[1]!.digest,
    });
    expect(trusted).toMatchObject({ ok: true, isTrusted: true, rounds: 2 });
    expect(await replayRun(both, { trust: long.run })).toMatchObject({ isTrusted: true, ok: true });
    const unknown = await replayRun(both, { trust: 'e'.repeat(64) });
    expect(unknown).toMatchObject({ ok: false, isTrusted: false, rounds: 3 });
  });
});

describe('the record of a run', () => {
  async function recorded(archive: typeof whole, every: number) {
    const stored: number[] = [];
    let waiting = 0;
    const { record, report } = await recordRun(
      archive,
      { crypto },
      {
        every,
        async keep({ rounds, bytes, modelRoot }, state) {
          waiting += 1;
          expect(state).toHaveLength(bytes);
          expect(modelRoot).toBe(made.rounds[rounds - 1]!.modelRoot);
          await Promise.resolve();
          waiting -= 1;
          stored.push(rounds);
        },
      },
    );
    expect(waiting).toBe(0);
    expect(record.states.map(({ rounds }) => rounds)).toEqual(stored);
    expect(record.states.every((state) => !('ring' in state))).toBe(true);
    return { record, report, stored };
  }

  it.each([
    [0, [7]],
    [1, [1, 2, 3, 4, 5, 6, 7]],
    [3, [3, 6, 7]],
    [7, [7]],
    [8, [7]],
  ])('has the state after every %i rounds and the last one', async (every, rounds) => {
    const { stored, record, report } = await recorded(whole, every);
    expect(stored).toEqual(rounds);
    const { run, modelRoot, ledgerRoot } = report;
    expect(record).toMatchObject({ run, rounds: 7, modelRoot, ledgerRoot });
    expect(record.runRoot).toBe(runRoot(digests));
  });

  it('has no state that could not be recomputed', async () => {
    expect((await recorded(lossy, 1)).stored).toEqual([1, 2]);
    expect((await recorded(lossy, 0)).stored).toEqual([]);
  });

  it('of no round has zeros as its root, and tells of each state', async () => {
    const states: number[] = [];
    const keep = async () => undefined;
    const options = { crypto, onState: ({ round }: { round: number }) => states.push(round) };
    const { record } = await recordRun(archiveOf([made.events[0]!]), options, { every: 1, keep });
    expect(record).toMatchObject({ rounds: 0, runRoot: '0'.repeat(64), states: [{ rounds: 0 }] });
    expect(states).toEqual([0]);
  });
});

describe('an explanation', () => {
  const { rounds } = roundsOf(made);
  const told = (number: number, round: number, events = found, of = rounds[round]!) =>
    explain(keyOf(number), of, rounds[round + 1], events);
  const by = (round: number) => `outcome ${digests[round]} of round ${round + 1}`;
  const name = (number: number, round: number) => `Manifest ${manifestOf(number, round).id}`;
  const listed = (number: number, round: number) =>
    `lists manifest ${manifestOf(number, round).id}`;
  const joinsOf = (number: number) =>
    [...found.messages.values()].filter(
      ({ type, key }) => type === 'join' && key === keyOf(number),
    );
  const of = (number: number, round: number) =>
    rounds[round]!.before.ledger.members.findIndex(({ key }) => key === keyOf(number));
  const votesIn = (round: number) => rounds[round]!.decided!.certificate.commits;
  /** The round, with other votes. */
  const revoted = (round: number, change: (vote: object, i: number) => object): ReplayedRound => {
    const { decided, ...rest } = rounds[round]!;
    const commits = decided!.certificate.commits.map(change) as never;
    return { ...rest, decided: { ...decided!, certificate: { ...decided!.certificate, commits } } };
  };

  it('says by which outcome a contribution counted', () => {
    for (const number of [1, 2, 3, 4]) {
      expect(told(number, 0)).toEqual({
        counted: true,
        why: [`Counted: ${by(0)} ${listed(number, 0)}.`],
      });
    }
    expect(told(4, 1)).toEqual({ counted: true, why: [`Counted late: ${by(2)} ${listed(4, 1)}.`] });
    // what is late in this round counted in the one before
    expect(told(4, 2).why).toEqual([`Counted: ${by(2)} ${listed(4, 2)}.`]);
  });

  it('says why a contribution was rejected, and tells strangers how they asked', () => {
    expect(told(5, 4).why).toEqual([`Rejected: ${by(4)} ${listed(5, 4)} as base-mismatch.`]);
    const [join] = joinsOf(5);
    expect(told(5, 1).why).toEqual([
      'Not in the roster of round 2.',
      `It asked to join by ${join!.id}.`,
    ]);
    expect(told(9, 4).why).toEqual([
      'Not in the roster of round 5.',
      'These events have no join of this worker.',
    ]);
  });

  it('says whose votes saw a valid manifest that is not listed', () => {
    const { proposer } = made.rounds[5]!;
    const ids = votesIn(5).map(({ id }) => id);
    const unlisted = `Not listed by ${proposer}, who proposed ${by(5)}; `;
    const inTime = (votes: readonly string[]) =>
      `${unlisted}it arrived in time according to the votes ${votes.join(', ')}.`;
    expect(told(2, 5).why).toEqual([`${name(2, 5)} is valid.`, inTime(ids)]);
    const one = revoted(5, (vote, i) => ({ ...vote, unlisted: i === 0 ? [of(2, 5)] : [99] }));
    expect(told(2, 5, found, one).why[1]).toBe(inTime(ids.slice(0, 1)));
    const none = revoted(5, (vote) => ({ ...vote, unlisted: [] }));
    expect(told(2, 5, found, none).why[1]).toBe(
      `${unlisted}no vote of its certificate says that it arrived in time.`,
    );
    const screened = revoted(5, (vote, i) => ({
      ...vote,
      unlisted: [],
      features: i > 1 ? {} : { screening: { screened: [i === 0 ? of(2, 5) : 99] } },
    }));
    expect(told(2, 5, found, screened).why.slice(1, -1)).toEqual([
      `Screened: 1 of the ${ids.length} votes of its certificate say that it is harmful by their ` +
        `own measurements of the loss: ${ids[0]}.`,
    ]);
  });

  it('judges again what the events have of a manifest', () => {
    const first = (events: typeof found) => told(2, 5, events).why[0];
    expect(first({ ...found, payload: () => undefined })).toBe(
      `${name(2, 5)} is available, but its payload is not.`,
    );
    expect(first({ ...found, payload: () => Uint8Array.of(1) })).toMatch(
      new RegExp(`^${name(2, 5)} does not count \\(`),
    );
    const { before, ...rest } = rounds[5]!;
    const { params: _, ...bare } = before as never as { readonly params: unknown };
    const without = { ...rest, before: bare as typeof before };
    expect(told(2, 5, found, without).why[0]).toBe(
      `${name(2, 5)} is available, but cannot be judged without the model.`,
    );
  });

  it('says that nothing arrived, that the round was void, or that it is not decided', () => {
    const absent = runOnce('absent', () =>
      generateRun([{}, { absent: [4] }, { result: 'void', elsewhere: [2] }]),
    );
    const played = roundsOf(absent);
    const why = (number: number, round: number) =>
      explain(keyOf(number), played.rounds[round]!, undefined, played.gathered).why;
    const outcome = (round: number) => absent.rounds[round]!.digest;
    expect(why(4, 1)).toEqual([
      'Not counted: nothing from this worker arrived for round 2.',
      `The round was decided by outcome ${outcome(1)} of round 2, which lists no manifest of this worker.`,
    ]);
    const voided = `The round ended void (${outcome(2)}): nothing was counted.`;
    expect(why(1, 2)).toEqual([voided, expect.stringMatching(/^Manifest .* is valid\.$/)]);
    expect(why(2, 2)).toEqual([
      voided,
      expect.stringMatching(/^Manifest .* does not count \(base-mismatch\): .*\.$/),
    ]);
    const undecided = { ...rounds[4]!, decided: undefined };
    expect(told(1, 4, found, undecided)).toEqual({
      counted: false,
      why: ['These events do not decide round 5.'],
    });
    const next = { ...rounds[2]!, decided: undefined };
    expect(explain(keyOf(4), rounds[1]!, next, found).counted).toBe(false);
  });

  it('is found in an archive by worker and round', async () => {
    const explained = (number: number, round: number) =>
      explainRound(whole, { crypto, worker: keyOf(number), round });
    expect(await explained(4, 1)).toEqual(told(4, 1));
    expect(await explained(5, 4)).toEqual(told(5, 4));
    expect(await explained(4, 6)).toEqual(told(4, 6));
    expect(await explained(1, 7)).toBeUndefined();
    const all = await explainWorkers(whole, { crypto, round: 1 });
    const { members } = rounds[1]!.before.ledger;
    expect(all!.map(({ worker }) => worker)).toEqual(members.map(({ key }) => key));
    expect(all!.find(({ worker }) => worker === keyOf(4))).toEqual({
      worker: keyOf(4),
      ...told(4, 1),
    });
    expect(await explainWorkers(whole, { crypto, round: 7 })).toBeUndefined();
  });
});

describe('the run in an archive', () => {
  const other = runOnce('other', () => generateRun([], certifiedSpec({ name: 'another' })));
  const two = archiveOf([...made.events, ...other.events]);

  it('is the only one, or the one that is named', async () => {
    await expect(replayRun(two)).rejects.toMatchObject({ code: 'flag/run' });
    expect(await replayRun(two, { run: other.run })).toMatchObject({ run: other.run, rounds: 0 });
    expect(await replayRun(two, { spec: made.spec })).toMatchObject({ run: made.run, rounds: 7 });
    await expect(replayRun(whole, { run: other.run })).rejects.toMatchObject({
      code: 'run/not-found',
    });
  });

  it('needs a spec, in an event or given', async () => {
    const events = made.events.filter(({ kind }) => kind !== runKind.kind);
    const broken = { ...archiveOf(events), bad: [{ line: 1, reason: 'not JSON' }] };
    await expect(replayRun(archiveOf(events))).rejects.toThrow(/the file has no run spec$/);
    await expect(replayRun(broken)).rejects.toThrow('line 1 is not an event: not JSON');
    const report = await replayRun(archiveOf(events), { spec: made.spec });
    expect(report).toMatchObject({ ok: true, rounds: 7 });
  });
});
