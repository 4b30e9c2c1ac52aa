/** Who is away is told by name within five seconds, and attendees who know the secret are let in. */
import type { RunEvent } from 'nostrain/certified';
import type { SignedEvent } from 'nostrain/network';
import { expect, it, onTestFinished } from 'vitest';
import { buildAttendee, proofOf } from '../../../src/friends/lobby.ts';
import { OpenLobby } from '../../../src/friends/open-lobby.ts';
import { Company } from '../../../src/node/friends/company.ts';
import { founderFields } from '../../../src/node/friends/lobby-run.ts';
import { called } from '../../../src/run/worker-names.ts';
import { certifiedSpec } from '../../support/certified-swarm.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { keyOf, signerOf } from '../../support/swarm.ts';

const ANNA = 0;
const secret = '0f'.repeat(16);
const invitation = { host: keyOf(ANNA), name: 'winter', relays: [], secret };
const names = new Map([
  [1, 'Bea'],
  [2, 'Cid'],
  [3, 'Dan'],
]);
const named = (index: number) => called(keyOf(index), names.get(index));
const hello = { type: 'hello' } as RunEvent;
const from = (index: number): RunEvent => ({
  type: 'peer',
  state: 'training',
  worker: keyOf(index),
  round: 0,
});

async function createScene(people: number) {
  const clock = createManualClock();
  const relay = createMemoryRelay('ws://memory.test');
  const relays = relay.connect();
  const signer = signerOf(ANNA);
  const stop = new AbortController();
  onTestFinished(() => stop.abort(new Error('ended')));
  const { signal } = stop;
  const lobby = new OpenLobby(invitation, { relays, signer, clock, signal }, 'Anna');
  const arrive = (index: number, as = index) => {
    const proof = proofOf(secret, invitation, keyOf(as));
    const attendee = { name: names.get(index), proof, isLeaving: false };
    relay.put(
      signerOf(index).sign(buildAttendee(invitation, attendee, Math.floor(clock.now() / 1000))),
    );
  };
  for (const index of names.keys()) if (index < people) arrive(index);
  const founders = Array.from({ length: people }, (_, index) => index);
  const anchors = [keyOf(ANNA)];
  const admission = { kind: 'trust', anchors, by: 'assertions', rank: 100 };
  const { timing, ...document } = founderFields();
  const spec = certifiedSpec({
    founders,
    rounds: 3,
    document: { ...document, admission, joinsPerRound: 4 },
    timing,
  });
  const notes: string[] = [];
  const notify = (message: string) => void notes.push(message);
  const ports = { lobby, areProven: true, relays, signer, clock, signal, notify };
  const company = new Company(spec, ports);
  company.keep().catch(() => undefined);
  await clock.advance(0);
  return { clock, relay, company, arrive, notes };
}

it('names the one whom two friends wait for within five seconds, and says that they are back', async () => {
  const { clock, company, notes } = await createScene(2);
  company.hear(hello);
  await clock.advance(5000);
  expect(notes).toEqual([`waiting for ${named(1)}: the run goes on as soon as they are back`]);
  company.hear(from(1));
  await clock.advance(5000);
  expect(notes.at(-1)).toBe('all are here again');
  await clock.advance(60_000);
  expect(notes.length).toBe(2);
});

it('says that a run goes on without one of three, and waits without two', async () => {
  const { clock, company, notes } = await createScene(3);
  company.hear(hello);
  company.hear(from(1));
  company.hear(from(2));
  await clock.advance(70_000);
  expect(notes).toEqual([]);
  company.hear({ type: 'stalled', round: 1, attempt: 0, view: 0, missing: [keyOf(2)] });
  expect(notes.at(-1)).toBe(`${named(2)} is away; the run goes on without them`);
  company.hear({ type: 'stalled', round: 1, attempt: 0, view: 1, missing: [keyOf(1), keyOf(2)] });
  const both = [1, 2].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)).map(named);
  expect(notes.at(-1)).toBe(
    `waiting for ${both.join(' and ')}: the run goes on as soon as one of them is back`,
  );
});

it('does not report friends who are still starting while the run can go on without them', async () => {
  const { clock, company, notes } = await createScene(3);
  company.hear(hello);
  company.hear(from(1));
  await clock.advance(50_000);
  expect(notes).toEqual([]);
  await clock.advance(15_000);
  expect(notes.join()).toContain('is away; the run goes on');
});

it('lets in an attendee who knows the secret, once, and no other', async () => {
  const { clock, relay, arrive, notes } = await createScene(2);
  arrive(3);
  arrive(4, 3);
  await clock.advance(20_000);
  const invitations = relay.events.filter(({ kind }: SignedEvent) => kind === 30_382);
  expect(invitations.map(({ pubkey, tags }) => [pubkey, tags[0]])).toEqual([
    [keyOf(ANNA), ['d', keyOf(3)]],
  ]);
  expect(notes).toEqual([`${named(3)} may join from the next round on`]);
});
