/** Statement N-12: a checkpoint is trusted for its author or for agreement of others, never for the round it claims. */

import { systemClock } from 'nostrain/base';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { collectCheckpointEvents as discoverCheckpoints } from 'nostrain/python';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import { agreements, newestAgreed } from '../../../src/python/worker/start.ts';
import { runCommand } from '../../support/command-line.ts';
import { signerOf } from '../../support/signers.ts';
import { checkpointEvent, stateOf } from '../support/reference-events.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const alice = signerOf(1);
const bob = signerOf(2);
const mallory = signerOf(3);
const sybil = signerOf(4);

async function relayWith(events: readonly SignedEvent[]): Promise<string> {
  const relay = await createRelay();
  const relays = createRelaySet([relay.url], {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
  });
  for (const event of events) await relays.publish(event);
  await relays.close();
  closing.push(relay.close);
  return relay.url;
}

async function statesAt(url: string) {
  const retry = { maxAttempts: 1, initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none' } as const;
  const open = (relay: string) =>
    createRelaySet([relay], { openSocket, clock: systemClock, retry });
  const found = await discoverCheckpoints(
    [url],
    { run: 'demo', idleMs: 1000, maxMs: 5000 },
    { open, clock: systemClock, maxAttempts: 1, signal: new AbortController().signal },
  );
  return agreements(found.events);
}

const honest = [0, 1].flatMap((round) => [
  checkpointEvent(alice, { round }),
  checkpointEvent(bob, { round }),
]);
const poisoned = checkpointEvent(mallory, { round: 90 }, { state: stateOf(666, 666) });

describe('N-12: an unknown key claims the highest round', () => {
  it('discover-checkpoints names the author, and what f + 1 authors publish', async () => {
    const url = await relayWith([...honest, poisoned]);
    const argv = ['discover-checkpoints', '--relay', url, '--run', 'demo'];
    const { stdout } = await runCommand(...argv);
    expect(stdout).toContain('latest: round 90 (slot 2) -> next 91\n');
    expect(stdout).toContain(`latest_author: ${mallory.publicKey}\n`);
    expect(stdout).toContain('latest_equal_hashes: 1 of 2 needed\n');
    const authors = [alice, bob].map(({ publicKey }) => publicKey).sort();
    expect(stdout).toMatch(
      new RegExp(
        `newest_agreed: round 1 -> next 2, model [0-9a-f]{64}, by ${authors.join(', ')}\n`,
      ),
    );
    expect(stdout).not.toContain('trust');
    const json = JSON.parse((await runCommand(...argv, '--json')).stdout);
    expect(Object.keys(json).slice(-3)).toEqual(['latest', 'events', 'agreement']);
    expect(json.latest).toMatchObject({ next_round: 91, worker: mallory.publicKey });
    expect(json.agreement).toMatchObject({
      ...{ assumed_faults: 1, equal_hashes_needed: 2 },
      newest_agreed: { round: 1, next_round: 2, authors, equal_hashes: 2, enough: true },
      states: [
        { round: 90, authors: [mallory.publicKey], equal_hashes: 1, enough: false },
        { round: 1, enough: true },
        { round: 0, enough: true },
      ],
    });
  });

  it('more faults ask for more authors, and one author can be asked for by key', async () => {
    const url = await relayWith([...honest, poisoned]);
    const argv = ['discover-checkpoints', '--relay', url, '--run', 'demo'];
    const { stdout } = await runCommand(...argv, '--faults', '2');
    expect(stdout).toContain('latest_equal_hashes: 1 of 3 needed\nnewest_agreed: -\n');
    const pinned = await runCommand(...argv, '--worker', bob.publicKey, '--min-round', '1');
    expect(pinned.stdout).toContain(`events: 1\nworkers: ${bob.publicKey}\nlatest: round 1 `);
    expect(pinned.stdout).toContain(`latest_author: ${bob.publicKey}\n`);
  });
});

it('equal parameters with another momentum are another state', async () => {
  const lure = checkpointEvent(mallory, { round: 1 }, { momentum: stateOf(1e9, 1e9) });
  const states = await statesAt(await relayWith([...honest, lure]));
  const newest = newestAgreed(states, 1)!;
  expect(newest.authors).not.toContain(mallory.publicKey);
  expect(newest.checkpoints.map(({ read }) => read.tags.worker)).not.toContain(mallory.publicKey);
  expect(states.filter(({ round }) => round === 1)).toHaveLength(2);
});

it('an author that publishes two states for one round counts for neither', async () => {
  const twice = [
    checkpointEvent(mallory, { round: 1, createdAt: 1_700_000_001 }),
    signSlot(checkpointEvent(mallory, { round: 1 }, { state: stateOf(7, 7) })),
  ];
  const states = await statesAt(await relayWith([honest[2]!, ...twice]));
  expect(newestAgreed(states, 1)).toBeUndefined();
  expect(states.flatMap(({ authors }) => authors)).toEqual([alice.publicKey]);
});

it('many authors do not count for an older round than few', async () => {
  const older = [alice, bob, sybil].map((signer) => checkpointEvent(signer, { round: 2 }));
  const newer = [alice, bob].map((signer) => checkpointEvent(signer, { round: 3 }));
  const states = await statesAt(await relayWith([...older, ...newer]));
  expect(newestAgreed(states, 1)).toMatchObject({ round: 3 });
  expect(newestAgreed(states, 2)).toMatchObject({ round: 2 });
});

/** The same checkpoint in another slot, so that relays keep both. */
function signSlot({ tags, ...event }: SignedEvent): SignedEvent {
  const moved = tags.map(([name, value]) => {
    if (name === 'slot') return ['slot', '3'];
    return [name!, name === 'd' ? value!.replace(/slot:\d+$/, 'slot:3') : value!];
  });
  return mallory.sign({ ...event, tags: moved });
}
