/** What an archive reads from relays, and the path that a reader follows through the events of a run. */
import { archiveRun, replayRun } from 'nostrain/certified';
import { gather, genesisOf, pathOf, replay, startOf, withoutModel } from 'nostrain/certified/parts';
import { run as runKind } from 'nostrain/kinds';
import type { SignedEvent } from 'nostrain/network';
import { nativeCrypto as crypto } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import { beaconLack, hasModel } from '../../src/certified/decisions/replay.ts';
import { recordRun } from '../../src/certified/records/replay-run.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { eventfulEvidence, eventfulRun, runOnce } from '../support/eventful-run.ts';
import { createMemoryRelay } from '../support/memory-relays.ts';

const made = eventfulRun();
const { spec, run } = made;
const found = eventfulEvidence();
const digests = made.rounds.map(({ digest }) => digest);
const DAY = 86_400;
const idsOf = (events: readonly SignedEvent[]) => events.map(({ id }) => id).sort();

describe('an archive from relays', () => {
  const archived = (events: readonly SignedEvent[], options: object = {}) => {
    const relay = createMemoryRelay('ws://memory.test');
    for (const event of events) relay.put(event);
    const { signal } = new AbortController();
    return archiveRun(run, { relays: relay.connect(), signal, crypto, ...options });
  };

  it('has all events of the run, those of this machine and those it had before', async () => {
    const whole = await archived(made.events);
    expect(idsOf(whole.events)).toEqual(idsOf(made.events));
    expect(whole.beacons).toEqual([]);
    const [first, ...rest] = made.events;
    const local = await archived([first!], { local: rest });
    expect(local).toEqual(whole);
    const again = await archived([], { known: { events: made.events, beacons: [] }, spec });
    expect(again).toEqual(whole);
    const half = { events: made.events.slice(0, 20), beacons: [] };
    expect(await archived(made.events.slice(20), { known: half })).toEqual(whole);
  });

  it('asks for what is at most two days older than what it has', async () => {
    const [announced, ...rest] = made.events;
    const since = Math.min(...rest.map(({ created_at }) => created_at)) + 180;
    const marker = signerOf(9).sign({
      ...{ kind: 1, tags: [], content: '', created_at: since + 2 * DAY },
    });
    const known = { events: [announced!, marker], beacons: [] };
    const { events } = await archived(made.events, { known });
    const fresh = events.filter(({ id }) => id !== announced!.id && id !== marker.id);
    expect(Math.min(...fresh.map(({ created_at }) => created_at))).toBe(since);
    expect(events).toEqual(expect.arrayContaining([announced!, marker]));
  });

  it('of a run without a spec has its events only', async () => {
    const events = made.events.filter(({ kind }) => kind !== runKind.kind);
    const bare = await archived(events);
    expect(bare.beacons).toEqual([]);
    expect(bare.events.every(({ kind }) => kind !== runKind.kind)).toBe(true);
    expect(idsOf((await archived(events, { spec })).events)).toEqual(idsOf(events));
  });

  it('is recomputed from a stored state where a payload is gone', async () => {
    const stored = new Map<string, Uint8Array>();
    const keep = async ({ modelRoot }: { readonly modelRoot: string }, bytes: Uint8Array) => {
      stored.set(modelRoot, bytes);
    };
    await recordRun({ events: made.events, beacons: [] }, { crypto }, { every: 1, keep });
    const events = made.events.filter(
      ({ kind, content }) => kind !== 7810 || !content.includes('"round":1,'),
    );
    const lost = await replayRun({ events, beacons: [] }, { crypto });
    expect(lost).toMatchObject({ ok: false, rounds: 7 });
    const states = ({ root }: { readonly root: string }) => stored.get(root);
    const report = await replayRun({ events, beacons: [] }, { crypto, states });
    expect(report).toMatchObject({ ok: true, rounds: 7, modelRoot: made.state.modelRoot });
    expect(report.lines.map(({ checked }) => checked)).toEqual([
      ...['full', 'chain', 'chain', 'full', 'full', 'full', 'full'],
    ]);
  });
});

describe('the path through a run', () => {
  const start = genesisOf(spec, startOf(spec));

  it('has a stop after each outcome, without the model', () => {
    const { stops, tip, forks } = pathOf(start, found);
    expect([...stops.keys()]).toEqual([run, ...digests]);
    expect([...stops.values()].map(({ chain }) => chain.round)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(forks).toEqual([]);
    expect(tip.chain.modelRoot).toBe(made.state.modelRoot);
    expect(hasModel(tip.chain)).toBe(false);
    expect(stops.get(run)).toEqual({ chain: withoutModel(start), outcome: undefined, votes: null });
    const last = stops.get(digests.at(-1)!)!;
    expect(last).toBe(tip);
    expect(last.outcome?.round).toBe(6);
    // the votes are those that the next outcome lists
    const second = found.proposalsAfter(digests[0]!)[0]!.outcome;
    expect(stops.get(digests[0]!)!.votes).toEqual(second.votes);
  });

  it('names the forks that it passes', () => {
    const plain = certifiedSpec();
    const long = runOnce('long', () => generateRun([{}, {}, {}], plain));
    const short = runOnce('short', () => generateRun([{}, { ignored: [1] }], plain));
    const events = gather([...short.events, ...long.events], long, { crypto });
    const [followed, other] = [long.rounds[1]!.digest, short.rounds[1]!.digest];
    const opening = genesisOf(plain, startOf(plain));
    expect(pathOf(opening, events).forks).toEqual([{ round: 1, followed, other }]);
    const through = pathOf(opening, events, other);
    expect(through.forks).toEqual([{ round: 1, followed: other, other: followed }]);
    expect(through.tip.chain.parent).toBe(other);
  });

  it('takes the branch with more final rounds of two that end alike', () => {
    const plain = certifiedSpec();
    const opening = genesisOf(plain, startOf(plain));
    const voided = runOnce('voided', () => generateRun([{}, { result: 'void' }], plain));
    for (const number of [1, 2, 3, 4]) {
      const final = generateRun([{}, { ignored: [number] }], plain);
      const events = gather([...voided.events, ...final.events], final, { crypto });
      expect(pathOf(opening, events).tip.chain.parent).toBe(final.rounds[1]!.digest);
    }
  });

  it('needs no model, and a state without one stays as it is', () => {
    const bare = withoutModel(start);
    expect(withoutModel(bare)).toBe(bare);
    expect([...pathOf(bare, found).stops.keys()]).toEqual([run, ...digests]);
  });

  it('ends at an outcome that breaks the rules of the roster, with the reason', () => {
    const beyond = { ...found, isSigned: () => false };
    const rounds = [...replay(withoutModel(start), beyond)];
    const last = rounds.at(-1)!;
    expect(last).toMatchObject({ round: 0, checked: 'nothing', decided: expect.anything() });
    expect(last.invalid).toMatchObject({ code: expect.any(String), at: expect.any(String) });
  });

  it('ends where it lacks a beacon value, and says which', () => {
    const event = { what: 'event', id: 'a' } as const;
    expect(beaconLack({ missing: [event, { what: 'beacon', id: '17' }] })).toBe(17);
    expect(beaconLack({ missing: [event] })).toBeUndefined();
    expect(beaconLack({})).toBeUndefined();
  });
});
