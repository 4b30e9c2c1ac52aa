/**
 * A world in which workers play a whole run, several rounds in a row: real ledgers, draws, randomness, reveals,
 * outcomes and certificates, everything but models and signatures. Messages are delayed, dropped and repeated, machines
 * crash and come back with what they saved, some never start, strangers join and stay silent, hostile members vote for
 * everything they hear. Then the network heals. What was sent is replayed at the end, as anybody would who had only the
 * events.
 */
import {
  applyToChain,
  type Chain,
  type Electorate,
  electorateOf,
  type Gathered,
  genesisOf,
  listVotes,
  membershipOf,
  rebuildEvent,
  replay,
  startOf,
  withoutModel,
} from 'nostrain/certified/parts';
import {
  beginRound,
  chooseJoins,
  createRevealChain,
  type Effect,
  type Input,
  nextLedger,
  type RoundContext,
  type RoundState,
  revealOf,
  step,
  tipOf,
} from 'nostrain/consensus';
import {
  type Commit,
  type Digest,
  ledgerRoot,
  type Message,
  type Outcome,
  outcomeDigest,
  type Proposal,
  type RunSpec,
  type Signed,
  type WorkerId,
} from 'nostrain/run';
import { certify } from '../../../../src/certified/decisions/certificate.ts';
import { rosterChange } from '../../../../src/certified/decisions/roster-change.ts';
import { contextOf } from '../../../../src/certified/strategy.ts';
import { isCommit } from '../../../../src/certified/wire/certified-events.ts';
import type { ListedJoin, ListedVotes } from '../../../../src/run/listed.ts';
import { certifiedSpec, foundersOf, signerOf } from '../../../support/certified-run.ts';
import { keyOf, seedOf } from '../../../support/members.ts';
import { Agenda } from './agenda.ts';
import { Dice } from './dice.ts';

/** Parameters of a run. */
export interface RunSetup {
  readonly founders: number;
  readonly seats: number;
  readonly rule: 'bft' | 'cft';
  readonly floorPermille: number;
  readonly rounds: number;
  /** Founders that never start. */
  readonly absent: number;
  /** Members that vote for everything they hear. */
  readonly hostile: number;
  /** Newcomers that join in outcome 0 and then stay silent. */
  readonly strangers: number;
  /**
   * Whether the run must end. Where a quorum of a sampled committee never starts it may wait for ever, but must not
   * fork.
   */
  readonly isLive: boolean;
}

const VIEW_MS = 100;
const HEALS_MS = 60 * VIEW_MS;
const END_MS = 4000 * VIEW_MS;
/** Limit of steps; runs that end by timeouts take up to 130,000. */
const MOST_STEPS = 500_000;
const SIGNATURE = { createdAt: 1, expiration: 2, sig: '0'.repeat(128) };

interface Worker {
  readonly key: WorkerId;
  readonly secret: Uint8Array;
  isUp: boolean;
  life: number;
  chain: Chain;
  electorate: Electorate;
  context: RoundContext;
  state: RoundState;
  saved: RoundState | undefined;
  votes: ListedVotes | null;
  readonly digests: Digest[];
}

export interface Played {
  readonly problem: string | undefined;
  readonly steps: number;
  /** Rounds that ended in a recovery epoch. */
  readonly recovered: number;
}

export class RunWorld {
  readonly #dice: Dice;
  readonly #setup: RunSetup;
  readonly #spec: RunSpec;
  readonly #agenda = new Agenda();
  readonly #events = new Map<string, Signed<Message>>();
  readonly #ids = new Map<string, string>();
  readonly #workers = new Map<WorkerId, Worker>();
  readonly #hostile: ReadonlySet<WorkerId>;
  readonly #joins: readonly ListedJoin[];
  readonly #evidence: Gathered;
  readonly #drop: number;
  readonly #crash: number;
  /**
   * Until the network heals these hear nobody but each other, and the others nobody of them; the hostile are heard by
   * all.
   */
  readonly #apart: ReadonlySet<WorkerId>;
  #now = 0;
  #steps = 0;
  #recovered = 0;
  #problem: string | undefined;

  constructor(setup: RunSetup, seed: number) {
    this.#dice = new Dice(seed);
    this.#setup = setup;
    this.#spec = specOf(setup);
    this.#drop = this.#dice.chance(0.7) ? this.#dice.next() * 0.4 : 0;
    this.#crash = this.#dice.chance(0.5) ? this.#dice.next() * 0.02 : 0;
    this.#evidence = evidenceOf(this.#events);
    const start = withoutModel(genesisOf(this.#spec, startOf(this.#spec)));
    const keys = this.#dice.shuffled(this.#spec.founders);
    const isCut = this.#dice.chance(0.5);
    this.#apart = new Set(keys.filter(() => isCut && this.#dice.chance(0.5)));
    this.#hostile = new Set(keys.slice(0, setup.hostile));
    const there = keys.slice(setup.hostile, keys.length - setup.absent);
    const listing = [...this.#hostile, ...there];
    const strangers = Array.from({ length: setup.strangers }, (_, i) => keyOf(700 + i));
    this.#joins = [...listing, ...strangers]
      .map((key) => ({
        ...{ key, after: start.run, evidence: '', ...SIGNATURE },
        tip: tipOf(createRevealChain(secretOf(key), start.run, setup.rounds)),
      }))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    for (const key of there) this.#add(key, start);
  }

  play(): Played {
    const end = this.#setup.isLive ? END_MS : END_MS / 10;
    while (this.#problem === undefined) {
      const next = this.#agenda.next();
      if (next === undefined || next.at > end || this.#steps > MOST_STEPS) break;
      this.#now = next.at;
      next.run();
      if ([...this.#workers.values()].every((worker) => this.#isDone(worker))) break;
    }
    this.#problem ??= this.#judge();
    return { problem: this.#problem, steps: this.#steps, recovered: this.#recovered };
  }

  /** Reports whether all workers ended with one history, and a replay of all messages finds only that history. */
  #judge(): string | undefined {
    const workers = [...this.#workers.values()];
    const behind = workers.filter((worker) => !this.#isDone(worker));
    if (behind.length > 0 && this.#setup.isLive) {
      return `${behind.length} of ${workers.length} stuck in round ${behind[0]!.chain.round}`;
    }
    const longest = workers
      .map(({ digests }) => digests.join())
      .sort((a, b) => b.length - a.length);
    if (!longest.every((each) => longest[0]!.startsWith(each))) return 'two histories';
    const start = withoutModel(genesisOf(this.#spec, startOf(this.#spec)));
    const playing = replay(start, this.#evidence);
    for (;;) {
      const { done, value } = playing.next();
      if (done) {
        return value.digests.join().startsWith(longest[0]!) ? undefined : 'another replay';
      }
      if (value.forks.length > 0) return `round ${value.round} forked: ${value.forks.join()}`;
      if (value.checked !== 'chain' && value.decided !== undefined)
        return `round ${value.round}: ${JSON.stringify(value.missing)}`;
    }
  }

  #commit = (id: string): Signed<Commit> => this.#events.get(id) as Signed<Commit>;

  #isDone = ({ chain }: Worker): boolean => chain.round >= this.#setup.rounds;

  #add(key: WorkerId, chain: Chain): void {
    const electorate = electorateOf(chain, null);
    const context = contextOf(chain, electorate, { me: key, since: 0, delays: [] });
    const begins = this.#dice.between(1, this.#dice.chance(0.2) ? 2000 : 50);
    const state = beginRound(context, { begun: begins, back: null });
    this.#workers.set(key, {
      ...{ key, secret: secretOf(key), isUp: false, life: 0, chain, electorate, context, state },
      ...{ saved: undefined, votes: null, digests: [] },
    });
    this.#agenda.add(begins, () => this.#start(this.#workers.get(key)!, state));
  }

  #start(worker: Worker, state: RoundState): void {
    worker.isUp = true;
    worker.life++;
    worker.state = state;
    if (state.decided !== null) {
      // it crashed between the two steps
      const { proposal, commits } = state.decided;
      const { outcome } = this.#events.get(proposal) as Signed<Proposal>;
      this.#nextRound(worker, outcome, commits.map(this.#commit));
      return;
    }
    this.#feed(worker, { type: 'restart' });
    for (const each of worker.electorate.live) {
      if (!this.#dice.chance(0.8)) continue;
      this.#later(worker, 40, {
        type: 'held',
        worker: each,
        manifest: manifestOf(each, state.round),
      });
    }
    this.#catchUp(worker);
  }

  /** Receives all messages of its round so far, since relays store them. */
  #catchUp({ key, chain }: Worker): void {
    for (const message of this.#events.values()) {
      if (message.round === chain.round && message.parent === chain.parent) {
        this.#deliver(key, message);
      }
    }
  }

  #nextRound(worker: Worker, outcome: Outcome, commits: readonly Signed<Commit>[]): void {
    const { key, chain, electorate } = worker;
    const digest = outcomeDigest(outcome);
    const judged = certify(chain, digest, commits, this.#evidence, electorate);
    const applied = applyToChain(chain, outcome, this.#evidence);
    if (!judged.ok || !applied.ok) {
      this.#problem = `round ${chain.round} cannot be: ${JSON.stringify(judged.ok ? applied : judged)}`;
      return;
    }
    const { attempt, view } = judged.value;
    if (attempt > 0) this.#recovered++;
    const place = { attempt, view, ctx: judged.value.committee.ctx };
    worker.votes = listVotes(chain.ledger, place, judged.value.commits);
    worker.digests.push(digest);
    worker.chain = applied.value;
    if (this.#isDone(worker)) return;
    worker.electorate = electorateOf(worker.chain, null);
    const own = { me: key, since: this.#now, delays: [] };
    worker.context = contextOf(worker.chain, worker.electorate, own);
    worker.saved = undefined;
    this.#start(worker, beginRound(worker.context, { begun: this.#now, back: null }));
  }

  #deliver(to: WorkerId, message: Signed<Message>): void {
    const isHealed = this.#now >= HEALS_MS;
    const isCut = this.#apart.has(to) !== this.#apart.has(message.key);
    if (!isHealed && isCut && to !== message.key && !this.#hostile.has(message.key)) return;
    if (!isHealed && this.#dice.chance(this.#drop)) return;
    const delay = this.#dice.between(1, isHealed ? 10 : 2 * VIEW_MS);
    this.#agenda.add(this.#now + delay, () => {
      const worker = this.#workers.get(to);
      if (worker?.isUp && worker.chain.parent === message.parent) {
        this.#feed(worker, { type: 'message', message });
      }
    });
  }

  #later(worker: Worker, mostMs: number, input: Input): void {
    const { life } = worker;
    this.#agenda.add(this.#now + this.#dice.between(1, mostMs), () => {
      if (worker.isUp && worker.life === life) this.#feed(worker, input);
    });
  }

  #feed(worker: Worker, input: Input): void {
    if (this.#isDone(worker) || this.#problem !== undefined) return;
    this.#steps++;
    const { round } = worker.chain;
    const { state, effects } = step(worker.context, worker.state, input, this.#now);
    const isWakeNew = state.wakeAt !== worker.state.wakeAt || input.type === 'restart';
    worker.state = state;
    const own: Signed<Message>[] = [];
    for (const effect of effects) {
      if (this.#now < HEALS_MS && this.#dice.chance(this.#crash)) {
        this.#fall(worker);
        return;
      }
      this.#perform(worker, effect, own);
      if (worker.chain.round !== round) return;
    }
    if (isWakeNew && state.wakeAt < Number.MAX_SAFE_INTEGER) {
      this.#later(worker, Math.max(1, state.wakeAt - this.#now), { type: 'tick' });
      this.#agenda.add(Math.max(this.#now + 1, state.wakeAt), () => {
        if (worker.isUp) this.#feed(worker, { type: 'tick' });
      });
    }
    for (const message of own) this.#feed(worker, { type: 'message', message });
  }

  #fall(worker: Worker): void {
    worker.isUp = false;
    const { saved, context, life } = worker;
    this.#agenda.add(this.#now + this.#dice.between(1, 20 * VIEW_MS), () => {
      const again = () => beginRound(context, { begun: this.#now, back: null });
      if (worker.life === life) this.#start(worker, saved ?? again());
    });
  }

  #perform(worker: Worker, effect: Effect, own: Signed<Message>[]): void {
    if (effect.type === 'persist') worker.saved = worker.state;
    if (effect.type === 'send') own.push(this.#sign(worker.key, effect.message));
    if (effect.type === 'resend') {
      for (const id of effect.ids) this.#broadcast(this.#events.get(id)!);
    }
    if (effect.type === 'want') this.#catchUp(worker);
    if (effect.type === 'compose') this.#compose(worker, effect);
    if (effect.type === 'check') {
      const { digest, outcome } = effect;
      const valid = applyToChain(worker.chain, outcome, this.#evidence).ok;
      const check = { digest, valid, acceptable: this.#dice.chance(0.9), unlisted: [] };
      this.#later(worker, 10, { type: 'checked', check });
    }
    if (effect.type === 'finalized') {
      const { outcome, certificate } = effect;
      this.#nextRound(worker, outcome, certificate.commits.map(this.#commit));
    }
  }

  #compose(worker: Worker, effect: Extract<Effect, { type: 'compose' }>): void {
    const { chain, electorate, votes, key, secret, state } = worker;
    const { run, round, parent, ledger, modelRoot, spec, time } = chain;
    const { attempt, view, result, ballots } = effect;
    const roster = ledger.members.map((member) => member.key);
    const accepted = state.held
      .map(({ worker: each, manifest }) => ({ index: roster.indexOf(each), late: false, manifest }))
      .filter(({ index }) => index >= 0)
      .sort((a, b) => a.index - b.index);
    const isVoid = result === 'void' || accepted.length === 0;
    const rules = membershipOf(spec, run);
    const chosen = new Set(chooseJoins(rules, ledger, this.#joins).map((join) => join.key));
    const draft = {
      ...{ run, round, parent, base: modelRoot, time: time + 1, proposer: key, ballots, votes },
      result: isVoid ? ('void' as const) : ('final' as const),
      reveal: revealOf(createRevealChain(secret, run, this.#setup.rounds), round),
      ...{ accepted: isVoid ? [] : accepted, rejected: [], leaves: [], faults: [], features: {} },
      joins: this.#joins.filter((join) => chosen.has(join.key)),
    };
    const change = rosterChange(chain, draft, electorate, this.#evidence);
    // with too few founders there is no outcome 0 yet: a recovery may need fewer
    if (!change.ok) return;
    const rowSize = isVoid ? 0 : 1;
    const next = nextLedger(rules, ledger, { ...change.value, rowSize });
    const outcome: Outcome = { ...draft, rowSize, modelRoot, ledgerRoot: ledgerRoot(next) };
    const digest = outcomeDigest(outcome);
    const check = { digest, valid: true, acceptable: true, unlisted: [] };
    const composed = { attempt, view, outcome, digest };
    this.#later(worker, 10, { type: 'composed', composed, check });
  }

  #sign(key: WorkerId, message: Message): Signed<Message> {
    const content = `${key} ${JSON.stringify(message)}`;
    const known = this.#ids.get(content);
    const isListed = message.type === 'vote' && message.step === 'commit';
    const id =
      known ??
      (isListed ? rebuildEvent(message, key, SIGNATURE).id : keyOf(100_000 + this.#ids.size));
    this.#ids.set(content, id);
    const signed = { ...message, id, key, ...(isListed && { signature: SIGNATURE }) };
    this.#events.set(id, signed);
    this.#broadcast(signed);
    if (known === undefined && !this.#hostile.has(key)) this.#echo(signed);
    return signed;
  }

  #broadcast(message: Signed<Message>): void {
    for (const to of this.#workers.keys()) if (to !== message.key) this.#deliver(to, message);
  }

  /** Hostile members vote for every outcome that any member votes for, in both steps, and for every recovery. */
  #echo(message: Signed<Message>): void {
    for (const key of this.#hostile) {
      const { run, round, attempt, parent } = message;
      if (this.#dice.chance(0.3)) continue;
      if (message.type === 'ballot') {
        this.#sign(key, { type: 'ballot', run, round, attempt, parent, prepared: null });
        continue;
      }
      const { ctx, view, digest } = message;
      const cast = { type: 'vote', run, round, attempt, parent, ctx, view, digest } as const;
      this.#sign(key, { ...cast, step: 'prepare', justify: -1 });
      this.#sign(key, { ...cast, step: 'commit', justify: -1, unlisted: [] });
    }
  }
}

const manifestOf = (key: WorkerId, round: number): string =>
  keyOf(Number.parseInt(key.slice(0, 6), 16) * 64 + round);

const secretOf = (key: WorkerId): Uint8Array => seedOf(Number.parseInt(key.slice(0, 6), 16));

const specOf = ({ founders, seats, rule, floorPermille, rounds }: RunSetup): RunSpec =>
  certifiedSpec({
    founders: foundersOf(founders),
    author: signerOf(1).publicKey,
    committee: { size: seats, quorum: rule, weights: 'equal', minStake: '0' },
    joinsPerRound: 16,
    training: { rounds },
    timing: {
      ...{ graceMinMs: 0, graceMaxMs: 80, viewMs: VIEW_MS, voidView: 4 },
      ...{ recoveryMs: 10 * VIEW_MS, recoveryFloorPermille: floorPermille, skewMs: 40 },
    },
  });

/** All messages as evidence; signatures are not checked. */
function evidenceOf(events: ReadonlyMap<string, Signed<Message>>): Gathered {
  const all = () => [...events.values()];
  const proposals = () => all().filter((m): m is Signed<Proposal> => m.type === 'proposal');
  const whole = {
    messages: events,
    message: (id: string) => events.get(id),
    isSigned: () => true,
    payload: () => undefined,
    proposals: (digest: Digest) => proposals().filter((each) => each.digest === digest),
    proposalsAfter: (parent: Digest) => proposals().filter((each) => each.parent === parent),
    commitsAfter: (parent: Digest) =>
      all()
        .filter(isCommit)
        .filter((each) => each.parent === parent),
    stakes: () => undefined,
    beacon: () => undefined,
  };
  return whole as unknown as Gathered;
}
