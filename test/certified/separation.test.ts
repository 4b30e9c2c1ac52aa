/**
 * C-10: votes and proposals count only from keys with a seat; workers that only train neither subscribe to them nor
 * receive them.
 */

import {
  assignmentOf,
  type Certified,
  createEvidenceStore,
  electorateOf,
  gather,
  genesisOf,
  pathOf,
  roundParametersOf,
  startOf,
  toProtocolMessage,
  unwrapRuling,
  withEntropy,
} from 'nostrain/certified/parts';
import { createWire, type Filter, type SignedEvent } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import { certifiedAfter } from '../../src/certified/decisions/certificate.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createMemoryRelay } from '../support/memory-relays.ts';

const [MANIFEST, CHUNK, VOTE, PROPOSAL, PRESENCE] = [7810, 7811, 7813, 7814, 37_811];
/** Kinds that committee members send each other: checkpoints, votes, proposals, archived votes, snapshots, proofs. */
const OF_WITNESSES = [7812, VOTE, PROPOSAL, 7815, 7816, 7817];

const spec = certifiedSpec({ committee: { size: 3 } });
const made = generateRun([{}, {}], spec);
const { run, events } = made;
const roundOf = ({ content }: SignedEvent): number => JSON.parse(content).round;
const kindIn = (kind: number, round: number) =>
  events.filter((event) => event.kind === kind && roundOf(event) === round);

/** The state before round 0, and a worker without a seat in it. */
const start: Certified = genesisOf(spec, startOf(spec));
const ready = withEntropy(start, gather(events, made));
if (!ready.ok) throw new Error('no entropy');
const { committee } = electorateOf(ready.value, null);
const unseated = [1, 2, 3, 4].find(
  (number) => !committee.members.includes(signerOf(number).publicKey),
)!;
const [stranger] = [9];

/** The same message by another key. */
const signedBy = (number: number, { kind, created_at, tags, content }: SignedEvent): SignedEvent =>
  signerOf(number).sign({ kind, created_at, tags: tags.map((tag) => [...tag]), content });

describe('C-10: votes and proposals', () => {
  const [lost, ...others] = kindIn(VOTE, 0).filter(({ content }) => content.includes('"commit"'));
  const without = events.filter(({ id, kind, content }) => {
    // no later outcome may prove the round
    const isLater = [VOTE, PROPOSAL].includes(kind) && JSON.parse(content).round > 0;
    return id !== lost!.id && !isLater;
  });
  const decided = (more: readonly SignedEvent[]) => {
    const found = certifiedAfter(start, gather([...without, ...more], made));
    return found.ok && found.value.length > 0;
  };

  it('decide a round only from keys with a seat', () => {
    expect(committee.members).toHaveLength(3);
    expect(others).toHaveLength(2);
    expect(decided([])).toBe(false);
    expect(decided([lost!])).toBe(true);
    for (const number of [unseated, stranger!]) {
      expect(decided([signedBy(number, lost!)])).toBe(false);
    }
    expect(decided([unseated, stranger!, 10, 11].map((number) => signedBy(number, lost!)))).toBe(
      false,
    );
  });

  it('are ignored from keys without a seat: the run does not change', () => {
    const twins = [VOTE, PROPOSAL].flatMap((kind) =>
      [0, 1].flatMap((round) =>
        kindIn(kind, round).flatMap((event) => [signedBy(stranger!, event), signedBy(10, event)]),
      ),
    );
    const path = pathOf(start, gather([...twins, ...events], made));
    expect([...path.stops.keys()]).toEqual([run, ...made.rounds.map(({ digest }) => digest)]);
    expect(path.forks).toEqual([]);
  });

  it('are not even stored from strangers', () => {
    const store = createEvidenceStore();
    store.admit([1, 2, 3, 4].map((number) => signerOf(number).publicKey));
    const all = [VOTE, PROPOSAL].flatMap((kind) => kindIn(kind, 0));
    expect(all.length).toBeGreaterThan(4);
    for (const event of all) {
      const own = toProtocolMessage(event, run);
      const other = toProtocolMessage(signedBy(stranger!, event), run);
      expect(own && store.add(own)).toBe(true);
      expect(other && store.add(other)).toBe(false);
    }
  });
});

describe('C-10: the subscriptions of a worker that only trains', () => {
  it('receive contributions and heartbeats, but no votes and proposals', async () => {
    const asked: Filter[] = [];
    const brought: number[] = [];
    const relay = createMemoryRelay('wss://relay.example');
    const plain = relay.connect();
    const relays = {
      ...plain,
      subscribe: ((filters, handlers, options) => {
        asked.push(...filters);
        const onEvent: typeof handlers.onEvent = (event, from) => {
          brought.push(event.kind);
          return handlers.onEvent(event, from);
        };
        return plain.subscribe(filters, { ...handlers, onEvent }, options);
      }) satisfies typeof plain.subscribe,
      query: ((filters, options) => {
        asked.push(...filters);
        return plain.query(filters, options);
      }) satisfies typeof plain.query,
    };
    const { layout } = start.params;
    const wire = createWire({
      ...{
        run,
        layout,
        relays,
        signer: signerOf(4),
        clock: createManualClock(1_790_000_020_000),
        sha256: nativeSha256,
      },
      ...{ ratio: 1, maxContainerBytes: 1 << 20 },
    });
    const roundParameters = unwrapRuling(roundParametersOf(ready.value, gather(events, made)));
    const assignment = assignmentOf(roundParameters);
    const inbox = wire.openRound({ round: 0, base: start.modelRoot, assignment });
    for (const event of events) relay.put(event);
    expect(inbox.contributions.size).toBe(4);
    inbox.close();
    await wire.close();
    expect(events.filter(({ kind }) => OF_WITNESSES.includes(kind)).length).toBeGreaterThan(10);
    expect(brought.filter((kind) => OF_WITNESSES.includes(kind))).toEqual([]);
    expect(brought).toContain(MANIFEST);
    for (const { kinds } of asked) {
      expect([MANIFEST, CHUNK, PRESENCE]).toEqual(expect.arrayContaining([...(kinds ?? [0])]));
    }
  });
});
