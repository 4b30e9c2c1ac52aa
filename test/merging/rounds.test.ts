/** Validators that merge, over relays in memory on a clock of its own. */
import { merge } from 'nostrain/kinds';
import { phasesOf } from 'nostrain/merging/parts';
import { expect, it } from 'vitest';
import {
  type MergingMemberOptions,
  noticesOf,
  refusalsOf,
  startMergingMember,
  timingFrom,
} from '../support/merging.ts';
import { keyOf, signerOf } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMergingMember);
const { relay, start } = stage;

type More = Partial<MergingMemberOptions>;

/** Starts three validators; `more` changes one of them. */
function three(rounds: number, more: (index: number) => More = () => ({}), each: More = {}) {
  const { url } = relay();
  const timing = timingFrom(stage.clock.now());
  const members = [0, 1, 2].map((index) =>
    start({ index, validators: [0, 1, 2], relays: [url], timing, rounds, ...each, ...more(index) }),
  );
  return { members, timing, url };
}

it('C-05 three validators exchange merges and end each round in the same state, which improves', async () => {
  const { members } = three(3);
  const ends = await Promise.all(members.map(({ finished }) => finished));
  for (const round of [0, 1, 2, 3]) {
    expect(new Set(members.map(({ digests }) => digests.get(round))).size).toBe(1);
  }
  expect(new Set(members[0]!.digests.values()).size).toBe(4);
  expect(ends[0]!.rounds.map(({ accepted }) => accepted.length)).toEqual([3, 3, 3]);
  expect(ends[0]!.params.values[0]).toBeGreaterThan(0.2);
  expect(members.flatMap(refusalsOf)).toEqual([]);
});

it('C-05 merges of one group leave every other tensor as it was, and another group is refused', async () => {
  const group = { name: 'a', trains: [{ from: 0, to: 4096 }] };
  const other = { name: 'b', trains: [{ from: 4096, to: 8192 }] };
  const { members } = three(2, (index) => ({ group: index === 2 ? other : group }), {
    validators: [0, 1],
  });
  const ends = await Promise.all(members.slice(0, 2).map(({ finished }) => finished));
  expect(members[0]!.digests.get(2)).toBe(members[1]!.digests.get(2));
  for (const { params, momentum } of ends) {
    expect(params.values[0]).toBeGreaterThan(0.1);
    for (const vector of [params.values, momentum]) {
      expect(vector.slice(4096).every((value) => Object.is(value, 0))).toBe(true);
    }
  }
  expect(refusalsOf(members[0]!).join()).toContain('other-roster');
});

it('C-05 two groups merge in one run: each moves its own tensors, and together they are one model', async () => {
  const { url } = relay();
  const timing = timingFrom(stage.clock.now());
  const groups = [
    { name: 'a', trains: [{ from: 0, to: 4096 }] },
    { name: 'b', trains: [{ from: 4096, to: 8192 }] },
  ];
  const members = [0, 1, 2, 3].map((index) => {
    const of = index < 2 ? 0 : 1;
    const validators = of === 0 ? [0, 1] : [2, 3];
    return start({ index, validators, group: groups[of]!, relays: [url], timing, rounds: 2 });
  });
  const [a, a2, b, b2] = await Promise.all(members.map(({ finished }) => finished));
  expect(a!.params.values).toEqual(a2!.params.values);
  expect(b!.params.values).toEqual(b2!.params.values);
  const [left, right] = [a!.params.values, b!.params.values];
  expect([left[0], right[4096]].every((value) => value! > 0.1)).toBe(true);
  expect([...left.slice(4096), ...right.slice(0, 4096)].every((v) => Object.is(v, 0))).toBe(true);
  const accepted = [a!, b!].map(({ rounds }) => rounds.map((each) => each.accepted.length));
  expect(accepted).toEqual([
    [2, 2],
    [2, 2],
  ]);
  // messages and contributions of the other group are refused
  expect(refusalsOf(members[0]!).join()).toMatch(/unauthorized.*not a validator/);
  expect(refusalsOf(members[0]!).join()).toContain('other-roster');
});

it('C-06 without its peers a validator steps alone in time; the two others average; it adopts their state afterwards (C-07)', async () => {
  const [own, common] = [relay(), relay()];
  const timing = timingFrom(stage.clock.now());
  const { mergedMs } = phasesOf(timing, 0);
  const members = [0, 1, 2].map((index) =>
    start({
      ...{ index, validators: [0, 1, 2], timing, rounds: 4 },
      relays: index === 0 ? [own.url] : [own.url, common.url],
    }),
  );
  await stage.until(() => stage.clock.now() > mergedMs);
  own.cut();
  await stage.until(() => stage.clock.now() > phasesOf(timing, 2).beginMs);
  own.mend();
  const ends = await Promise.all(members.map(({ finished }) => finished));
  const [alone, ...others] = members;
  const accepted = ends.map(({ rounds }) => rounds.find(({ index }) => index === 1)!.accepted);
  expect(accepted.map(({ length }) => length)).toEqual([1, 2, 2]);
  expect(noticesOf(alone!).join()).toContain('merge_timeout: round 2 steps with 1 merges');
  for (const [round, endedMs] of alone!.endedMs) {
    if (round > 0) expect(endedMs).toBeLessThanOrEqual(phasesOf(timing, round - 1).mergedMs + 1);
  }
  const digestsAt = (round: number) => new Set(members.map(({ digests }) => digests.get(round)));
  expect([1, 2, 3, 4].map((round) => digestsAt(round).size)).toEqual([1, 2, 1, 1]);
  expect(noticesOf(alone!).join()).toContain('adopted the state of');
  for (const each of others) {
    expect(noticesOf(each).join()).toMatch(/with another state: .*all validators agree again/);
  }
});

it('C-06 a validator that comes late adopts the state of the others', async () => {
  const timing = timingFrom(stage.clock.now());
  const { beginMs } = phasesOf(timing, 1);
  const after = stage.until(() => stage.clock.now() > beginMs + 2000);
  const { members } = three(3, (index) => (index === 2 ? { after } : {}), { timing });
  await Promise.all(members.map(({ finished }) => finished));
  expect(members[2]!.digests.get(1)).toBe(members[0]!.digests.get(1));
  expect(members[2]!.digests.get(3)).toBe(members[0]!.digests.get(3));
});

it('C-04 names contributors that harm, and a validator without a valid merge skips the exchange and adopts', async () => {
  const harm = (factor: number) => (params: Float32Array) => params.map(() => factor);
  const { url } = relay();
  const timing = timingFrom(stage.clock.now());
  const { mergedMs } = phasesOf(timing, 0);
  const common = { validators: [0, 1, 2], relays: [url], timing, rounds: 2 };
  const measures = (loss: number, nowMs: number) => (nowMs < mergedMs ? Number.NaN : loss);
  const members = [
    ...[0, 1].map((index) => start({ index, ...common })),
    start({ index: 2, ...common, measures }),
    start({ index: 3, ...common, train: harm(-1) }),
    start({ index: 4, ...common, train: harm(1e30) }),
  ];
  const ends = await Promise.all(members.map(({ finished }) => finished));
  const refused = members[0]!.events.filter(({ type }) => type === 'refused');
  expect(refused).toContainEqual(
    expect.objectContaining({ reason: 'low-score', worker: keyOf(3), round: 0 }),
  );
  expect(refused).toContainEqual(
    expect.objectContaining({ reason: 'not-finite', worker: keyOf(4), round: 0 }),
  );
  expect(noticesOf(members[2]!).join()).toContain('round 1 has no valid merge');
  expect(ends[0]!.rounds[0]!.accepted).toEqual([keyOf(0), keyOf(1)].sort());
  expect(ends[0]!.rounds[1]!.accepted).toHaveLength(3);
  // workers that are no validators follow by averaging the same merges
  expect(new Set(members.map(({ digests }) => digests.get(2))).size).toBe(1);
});

it('C-07 refuses a validator that lies in its merge; it is marked, and adopts the state of the others', async () => {
  const lie = (mean: Float64Array) => mean.map((value) => -3 * value);
  const { members } = three(2, (index) => (index === 2 ? { lie } : {}));
  await Promise.all(members.map(({ finished }) => finished));
  expect(refusalsOf(members[0]!).join()).toContain('not-the-mean');
  expect(noticesOf(members[0]!).join()).toContain('validators with another state');
  expect(noticesOf(members[2]!).join()).toContain('adopted the state of');
  expect(members[2]!.digests.get(1)).toBe(members[0]!.digests.get(1));
});

it('C-11 refuses messages of strangers, with forged signatures, dated minutes ahead, or with a used nonce', async () => {
  const { members, url } = three(1);
  await stage.until(() => members[0]!.digests.size > 0);
  const nowSeconds = Math.floor(stage.clock.now() / 1000);
  const message = (index: number, seconds = 0, digest = 'd'.repeat(64)) => {
    const content = { run: 'merging', step: 'state', round: 9, nonce: 'e'.repeat(64), digest };
    const createdAt = nowSeconds + seconds;
    const envelope = { scope: ['merging/validators'], expiration: nowSeconds + 9000 };
    return signerOf(index).sign(merge.build({ ...content, ...envelope }, createdAt));
  };
  const honest = message(1);
  const forged = { ...message(1, 1), sig: honest.sig };
  const replayed = message(1, 2, 'a'.repeat(64));
  await stage.publish(url, [message(7), forged, message(1, 600), honest, replayed]);
  await Promise.all(members.map(({ finished }) => finished));
  const refused = refusalsOf(members[0]!).filter((text) => text.startsWith('unauthorized'));
  expect(refused.map((text) => text.replace(/\d+/g, 'N')).sort()).toEqual([
    'unauthorized: dated N s from the local clock; at most N s',
    'unauthorized: its author is not a validator of this run',
    'unauthorized: its nonce was used before',
  ]);
});

it('C-12 validators with clocks 3 s apart agree on every round', async () => {
  const { members } = three(3, (index) => ({ skewMs: 3000 * (index - 1) }));
  const ends = await Promise.all(members.map(({ finished }) => finished));
  for (const { rounds } of ends) {
    expect(rounds.map(({ accepted }) => accepted.length)).toEqual([3, 3, 3]);
  }
  for (const round of [1, 2, 3]) {
    expect(new Set(members.map(({ digests }) => digests.get(round))).size).toBe(1);
  }
});
