/** A worker of the Python reference that is killed and restarted within a round, next to one of ours. */
import { fromHex } from 'nostrain/base';
import { gradient } from 'nostrain/kinds';
import { createSigner, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { parseStateJson } from 'nostrain/python';
import { expect, it } from 'vitest';
import { createManualClock } from '../../support/manual-clock.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { stateText } from '../../support/state-text.ts';
import session from '../../vectors/session.json' with { type: 'json' };
import { heartbeatEvent } from '../support/reference-events.ts';
import { redated, startReferenceWorker } from '../support/reference-worker.ts';

const { datasets, initial_state, secret_keys } = session;
const THEIRS = '0'.repeat(63).concat('5');
const theirs = createSigner(fromHex(THEIRS)!, nativeCrypto);
const START = 1_700_000_000;
const run = 'restarts';

function begin(isCompatible: boolean) {
  const clock = createManualClock(1000 * START);
  const relay = createMemoryRelay('ws://relay.test');
  const plan = { run, rounds: 1, innerSteps: 20, roundTimeoutMs: 60_000 };
  const ours = startReferenceWorker({
    ...{ clock, relays: relay.connect(), secretKey: secret_keys.a, dataset: datasets.a },
    params: parseStateJson(stateText(initial_state)),
    plan: { ...plan, sync: { strategy: 'strict', workers: 2 } },
    ...{ learningRate: 0.05, batchSize: 2, ratio: 1, isCompatible },
  });
  /** The reference begins the round now: it collects gradients dated after this, less a second. */
  const beginsRound = () => {
    const createdAt = Math.floor(clock.now() / 1000);
    relay.put(heartbeatEvent(theirs, { run, createdAt }));
    return createdAt - 1;
  };
  const gradients = (): readonly SignedEvent[] =>
    relay.events.filter(({ kind, pubkey }) => kind === gradient.kind && pubkey === ours.id);
  return { clock, relay, ours, beginsRound, gradients };
}

it('sees the gradient that was sent before it restarted: it is signed again, and counts once', async () => {
  const { clock, relay, ours, beginsRound, gradients } = begin(true);
  beginsRound();
  await clock.advance(5000);
  expect(gradients()).toHaveLength(1);
  const [before] = gradients();
  await clock.advance(10_000);
  const since = beginsRound();
  expect(before!.created_at).toBeLessThan(since);
  await clock.advance(2000);
  expect(gradients()).toHaveLength(1);
  const [after] = gradients();
  expect(after!.created_at).toBeGreaterThanOrEqual(since);
  expect(after!.content).toBe(before!.content);

  // it trains and sends its own; the round closes on both
  const tags = after!.tags.map(([name, ...values]) =>
    name === 'worker'
      ? ['worker', theirs.publicKey]
      : name === 'd'
        ? ['d', `run:${run}:worker:${theirs.publicKey}:round:0`]
        : [name!, ...values],
  );
  relay.put(redated({ ...after!, tags }, THEIRS, Math.floor(clock.now() / 1000)));
  await clock.advance(20_000);
  const state = await ours.finished;
  expect(state.rounds[0]!.accepted).toHaveLength(2);
  expect(ours.traces[0]!.gradient?.event.id).toBe(after!.id);
  const notices = ours.events.flatMap((event) => (event.type === 'notice' ? [event.message] : []));
  expect(notices).toEqual([
    'a worker restarted within the round: the gradient was sent again, newly dated',
  ]);
});

it('attack: heartbeats without end make a worker sign its gradient four times more, not without end', async () => {
  const { clock, beginsRound, gradients, ours } = begin(true);
  beginsRound();
  await clock.advance(5000);
  const dates = new Set(gradients().map(({ created_at }) => created_at));
  for (let i = 0; i < 12; i++) {
    await clock.advance(3000);
    beginsRound();
    await clock.advance(100);
    for (const { created_at } of gradients()) dates.add(created_at);
  }
  expect(dates.size).toBe(5);
  ours.stop();
});

it('workers of ours see gradients of any date: nothing is signed again for them', async () => {
  const { clock, beginsRound, gradients, ours } = begin(false);
  await clock.advance(5000);
  const before = gradients();
  await clock.advance(10_000);
  beginsRound();
  await clock.advance(5000);
  expect(gradients()).toEqual(before);
  ours.stop();
});
