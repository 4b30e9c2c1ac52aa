/**
 * T-21: members recompute drawn contributions automatically; whom a quorum finds at fault is ejected, and a single
 * member's verdict ejects no one.
 */

import { replayRun } from 'nostrain/certified';
import { toProtocolMessage } from 'nostrain/certified/parts';
import { nativeCrypto } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { featureSet, type RunSpec } from 'nostrain/run';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { JURY_ROUNDS } from '../../src/run/spec/feature-fields.ts';
import {
  foundersOf,
  generateRun,
  certifiedSpec as madeSpec,
  type Round,
  signerOf,
} from '../support/certified-run.ts';
import { certifiedSpec } from '../support/certified-swarm.ts';
import { type Ended, elsewhere, noisy, playRerun, readRerun } from '../support/rerun.ts';
import { keyOf } from '../support/swarm.ts';

let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());

const specOf = (rounds: number, founders: number, jury = 2): RunSpec =>
  certifiedSpec({
    founders: Array.from({ length: founders }, (_, i) => i),
    rounds,
    training: {
      ...{ model: 'mlp', hidden: [8], packing: 'int8', owners: 0 },
      residual: 'feedback',
    },
    document: { jury, rerun: { permille: 1000, relays: [relay.url] } },
  });

const rosterOf = ({ state }: Ended): readonly string[] =>
  state.head.ledger.members.map(({ key }) => key);

/** The notices of a member about checks. */
const noticesOf = ({ events }: Ended): string =>
  events.flatMap((event) => (event.type === 'notice' ? [event.message] : [])).join('\n');

const faultsIn = ({ state }: Ended): readonly string[] =>
  state.rounds.flatMap(({ certified }) => certified?.faults ?? []);

describe('T-21: cheats among members that check automatically', { timeout: 120_000 }, () => {
  let spec: RunSpec;
  let ended: readonly Ended[];
  beforeAll(async () => {
    spec = specOf(16, 5);
    ended = await playRerun(spec, relay.url, 5, { 3: elsewhere(spec), 4: noisy });
  }, 120_000);

  it('are ejected from the run, and no one else is', () => {
    for (const honest of [0, 1, 2]) {
      expect(rosterOf(ended[honest]!)).toEqual([0, 1, 2].map(keyOf).sort());
      expect([...faultsIn(ended[honest]!)].sort()).toEqual([3, 4].map(keyOf).sort());
    }
    expect(noticesOf(ended[0]!)).toContain('MISMATCH');
    const told = ended[0]!.events.flatMap((event) => (event.type === 'fault' ? [event] : []));
    expect(told.map(({ worker, kind }) => [worker, kind]).sort()).toEqual(
      [3, 4].map((index) => [keyOf(index), 'failed-check']).sort(),
    );
  });

  it('lose their contributions from the outcome on that lists the proof', () => {
    for (const cheat of [3, 4].map(keyOf)) {
      const { rounds } = ended[0]!.state;
      const out = rounds.findIndex(({ certified }) => certified?.faults.includes(cheat));
      expect(rounds[out - 1]!.accepted).toContain(cheat);
      for (const { accepted } of rounds.slice(out)) expect(accepted).not.toContain(cheat);
    }
  });

  it('are ejected by a replay too', async () => {
    const { archive } = await readRerun(spec, relay.url);
    const report = await replayRun(archive, { spec, crypto: nativeCrypto });
    expect(report).toMatchObject({ ok: true, rounds: 16 });
    const found = report.lines.flatMap(({ faults = [] }) => faults);
    expect(found.map(({ worker, kind }) => [worker, kind]).sort()).toEqual(
      [3, 4].map((index) => [keyOf(index), 'failed-check']).sort(),
    );
  });
});

describe('T-21: what an outcome may list', () => {
  const rulesOf = (founders: number): RunSpec =>
    madeSpec({
      founders: foundersOf(founders),
      jury: 2,
      rerun: { permille: 1000, relays: ['wss://relay.example'] },
    });
  const rules = rulesOf(5);
  const play = (convicted: NonNullable<Round['convicted']>, last: Round = {}) =>
    generateRun([{}, {}, {}, { absent: [5], ...last, convicted }, {}], rules);
  const rosterAfter = (run: ReturnType<typeof play>) => run.state.ledger.members.length;

  it('verdicts of a quorum of the next round’s committee', async () => {
    const run = play({ culprit: 5, checked: 0, by: [1, 2, 3, 4] });
    expect(rosterAfter(run)).toBe(4);
    expect(run.state.ledger.faulted).toEqual([signerOf(5).publicKey]);
    const report = await replayRun({ events: run.events, beacons: [] }, { spec: rules });
    expect(report).toMatchObject({ ok: true, rounds: 5 });
    // as for equivocators, their statements about themselves do not count
    const silent = generateRun([{}, {}, {}, { absent: [5] }, { absent: [5] }], rules);
    expect(run.rounds.map(({ modelRoot }) => modelRoot)).toEqual(
      silent.rounds.map(({ modelRoot }) => modelRoot),
    );
  });

  it.each([
    ['of fewer', { culprit: 5, checked: 0, by: [1, 2, 3] }, {}, /not enough/],
    ['of one member', { culprit: 5, checked: 0, by: [1, 1] }, {}, /event/],
    ['of strangers', { culprit: 5, checked: 0, by: [1, 6, 7, 8, 9, 10] }, {}, /not enough/],
    ['not signed', { culprit: 5, checked: 0, by: [1, 2, 3], forged: [4] }, {}, /not enough/],
    ['of the accused', { culprit: 5, checked: 0, by: [1, 2, 3, 5] }, {}, /event/],
    ['of a round to come', { culprit: 5, checked: 3, by: [1, 2, 3, 4] }, {}, /not enough/],
    [
      'and the contribution of the key it ejects',
      { culprit: 5, checked: 0, by: [1, 2, 3, 4] },
      { absent: [] },
      /is ejected/,
    ],
  ] as const)('not those %s', (_, convicted, last, why) => {
    expect(() => play(convicted, last)).toThrow(why);
  });

  it('not those of a round whose committee is no longer known', () => {
    const rounds = Array.from({ length: JURY_ROUNDS + 2 }, (): Round => ({}));
    const convicted = { culprit: 5, checked: 0, by: [1, 2, 3, 4] };
    const long = madeSpec({ ...rules, training: { ...rules.training, rounds: 20 } });
    expect(generateRun([...rounds.slice(1), { absent: [5], convicted }], long).state.round).toBe(
      JURY_ROUNDS + 2,
    );
    expect(() => generateRun([...rounds, { absent: [5], convicted }], long)).toThrow(/not enough/);
  });

  it('not those of the jurors who stay when others have left: the quorum is of the committee as it sat', () => {
    const convicted = { culprit: 6, checked: 0, by: [3, 4, 5] };
    const afterLeaving = () =>
      generateRun([{}, {}, { leaves: [1, 2] }, { absent: [6], convicted }], rulesOf(6));
    expect(afterLeaving).toThrow(/not enough/);
    const { state } = generateRun([{}, {}, { leaves: [1, 2] }], rules);
    expect(state.ledger.features.jury?.left.map(([key]) => key)).toEqual(
      [1, 2].map((index) => signerOf(index).publicKey).sort(),
    );
    // committees of that size are forgotten at the same time as those of members that stay
    const later = Array.from({ length: JURY_ROUNDS }, (): Round => ({}));
    const ended = generateRun([{}, {}, { leaves: [1, 2] }, ...later], {
      ...rules,
      training: { ...rules.training, rounds: 20 },
    });
    expect(ended.state.ledger.features.jury?.left).toEqual([]);
  });
  it('none in a run without a jury: verdicts have no meaning there', () => {
    const { run, events } = play({ culprit: 5, checked: 0, by: [1, 2, 3, 4] });
    const proof = events.find(({ kind }) => kind === 7817)!;
    const heard = (names: readonly string[]) =>
      toProtocolMessage(proof, run, nativeCrypto, undefined, featureSet(names))?.type;
    expect(heard(['jury', 'rerun'])).toBe('fault');
    expect(heard(['rerun'])).toBe('unreadable');
  });
});

describe('T-21: members that lie about checks', { timeout: 120_000 }, () => {
  it('cannot eject anyone alone', { timeout: 180_000 }, async () => {
    const spec = specOf(8, 4, 3);
    const ended = await playRerun(spec, relay.url, 4, {}, { lying: [3] });
    expect(rosterOf(ended[0]!)).toEqual([0, 1, 2, 3].map(keyOf).sort());
    expect(noticesOf(ended[3]!)).toContain('MISMATCH');
    expect(noticesOf(ended[0]!)).not.toContain('MISMATCH');
    expect(noticesOf(ended[0]!)).toContain('the same bits');
  });
});

describe('T-21: checks that take longer than a round', { timeout: 120_000 }, () => {
  it('are made once per member', { timeout: 180_000 }, async () => {
    const spec = specOf(8, 3, 1);
    const ended = await playRerun(spec, relay.url, 3, {}, { checkMs: 800 });
    for (const { checked } of ended) expect(new Set(checked).size).toBe(checked.length);
    expect(ended.flatMap(({ checked }) => checked).length).toBeGreaterThan(1);
  });
});
