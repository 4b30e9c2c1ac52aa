/** What an archive reads from relays, and the path that a reader follows through the events of a run. */
import { archiveRun, replayRun } from 'nostrain/certified';
import { gather, genesisOf, pathOf, replay, startOf, withoutModel } from 'nostrain/certified/parts';
import { beaconValue, drandRoundAt } from 'nostrain/consensus';
import { proposal as proposalKind, run as runKind, vote as voteKind } from 'nostrain/kinds';
import { planChunks, type SignedEvent } from 'nostrain/network';
import { nativeCrypto as crypto } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import { beaconLack, hasModel } from '../../src/certified/decisions/replay.ts';
import { openHistory } from '../../src/certified/records/archive.ts';
import { recordRun } from '../../src/certified/records/replay-run.ts';
import { publishedDraft } from '../../src/certified/wire/checkpoints.ts';
import { stateBytes } from '../../src/consensus/roots.ts';
import { ledgerBytes } from '../../src/run/ledger.ts';
import { certifiedSpec, generateRun, type Round, signerOf } from '../support/certified-run.ts';
import { signRound, testChain } from '../support/drand.ts';
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

describe('the model of an archive', () => {
  const life = { createdAt: 1_790_000_500, expiresAt: 2_500_000_000 };
  const { modelRoot, ledgerRoot, ledger } = made.state;
  const plan = planChunks(stateBytes(made.state), life);
  const chunks = Array.from({ length: plan.count }, (_, i) => signerOf(2).sign(plan.draft(i)));
  const claim = signerOf(1).sign(
    publishedDraft(
      {
        ...{ run, round: 6, outcome: digests[6]!, modelRoot, ledgerRoot },
        ...{ model: [stateBytes(made.state)], ledger: ledgerBytes(ledger) },
      },
      life,
    ),
  );
  const chunksIn = async (events: readonly SignedEvent[]) => {
    const relay = createMemoryRelay('ws://memory.test');
    for (const event of [...events, claim, ...chunks]) relay.put(event);
    const asked = { relays: relay.connect(), signal: new AbortController().signal, crypto };
    const archive = await archiveRun(run, asked);
    return archive.events.filter(({ id }) => chunks.some((chunk) => chunk.id === id)).length;
  };

  it('is in its payloads, and only if one of them is gone in the newest checkpoint', async () => {
    expect(chunks.length).toBeGreaterThan(0);
    expect(await chunksIn(made.events)).toBe(0);
    const lost = made.events.find(({ kind }) => kind === 7810)!;
    expect(await chunksIn(made.events.filter((event) => event !== lost))).toBe(chunks.length);
  });
});

describe('a run with a beacon', () => {
  const drand = { kind: 'drand', lagSeconds: 150, ...testChain(1_789_999_000, 3) } as const;
  const proofAfter = (time: number) => ({
    signature: signRound(drandRoundAt(drand, time + drand.lagSeconds)),
  });
  const drandAfter = (time: number): string => {
    const value = beaconValue(drand, time, proofAfter(time));
    if (!value.ok) throw new Error(value.issue.message);
    return value.value;
  };
  const drawn = certifiedSpec({ beacon: drand });
  const generated = (name: string, second: Round) =>
    runOnce(name, () => generateRun([{}, second, {}], drawn, [], drandAfter));
  const lit = generated('lit', {});
  const times = [1_790_000_030, 1_790_000_090];

  it('is archived with the values that its rounds need, and again from an earlier archive', async () => {
    const relay = createMemoryRelay('ws://memory.test');
    for (const event of lit.events) relay.put(event);
    const asked = { relays: relay.connect(), signal: new AbortController().signal, crypto };
    const after = async (time: number) => proofAfter(time);
    const beacon = () => ({ name: 'test', after }) as never;
    const beacons = times.map((time) => ({ time, proof: proofAfter(time) }));
    const archive = await archiveRun(lit.run, { ...asked, beacon });
    expect(archive.beacons).toEqual(beacons);
    const again = await archiveRun(lit.run, { ...asked, known: archive });
    expect(again).toEqual(archive);
    expect(await replayRun(again, { crypto })).toMatchObject({ ok: true, rounds: 3 });
    // an invalid value is named by its line
    const forged = [beacons[0]!, { time: times[1]!, proof: proofAfter(1_790_009_000) }];
    const opened = await openHistory({ events: lit.events, beacons: forged }, { crypto });
    expect(opened.bad).toMatchObject([{ line: 2 }]);
  });

  it('that forked is followed no further than the first value that is missing on a branch', () => {
    const other = generated('dark', { ignored: [1] });
    const events = [...lit.events, ...other.events];
    const known = (count: number) =>
      new Map(times.slice(0, count).map((time) => [time, drandAfter(time)]));
    const start = withoutModel(genesisOf(drawn, startOf(drawn)));
    const rounds = [...replay(start, gather(events, lit, { beacons: known(1), crypto }))];
    expect(rounds).toMatchObject([
      { round: 0, checked: 'chain', forks: [] },
      { round: 1, checked: 'nothing', missing: [{ what: 'beacon', id: `${times[1]}` }] },
    ]);
    expect(rounds[1]!.forks).toEqual([]);
    const whole = [...replay(start, gather(events, lit, { beacons: known(2), crypto }))];
    expect(whole.map(({ forks }) => forks.length)).toEqual([0, 1, 0]);
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

  it('takes the branch with more backers of two, although its outcome breaks the rules', () => {
    const plain = certifiedSpec();
    const many = runOnce('many', () => generateRun([{}, { joins: [5] }], plain));
    const few = runOnce('few', () => generateRun([{}, { silent: [4] }, { silent: [4] }], plain));
    const opening = withoutModel(genesisOf(plain, startOf(plain)));
    const events = gather([...many.events, ...few.events], many, { crypto });
    const followed = (evidence: typeof events) => [...replay(opening, evidence)].at(-1)!;
    expect(pathOf(opening, events).tip.chain.parent).toBe(many.rounds[1]!.digest);
    // the join of the fifth worker is not signed
    const isSigned: typeof events.isSigned = (event) =>
      event.pubkey !== signerOf(5).publicKey && events.isSigned(event);
    expect(followed({ ...events, isSigned })).toMatchObject({
      ...{ round: 1, checked: 'nothing', invalid: { code: 'bad-signature' } },
      forks: [few.rounds[1]!.digest],
    });
  });

  it('says that votes of a round are lost if enough members went on, not if one member or strangers did', () => {
    const lost = made.events.filter(
      ({ kind, content }) =>
        !(kind === voteKind.kind && /"commit"/.test(content) && /"round":4,/.test(content)) &&
        !(kind === proposalKind.kind && /"round":5,/.test(content)),
    );
    const events = gather(lost, made, { crypto });
    const said = [...events.messages.values()];
    type Message = (typeof said)[number];
    const isLater = (each: Message) => 'round' in each && (each.round ?? 0) > 4;
    const members = [1, 2].map((number) => signerOf(number).publicKey);
    const ends = (later: (each: Message) => Message | undefined, from = start) => {
      const messages = said.map((each) => (isLater(each) ? later(each) : each));
      const present = messages.filter((each) => each !== undefined);
      const evidence = { ...events, messages: new Map(present.map((each) => [each.id, each])) };
      return [...replay(withoutModel(from), evidence)].at(-1)!;
    };
    const undecided = { round: 4, checked: 'nothing', missing: [{ what: 'event' }] };
    expect(ends((each) => each)).toMatchObject(undecided);
    const only =
      (type: string, keys: readonly string[]) =>
      (each: Message): Message | undefined =>
        each.type === type && keys.includes(each.key) ? each : undefined;
    expect(ends(only('vote', members))).toMatchObject(undecided);
    expect(ends(only('vote', members.slice(1)))).toMatchObject({ round: 3, checked: 'chain' });
    expect(ends(only('join', members))).toMatchObject({ round: 3 });
    const proposing = (each: Message) =>
      ({ ...each, type: 'proposal', key: members[each.id < '8' ? 0 : 1]! }) as Message;
    expect(ends(proposing)).toMatchObject(undecided);
    const strange = (each: Message) => ({ ...each, key: `${each.id}` }) as Message;
    expect(ends(strange)).toMatchObject({ round: 3 });
    // nor after the last round
    const short = { ...start.spec, training: { ...start.spec.training, rounds: 4 } };
    expect(ends((each) => each, { ...start, spec: short })).toMatchObject({ round: 3 });
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
