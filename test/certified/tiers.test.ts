/**
 * A certified run with several tiers: all workers end in the same bits for the values they share, and anyone can replay
 * it.
 */

import {
  certifiedMembers,
  fromCheckpoint,
  genesisOf,
  membershipOf,
} from 'nostrain/certified/parts';
import { chooseJoins, firstLedger, modelRoot } from 'nostrain/consensus';
import { layoutOfRun } from 'nostrain/model';
import { createRelaySet, type OpenSocket, type SignedEvent, type Socket } from 'nostrain/network';
import { runIdOf } from 'nostrain/run';
import { expect, it } from 'vitest';
import { fromBase64 } from '../../src/base/bytes.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  finishedRounds,
  keyOf,
  kill,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { tieredBaseSpec, tieredSpec, tierOfModel } from '../support/tiers.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;

type SpecOf = typeof tieredSpec;
const ofBase =
  (targets: string): SpecOf =>
  (founders, more) =>
    tieredBaseSpec(founders, targets, more);

const ofOwners: SpecOf = (founders, more = {}) =>
  tieredSpec(founders, { ...more, training: { owners: 1, residual: 'none' } });

const kinds: readonly (readonly [string, SpecOf])[] = [
  ['a model of our own', tieredSpec],
  ['a model of our own whose chunks have owners', ofOwners],
  ['adapters of all layers', ofBase('all-linear')],
  // only the first slice has trained values
  ['adapters of attention', ofBase('qv')],
];

it.each(kinds)(
  '%s: tiers 0, 0, 1 and 2 end every round in the same slices; small ones have no seat; a replay finds the same',
  async (_, specOf) => {
    const { url } = relay();
    const spec = specOf([0, 1], { rounds: 4 });
    expect(spec.features).toContain('widths');
    const tiers = [0, 0, 1, 2];
    const members: CertifiedMember[] = tiers.map((tier, index) =>
      start({ index, relays: [url], spec, ...tierOfModel(spec, tier) }),
    );
    const ends = await Promise.all(members.map(({ finished }) => finished));
    expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
    const [
      {
        head: { sliceRoots = [] },
      },
    ] = ends as [(typeof ends)[0]];
    expect(sliceRoots).toHaveLength(3);
    const bounds = layoutOfRun(spec).slices!;
    ends.forEach(({ params, momentum }, i) => {
      const held = bounds.slice(0, 3 - tiers[i]!);
      expect(params.values).toHaveLength(held.at(-1)!.to);
      for (const [slice, { from, to }] of held.entries()) {
        const values = params.values.slice(from, to);
        const part = {
          params: { layout: params.layout, values },
          momentum: momentum.slice(from, to),
        };
        expect(modelRoot(part)).toBe(sliceRoots[slice]);
      }
    });
    const rounds = members.map(certifiedRounds);
    expect(rounds[0]!.every(({ certified }) => certified!.result === 'final')).toBe(true);
    for (const one of [2, 3]) {
      expect(rounds[0]!.some(({ accepted }) => accepted.includes(keyOf(one)))).toBe(true);
      expect(rounds.flat().some(({ certified }) => certified!.signers.includes(keyOf(one)))).toBe(
        false,
      );
    }
    const { layout, first } = tierOfModel(spec, 0);
    const history = await historyOf(url, spec, layout, first, stage);
    const again = replayed(spec, layout, history, undefined, first);
    expect(again.rounds.map(({ checked }) => checked)).toEqual(Array(4).fill('full'));
    expect(again.end.state.modelRoot).toBe(ends[0]!.head.modelRoot);
  },
);

it('a contribution of another tier than its author joined with does not count', async () => {
  const { url } = relay();
  const spec = tieredSpec([0, 1], { rounds: 3 });
  const members = [
    ...[0, 1].map((index) => start({ index, relays: [url], spec, ...tierOfModel(spec, 0) })),
    start({ index: 2, relays: [url], spec, ...tierOfModel(spec, 1), tier: 2 }),
  ];
  await Promise.all(members.map(({ finished }) => finished));
  const rounds = certifiedRounds(members[0]!);
  expect(rounds.some(({ certified }) => certified!.joined.includes(keyOf(2)))).toBe(true);
  expect(rounds.every(({ accepted }) => !accepted.includes(keyOf(2)))).toBe(true);
  const refused = rounds.flatMap((round) => round.refused);
  expect(refused).toContainEqual({ reason: 'other-tier', worker: keyOf(2) });
});

it('a founder that would train part of the model is refused', async () => {
  const { url } = relay();
  const spec = tieredSpec([0, 1]);
  const { finished } = start({ index: 1, relays: [url], spec, ...tierOfModel(spec, 1) });
  await expect(finished).rejects.toMatchObject({ code: 'run/tier' });
});

it('a join with an unknown tier, and a member’s join with another tier, are refused', () => {
  const spec = tieredSpec([0, 1]);
  const rules = membershipOf(spec, runIdOf(spec));
  const ledger = firstLedger(rules);
  const join = (index: number, tier: number) => ({ key: keyOf(index), tip: 'b'.repeat(64), tier });
  const listed = (...joins: readonly ReturnType<typeof join>[]) =>
    chooseJoins(rules, ledger, joins).map(({ key }) => key);
  expect(listed(join(2, 2), join(3, 3), join(1, 1))).toEqual([keyOf(2)]);
  expect(listed(join(1, 0))).toEqual([keyOf(1)]);
});

/** Sockets that count received chunk bytes by their root. */
function countingSockets(bytes: Map<string, number>): OpenSocket {
  const note = (text = '') => {
    const [type, , event] = JSON.parse(text) as readonly [string, string, SignedEvent | undefined];
    if (type !== 'EVENT' || event?.kind !== 7811) return;
    const root = event.tags.find(([name]) => name === 'x')![1]!;
    bytes.set(root, (bytes.get(root) ?? 0) + fromBase64(event.content)!.length);
  };
  return (url) =>
    new Proxy(stage.openSocket(url), {
      get(socket, name) {
        const value: unknown = Reflect.get(socket, name);
        return typeof value === 'function' ? value.bind(socket) : value;
      },
      set(socket, name, value) {
        const hear = (text: string | undefined, length: number) => {
          note(text);
          (value as Socket['onmessage'])?.(text, length);
        };
        return Reflect.set(socket, name, name === 'onmessage' ? hear : value);
      },
    });
}

it.each([kinds[0]!, kinds[2]!])(
  'E-10: of %s, a late worker of tier 2 downloads only its own slices, and continues from them',
  async (_, specOf) => {
    const { url } = relay();
    const spec = specOf([0, 1], { rounds: 6, checkpoint: { every: 2, keep: 3 } });
    const members = [0, 1].map((index) =>
      start({ index, relays: [url], spec, ...tierOfModel(spec, 0), trainMs: 400 }),
    );
    await finishedRounds(members[0]!, 3);
    const part = tierOfModel(spec, 2);
    const bytes = new Map<string, number>();
    const relays = createRelaySet([url], {
      openSocket: countingSockets(bytes),
      clock: stage.clock,
    });
    await relays.ready();
    const { layout, first: values } = part;
    const genesis = genesisOf(spec, { layout, values });
    const { signal } = new AbortController();
    const asked = { relays, signal, clock: stage.clock };
    const later = await fromCheckpoint(spec, { ...asked, genesis });
    await relays.close();
    const { sliceRoots, params } = later!.state;
    expect(later!.state.round).toBeGreaterThanOrEqual(2);
    expect(params.values).toHaveLength(layout.size);
    const own = 8 * layout.size;
    const came = [...bytes.values()].reduce((sum, each) => sum + each, 0);
    expect(came).toBe(bytes.get(sliceRoots![0]!));
    expect(came).toBeLessThanOrEqual(1.02 * own);

    const newcomer = start({ index: 2, relays: [url], spec, ...part, fetchesCheckpoint: true });
    const [end, ...others] = await Promise.all(
      [newcomer, ...members].map(({ finished }) => finished),
    );
    expect(certifiedRounds(newcomer)[0]!.index).toBeGreaterThanOrEqual(2);
    expect(others.map(({ head }) => head.modelRoot)).toEqual([
      end!.head.modelRoot,
      end!.head.modelRoot,
    ]);
    expect(others[0]!.params.values.slice(0, layout.size)).toEqual(end!.params.values);
  },
  60_000,
);

it('a killed worker of a small tier resumes from its disk in the same bits', async () => {
  const { url } = relay();
  const spec = tieredSpec([0, 1], { rounds: 6 });
  const members = [0, 1].map((index) =>
    start({ index, relays: [url], spec, ...tierOfModel(spec, 0), trainMs: 300 }),
  );
  const small = { index: 2, relays: [url], spec, ...tierOfModel(spec, 1) };
  const before = start(small);
  await finishedRounds(before, 2);
  await kill(before);
  const text = JSON.stringify(certifiedMembers.format(before.disk.state as never));
  const read = certifiedMembers.parse(JSON.parse(text) as never)!;
  const disk = { ...before.disk, state: { ...before.disk.state!, ...read } };
  const again = start({ ...small, disk });
  const ends = await Promise.all([again, ...members].map(({ finished }) => finished));
  expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
  const held = ends[0]!.params.values;
  expect(ends[1]!.params.values.slice(0, held.length)).toEqual(held);
});
