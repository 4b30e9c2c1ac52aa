/**
 * A world in which machines play one round: time, a network that delays, drops, repeats and reorders, machines that crash and
 * come back with what they wrote to disk, and an adversary. After it heals nothing is lost any more and everybody is there.
 */
import { formatEntry, parseRoundState } from 'nostrain/certified/parts';
import {
  beginRound,
  type Effect,
  type Election,
  type Input,
  type RoundContext,
  type RoundState,
  step,
} from 'nostrain/consensus';
import type { Committee, Message, Signed, WorkerId } from 'nostrain/run';
import { isSameSlot } from '../../../../src/consensus/round/receive.ts';
import { Adversary } from './adversary.ts';
import { Agenda } from './agenda.ts';
import { Dice } from './dice.ts';
import { contextFor, electionFor, keysOf, outcomeBy, type Setup, VIEW_MS } from './setup.ts';

interface Machine {
  readonly key: WorkerId;
  readonly context: RoundContext;
  readonly skew: number;
  state: RoundState;
  /** State that survives a crash. */
  saved: RoundState | undefined;
  isUp: boolean;
  /** Number of starts; actions scheduled before a crash are void. */
  life: number;
}

/** Decisions about one schedule, random or scripted. */
export interface Weather {
  readonly drop: number;
  readonly repeat: number;
  readonly crash: number;
  readonly slowMs: number;
  /** Time until which the two sides cannot reach each other. */
  readonly cutUntil: number;
  readonly healsAt: number;
  /** Whether relays store messages, so that they can be queried. */
  readonly hasRelays: boolean;
  /** Time to check an outcome. */
  readonly answerMs: number;
  /** How often a worker is late for the round. */
  readonly late: number;
  /** How often a member does not accept an outcome. */
  readonly picky: number;
  readonly hostile: readonly WorkerId[];
  /** Side 0 or 1; a worker on side 2 reaches both but receives nothing. */
  readonly sides: ReadonlyMap<WorkerId, number>;
  /** Hostile members only help each side to its own outcome. */
  readonly isSplit: boolean;
}

export interface Verdict {
  readonly digests: readonly string[];
  readonly undecided: readonly WorkerId[];
  readonly problems: readonly string[];
  readonly steps: number;
  readonly faults: readonly WorkerId[];
}

/** Time after the network has healed within which every round must end. */
const PATIENCE_MS = 1500 * VIEW_MS;
const MOST_STEPS = 60_000;

export class World {
  readonly setup: Setup;
  readonly dice: Dice;
  readonly election: Election;
  readonly events = new Map<string, Signed<Message>>();
  readonly machines = new Map<WorkerId, Machine>();
  readonly weather: Weather;
  now = 0;
  readonly #adversary: Adversary;
  readonly #signed = new Map<string, Signed<Message>>();
  readonly #own = new Map<WorkerId, readonly Signed<Message>[]>();
  readonly #digests = new Set<string>();
  readonly #problems: string[] = [];
  readonly #faults = new Set<WorkerId>();
  readonly #agenda = new Agenda();
  readonly #contexts = new Map<WorkerId, RoundContext>();
  #steps = 0;

  constructor(setup: Setup, seed: number, script: Partial<Weather> = {}) {
    this.setup = setup;
    this.dice = new Dice(seed);
    this.election = electionFor(setup);
    this.weather = { ...this.#chance(), ...script };
    const { hostile } = this.weather;
    for (const key of keysOf(setup)) if (!hostile.includes(key)) this.#add(key);
    this.#adversary = new Adversary(this);
  }

  #chance(): Weather {
    const { dice, setup } = this;
    const keys = keysOf(setup);
    const isWild = dice.chance(0.8);
    return {
      drop: isWild ? dice.next() * 0.5 : 0,
      repeat: isWild ? dice.next() * 0.3 : 0,
      crash: isWild && dice.chance(0.5) ? dice.next() * 0.03 : 0,
      slowMs: dice.chance(0.5) ? 20 : dice.between(20, 6 * VIEW_MS),
      cutUntil: dice.chance(0.4) ? dice.between(0, 60 * VIEW_MS) : 0,
      healsAt: dice.between(0, 80 * VIEW_MS),
      hasRelays: dice.chance(0.5),
      answerMs: 2 * VIEW_MS,
      late: 0.2,
      picky: 0.3,
      hostile: dice.shuffled(this.election.committee.members).slice(0, setup.equivocators),
      sides: new Map(keys.map((key) => [key, dice.below(2)])),
      isSplit: false,
    };
  }

  /** The context of one key; the same object each time, as thousands of steps ask for it. */
  contextOf(key: WorkerId): RoundContext {
    const known = this.#contexts.get(key) ?? contextFor(this.setup, key, this.election);
    this.#contexts.set(key, known);
    return known;
  }

  get isHealed(): boolean {
    return this.now >= this.weather.healsAt;
  }

  /** Plays the schedule to its end and returns the result. */
  play(): Verdict {
    this.at(this.weather.healsAt, () => this.#heal());
    if (this.weather.hostile.length > 0) this.#adversary.live();
    const end = this.weather.healsAt + (this.setup.isLive ? PATIENCE_MS : 60 * VIEW_MS);
    for (;;) {
      const event = this.#agenda.next();
      if (event === undefined || event.at > end || this.#steps > MOST_STEPS) break;
      this.now = event.at;
      event.run();
      if (this.#problems.length > 0 || this.#digests.size > 1) break;
      if (this.#everybody((machine) => machine.isUp && machine.state.decided !== null)) break;
    }
    for (const digest of this.#certified()) this.#digests.add(digest);
    return {
      digests: [...this.#digests],
      undecided: [...this.machines.values()]
        .filter(({ state }) => state.decided === null)
        .map(({ key }) => key),
      problems: this.#problems,
      steps: this.#steps,
      faults: [...this.#faults],
    };
  }

  /** Runs something later. */
  at(at: number, run: () => void): void {
    this.#agenda.add(at, run);
  }

  /** An event of a message; the same content of a key is always the same event. */
  sign(key: WorkerId, message: Message): Signed<Message> {
    const content = `${key} ${JSON.stringify(message)}`;
    const before = this.#signed.get(content);
    if (before !== undefined) return before;
    const id = `e${String(this.events.size).padStart(6, '0')}`;
    const signed = { ...message, id, key };
    this.#signed.set(content, signed);
    this.events.set(id, signed);
    if (!this.weather.hostile.includes(key)) {
      const own = this.#own.get(key) ?? [];
      if (own.some((other) => isSameSlot(other, signed))) {
        this.#problems.push(`${key} signed twice in one slot`);
      }
      this.#own.set(key, [...own, signed]);
    }
    return signed;
  }

  side(key: WorkerId): number {
    return this.weather.sides.get(key)!;
  }

  /** Sends an event to one machine. */
  deliver(from: WorkerId, to: WorkerId, message: Signed<Message>): void {
    const { dice, weather } = this;
    if (this.isHealed) {
      this.at(this.now + dice.between(1, 10), () => this.#receive(to, message));
      return;
    }
    const isCut = this.#isCut(from, to);
    if (dice.chance(weather.drop)) return;
    const starts = isCut ? Math.min(weather.cutUntil, weather.healsAt) : this.now;
    if (isCut && dice.chance(0.5)) return;
    const copies = dice.chance(weather.repeat) ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      this.at(starts + dice.between(1, weather.slowMs), () => this.#receive(to, message));
    }
  }

  #isCut(from: WorkerId, to: WorkerId): boolean {
    const [a, b] = [this.side(from), this.side(to)];
    const isApart = b === 2 || (a !== 2 && a !== b);
    return from !== to && isApart && this.now < this.weather.cutUntil;
  }

  #add(key: WorkerId): void {
    const skew = this.dice.between(-15, 15);
    const context = this.contextOf(key);
    const begins = this.dice.between(20, this.dice.chance(this.weather.late) ? 3000 : 60);
    const state = beginRound(context, { begun: begins + skew, back: null });
    this.machines.set(key, { key, context, skew, state, saved: undefined, isUp: false, life: 0 });
    this.at(begins, () => this.#start(key, state));
  }

  #start(key: WorkerId, state: RoundState): void {
    const machine = this.machines.get(key)!;
    if (machine.isUp) return;
    machine.isUp = true;
    machine.life++;
    machine.state = state;
    this.#step(machine, { type: 'restart' });
    for (const worker of machine.context.roster) {
      if (this.dice.chance(0.7))
        this.#later(machine, { type: 'held', worker, manifest: `m ${worker}` });
    }
  }

  #crash(machine: Machine): void {
    machine.isUp = false;
    const begun = machine.state.begun;
    const rest = Math.max(1, this.weather.healsAt - this.now);
    this.at(this.now + this.dice.between(1, rest), () => {
      const { saved, context, skew } = machine;
      const text = saved && formatEntry(saved);
      const back = this.now + skew;
      this.#start(
        machine.key,
        text === undefined ? beginRound(context, { begun, back }) : parseRoundState(text),
      );
    });
  }

  #heal(): void {
    for (const machine of this.machines.values())
      if (machine.isUp) this.#step(machine, { type: 'tick' });
  }

  #receive(to: WorkerId, message: Signed<Message>): void {
    const machine = this.machines.get(to);
    if (machine?.isUp) this.#step(machine, { type: 'message', message });
  }

  /** Schedules an input, unless the machine crashes before. */
  #later(
    machine: Machine,
    input: Input,
    mostMs = this.isHealed ? 10 : this.weather.answerMs,
  ): void {
    const { life } = machine;
    this.at(this.now + this.dice.between(1, mostMs), () => {
      if (machine.isUp && machine.life === life) this.#step(machine, input);
    });
  }

  #step(machine: Machine, input: Input): void {
    this.#steps++;
    const { state, effects } = step(machine.context, machine.state, input, this.now + machine.skew);
    const isWakeNew = state.wakeAt !== machine.state.wakeAt || input.type === 'restart';
    machine.state = state;
    const own: Signed<Message>[] = [];
    for (const effect of effects) {
      if (!this.isHealed && this.dice.chance(this.weather.crash)) {
        this.#crash(machine);
        return;
      }
      this.#perform(machine, effect, own);
    }
    if (isWakeNew && state.wakeAt < Number.MAX_SAFE_INTEGER) {
      const { life } = machine;
      this.at(Math.max(this.now + 1, state.wakeAt - machine.skew), () => {
        if (machine.isUp && machine.life === life) this.#step(machine, { type: 'tick' });
      });
    }
    for (const message of own) this.#step(machine, { type: 'message', message });
  }

  #perform(machine: Machine, effect: Effect, own: Signed<Message>[]): void {
    const { key } = machine;
    if (effect.type === 'persist') machine.saved = machine.state;
    if (effect.type === 'send') {
      const signed = this.sign(key, effect.message);
      own.push(signed);
      this.#broadcast(key, [signed.id]);
      this.#adversary.overhear(signed);
    }
    if (effect.type === 'resend') this.#broadcast(key, effect.ids);
    if (effect.type === 'compose') this.#compose(machine, effect);
    if (effect.type === 'check') this.#check(machine, effect);
    if (effect.type === 'want') this.#examine(machine, effect);
    if (effect.type === 'finalized') this.#digests.add(effect.certificate.digest);
    if (effect.type === 'fault') this.#accuse(effect.fault.key);
    if (effect.type === 'refused' && effect.refusal.code === 'conflicting-finalize') {
      this.#digests.add(effect.refusal.got);
    }
  }

  #accuse(key: WorkerId): void {
    this.#faults.add(key);
    if (!this.weather.hostile.includes(key)) this.#problems.push(`honest ${key} accused`);
  }

  #broadcast(from: WorkerId, ids: readonly string[]): void {
    for (const id of ids) {
      const message = this.events.get(id);
      if (message === undefined) throw new Error(`${from} sends ${id}, which nobody signed`);
      for (const to of this.machines.keys()) if (to !== from) this.deliver(from, to, message);
    }
  }

  #compose(machine: Machine, effect: Effect & { type: 'compose' }): void {
    const { attempt, view, result, ballots } = effect;
    const outcome = outcomeBy(machine.key, result, ballots);
    const digest = `${machine.key} ${attempt}/${view} ${result} ${machine.life}`;
    const check = { digest, valid: true, acceptable: true, unlisted: [] };
    const composed = { attempt, view, outcome, digest };
    this.#later(machine, { type: 'composed', composed, check }, 10);
  }

  #check(machine: Machine, { digest, outcome }: Effect & { type: 'check' }): void {
    if (!this.isHealed && this.dice.chance(this.weather.picky / 3)) return;
    const acceptable = outcome.result === 'void' || !this.dice.chance(this.weather.picky);
    const unlisted = this.dice.chance(0.2) ? [machine.life] : [];
    const valid = outcome.time > 0;
    const check = { digest, valid, acceptable, unlisted };
    this.#later(machine, { type: 'checked', check });
  }

  /** Answers a query: from relays if there are any, else from a running machine that has the event. */
  #examine(machine: Machine, effect: Effect & { type: 'want' }): void {
    const there = this.weather.hasRelays ? this.events : this.#heldNear(machine.key);
    for (const [id, message] of this.events) {
      if (!there.has(id)) continue;
      if (effect.what === 'events' && !effect.ids.includes(id)) continue;
      if (effect.what === 'outcome') {
        if (message.type !== 'proposal' || message.digest !== effect.digest) continue;
      }
      this.deliver(machine.key, machine.key, message);
    }
  }

  #heldNear(to: WorkerId): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const { key, state, isUp } of this.machines.values()) {
      if (isUp && !this.#isCut(key, to))
        for (const { id } of [...state.votes, ...state.ballots]) ids.add(id);
    }
    return ids;
  }

  #everybody(holds: (machine: Machine) => boolean): boolean {
    for (const machine of this.machines.values()) if (!holds(machine)) return false;
    return true;
  }

  /** Returns all outcomes with a certificate among all messages ever signed. */
  #certified(): Set<string> {
    const signers = new Map<string, { digest: string; ctx: string; keys: Set<WorkerId> }>();
    for (const message of this.events.values()) {
      if (message.type !== 'vote' || message.step !== 'commit') continue;
      const { attempt, view, ctx, digest, key } = message;
      const group = `${attempt} ${view} ${ctx} ${digest}`;
      const found = signers.get(group) ?? { digest, ctx, keys: new Set() };
      signers.set(group, found);
      found.keys.add(key);
    }
    const [{ context }] = this.machines.values() as IterableIterator<Machine> & [Machine];
    const committees = [...this.committees()];
    const quorate = [...signers.values()].filter(({ ctx, keys }) => {
      const committee = committees.find((each) => each.ctx === ctx);
      return committee !== undefined && context.hasQuorum(committee, keys);
    });
    return new Set(quorate.map(({ digest }) => digest));
  }

  *committees(): Iterable<Committee> {
    const { committee, isSampled, draw, eligible } = this.election;
    yield committee;
    const last = Math.max(...[...this.machines.values()].map(({ state }) => state.attempt));
    for (let attempt = 1; isSampled && attempt <= last; attempt++) yield draw(attempt, eligible);
    for (const { state } of this.machines.values()) yield* Object.values(state.drawn);
  }
}
