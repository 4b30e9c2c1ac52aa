/** N-10: a gradient of round 0 that arrives in round 1. */

import { checkpoint, gradient } from 'nostrain/kinds';
import type { SignedEvent } from 'nostrain/network';
import { parseStateJson } from 'nostrain/python';
import { openReferenceEvent } from 'nostrain/python/parts';
import { stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { resumeFrom } from '../../../src/python/worker/start.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { stateText } from '../../support/state-text.ts';
import session from '../../vectors/session.json' with { type: 'json' };
import {
  type ReferenceWorkerOptions,
  redated,
  startReferenceWorker,
} from '../support/reference-worker.ts';

const { datasets, initial_state, secret_keys } = session;
const SLOW = '0000000000000000000000000000000000000000000000000000000000000005';
const START = 1_700_000_000_000;

type Worker = Partial<ReferenceWorkerOptions> & Pick<ReferenceWorkerOptions, 'clock' | 'relays'>;

const worker = (name: 'a' | 'b', more: Worker) =>
  startReferenceWorker({
    secretKey: secret_keys[name],
    dataset: datasets[name],
    params: parseStateJson(stateText(initial_state)),
    plan: { run: 'late', rounds: 4, innerSteps: 20 },
    ...{ learningRate: 0.05, batchSize: 2, ratio: 1 },
    ...more,
  });

/** The gradient of a third worker in round 0, dated as if it were slow. */
async function lateGradient(): Promise<SignedEvent> {
  const clock = createManualClock(START);
  const relay = createMemoryRelay('ws://alone.test');
  const slow = worker('a', {
    ...{ clock, relays: relay.connect(), secretKey: SLOW },
    plan: { run: 'late', rounds: 1, innerSteps: 7 },
  });
  await clock.advance(20_000);
  await slow.finished;
  const made = relay.events.find(({ kind }) => kind === gradient.kind)!;
  return redated(made, SLOW, START / 1000 + 4);
}

interface Play {
  readonly late?: SignedEvent;
  /** Whether B receives it too. */
  readonly shared?: boolean;
  readonly options?: Partial<ReferenceWorkerOptions>;
}

/** Two workers, four rounds of 2.5 s; the late gradient comes in round 1. */
async function play({ late, shared = true, options = {} }: Play) {
  const clock = createManualClock(START);
  const relay = createMemoryRelay('ws://relay.test');
  const a = worker('a', { clock, relays: relay.connect(), ...options });
  const hears = (event: SignedEvent) => shared || event.id !== late?.id;
  const b = worker('b', { clock, relays: relay.connect(hears), ...options });
  await clock.advance(4000);
  if (late) relay.put(late);
  await clock.advance(60_000);
  return { a, b, states: await Promise.all([a.finished, b.finished]) };
}

const digests = (states: readonly { params: Parameters<typeof stateDigest>[0] }[]) =>
  states.map(({ params }) => stateDigest(params));

describe('a late gradient', () => {
  it('deferred: folded in once on every worker, without advancing momentum twice', async () => {
    const late = await lateGradient();
    const { a, states } = await play({ late });
    const [first, second] = digests(states);
    expect(first).toBe(second);
    const plain = await play({});
    expect(first).not.toBe(digests(plain.states)[0]);
    for (const { history } of states) {
      expect(history?.late.map(({ folded }) => folded?.round)).toEqual([2]);
      expect(history?.reconciliations.map(({ lateRounds }) => lateRounds)).toEqual([[0]]);
      expect(history?.records.map((record) => record.late.count)).toEqual([0, 0, 1, 0]);
    }
    // the worker starts round 2 with the momentum from the end of round 1
    const [, round1, round2] = a.traces;
    expect(round2!.before.momentum).toEqual(round1!.after.momentum);
    expect(round2!.before.params.values).not.toEqual(round1!.after.params.values);
    expect(round2!.late).toHaveLength(1);
  });

  it('discard: noted, and nothing moves', async () => {
    const late = await lateGradient();
    const { states } = await play({ late, options: { late: { strategy: 'discard' } } });
    const plain = await play({});
    expect(digests(states)).toEqual(digests(plain.states));
    for (const { history } of states) {
      expect(history?.late).toHaveLength(1);
      expect(history?.late[0]?.folded).toBeUndefined();
      expect(history?.reconciliations).toEqual([]);
    }
  });

  it('heard by one worker alone parts the two, and both are told', async () => {
    const { a, b, states } = await play({ late: await lateGradient(), shared: false });
    const [first, second] = digests(states);
    expect(first).not.toBe(second);
    for (const { events } of [a, b]) {
      expect(events.find(({ type }) => type === 'divergence')).toMatchObject({ round: 2 });
      expect(
        events.some((event) => event.type === 'refused' && event.reason === 'base-mismatch'),
      ).toBe(true);
    }
  });

  it('is neither lost nor repeated by a restart between the rounds', async () => {
    const late = await lateGradient();
    const { states, a } = await play({ late });
    const clock = createManualClock(START);
    const relay = createMemoryRelay('ws://relay.test');
    const other = worker('b', { clock, relays: relay.connect() });
    const killed = worker('a', { clock, relays: relay.connect() });
    await clock.advance(4000);
    relay.put(late);
    const has = (round: number, sent: boolean) =>
      killed.saved.find((state) => state.round === round && (state.sent !== undefined) === sent);
    while (!has(2, false)) await clock.advance(100);
    killed.stop();
    // restarted before and after the late gradient is applied: both end in the same state
    const again = worker('a', { clock, relays: relay.connect(), start: has(2, false)! });
    await clock.advance(60_000);
    expect(digests([await again.finished, await other.finished])).toEqual(digests(states));
    const sealed = a.saved.find(({ round, sent }) => round === 2 && sent);
    expect(sealed?.history?.late.map(({ folded }) => folded?.round)).toEqual([2]);
  });

  it('made from another state than ours is refused, and counted where the reference would count it', async () => {
    const late = await lateGradient();
    const tags = late.tags.map(([name, ...values]) =>
      name === 'model' ? [name, 'f'.repeat(64)] : [name!, ...values],
    );
    const foreign = redated({ ...late, tags }, SLOW, late.created_at);
    const safe = await play({ late: foreign });
    expect(safe.states[0]?.history?.late).toEqual([]);
    expect(
      safe.a.events.some(
        (event) => event.type === 'refused' && event.detail.startsWith('late for round 1'),
      ),
    ).toBe(true);
    const alike = await play({ late: foreign, options: { isCompatible: true } });
    expect(alike.states[0]?.history?.late.map(({ folded }) => folded?.round)).toEqual([2]);
    const [, round1, round2] = alike.a.traces;
    expect(round2!.before.momentum).not.toEqual(round1!.after.momentum);
  });
});

it('a checkpoint stays within an event, however long the history', async () => {
  const clock = createManualClock(START);
  const relay = createMemoryRelay('ws://relay.test');
  const long = worker('a', {
    ...{ clock, relays: relay.connect() },
    plan: { run: 'late', rounds: 70, innerSteps: 1, sync: { strategy: 'strict', workers: 1 } },
  });
  await clock.advance(60_000);
  expect((await long.finished).history?.records).toHaveLength(70);
  const newest = relay.events.findLast(({ kind }) => kind === checkpoint.kind)!;
  expect(JSON.stringify(newest).length).toBeLessThanOrEqual(65_536);
  const read = openReferenceEvent(newest, { maxContainerBytes: 9999, maxValues: 9999 });
  if (!read.ok || read.value.type !== 'checkpoint') throw new Error('no checkpoint');
  expect(read.value.tags).toMatchObject({ nextRound: 70, roundsCompleted: 70 });
  const { rounds } = read.value.body;
  expect(rounds.length).toBeLessThan(70);
  expect(rounds.at(-1)?.round).toBe(69n);
  const resumed = resumeFrom(read.value.body, { nextRound: 70, keepsLate: true, lossBefore: 1 });
  expect(resumed.ok).toBe(true);
});
