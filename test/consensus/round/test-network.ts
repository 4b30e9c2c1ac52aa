/**
 * A few machines in one room: everything said reaches everybody who is there, in order, at once. Time moves when told.
 */
import {
  beginRound,
  type Effect,
  type Input,
  type RoundContext,
  type RoundState,
  type RoundTiming,
  step,
} from 'nostrain/consensus';
import type { Message, Proposal, Signed, Vote, WorkerId } from 'nostrain/run';
import {
  contextFor,
  drawFor,
  keysOf,
  outcomeBy,
  PARENT,
  RUN,
  type Setup,
} from './model-check/setup.ts';

export const friends = (workers: number, rule: Setup['rule'] = 'bft', floor = 0): Setup => ({
  ...{ name: 'friends', workers, seats: 64, rule, equivocators: 0, floor, isLive: true },
});

/** A proposal, prepare or commit of any key. */
export const cast = {
  ...{ run: RUN, round: 0, attempt: 0, parent: PARENT },
  ...{ view: 0, justify: -1, unlisted: [], scores: [] },
};

export function voteBy(
  setup: Setup,
  key: WorkerId,
  step: 'prepare' | 'commit',
  digest: string,
  more: Partial<Vote> = {},
): Signed<Vote> {
  const ctx = drawFor(setup)(0, keysOf(setup)).ctx;
  const said = { type: 'vote' as const, step, ...cast, ctx, digest, ...more } as Vote;
  return { ...said, id: `${key} ${step} ${digest} ${said.view} ${said.attempt}`, key };
}

export function proposalBy(
  setup: Setup,
  key: WorkerId,
  digest: string,
  more: Partial<Proposal> = {},
): Signed<Proposal> {
  const ctx = drawFor(setup)(0, keysOf(setup)).ctx;
  const outcome = outcomeBy(key, 'final');
  const own = { type: 'proposal' as const, step: 'prepare' as const, prepares: [], ballots: [] };
  const { run, round, attempt, parent, view, justify } = cast;
  const at = { run, round, attempt, parent, view, justify };
  const said = { ...own, ...at, ctx, digest, outcome, ...more };
  return { ...said, id: `${key} proposal ${digest} ${said.view}`, key };
}

/** One machine and the effects it requested. */
export class Player {
  readonly context: RoundContext;
  state: RoundState;
  readonly effects: Effect[] = [];

  constructor(setup: Setup, me: WorkerId, timing: Partial<RoundTiming> = {}, forgot = false) {
    this.context = contextFor(setup, me, undefined, timing);
    this.state = beginRound(this.context, { begun: 0, back: null }, forgot ? 1 : 0);
  }

  /** Returns the effects of one input. */
  take(input: Input, now: number): readonly Effect[] {
    const { state, effects } = step(this.context, this.state, input, now);
    this.state = state;
    this.effects.push(...effects);
    return effects;
  }

  hear(message: Signed<Message>, now: number): readonly Effect[] {
    return this.take({ type: 'message', message }, now);
  }

  /** Every effect of one kind so far. */
  all<T extends Effect['type']>(type: T): Extract<Effect, { readonly type: T }>[] {
    return this.effects.filter(
      (effect): effect is Extract<Effect, { readonly type: T }> => effect.type === type,
    );
  }
}

export class TestNetwork {
  readonly players = new Map<WorkerId, Player>();
  readonly sent = new Map<string, Signed<Message>>();
  now = 0;

  constructor(setup: Setup, there: readonly WorkerId[], timing: Partial<RoundTiming> = {}) {
    for (const key of there) this.players.set(key, new Player(setup, key, timing));
  }

  /** Gives all machines an input, and then the messages that follow from it until there are no more. */
  tell(input: Input): void {
    for (const key of this.players.keys()) this.#take(key, input);
  }

  /** Advances the clock from one wake-up to the next. */
  waitUntil(until: number): void {
    this.tell({ type: 'tick' });
    while (this.now < until) {
      const wakes = [...this.players.values()].map(({ state }) => state.wakeAt);
      this.now = Math.min(until, ...wakes.filter((at) => at > this.now));
      this.tell({ type: 'tick' });
    }
  }

  decided(): readonly (string | undefined)[] {
    return [...this.players.values()].map(({ state }) => state.decided?.digest);
  }

  #take(key: WorkerId, input: Input): void {
    const player = this.players.get(key)!;
    for (const effect of player.take(input, this.now)) this.#do(key, effect);
  }

  #do(key: WorkerId, effect: Effect): void {
    if (effect.type === 'send') {
      const id = `${key} ${JSON.stringify(effect.message)}`;
      const message = { ...effect.message, id, key };
      this.sent.set(id, message);
      this.#broadcast([id]);
    }
    if (effect.type === 'resend') this.#broadcast(effect.ids);
    if (effect.type === 'compose') {
      const { attempt, view, result, ballots } = effect;
      const outcome = outcomeBy(key, result, ballots);
      const digest = `${key} ${attempt}/${view} ${result}`;
      const check = { digest, valid: true, acceptable: true, unlisted: [], scores: [] };
      this.#take(key, { type: 'composed', composed: { attempt, view, outcome, digest }, check });
    }
    if (effect.type === 'check') {
      const { digest } = effect;
      const check = { digest, valid: true, acceptable: true, unlisted: [], scores: [] };
      this.#take(key, { type: 'checked', check });
    }
  }

  #broadcast(ids: readonly string[]): void {
    for (const id of ids) {
      const message = this.sent.get(id)!;
      for (const key of this.players.keys()) this.#take(key, { type: 'message', message });
    }
  }
}
