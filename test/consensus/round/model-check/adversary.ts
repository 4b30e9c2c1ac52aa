/**
 * Members that sign whatever the form allows: two contents in one slot, votes for anything in any view, proposals that differ
 * by whom they are shown to, stale or half-forged justifications, two view-change votes. What they cannot do is sign for others.
 */
import { type CastVote, hasQuorum } from 'nostrain/consensus';
import type { Message, Proposal, Signed, ViewChangeVote, WorkerId } from 'nostrain/run';
import { counts } from '../../../../src/consensus/round/quorums.ts';
import { proposerOf } from '../../../../src/consensus/round/views.ts';
import { outcomeBy, PARENT, RUN, VIEW_MS } from './setup.ts';
import type { World } from './world.ts';

const ABOUT = { run: RUN, round: 0, parent: PARENT };

export class Adversary {
  readonly #world: World;
  /** Votes for everything it receives, to both sides: the strongest help for a fork. */
  readonly #echoes: boolean;
  readonly #isSilent: boolean;
  readonly #proposed = new Set<string>();
  #made = 0;

  constructor(world: World) {
    this.#world = world;
    const { isSplit } = world.weather;
    this.#echoes = isSplit || world.dice.chance(0.7);
    this.#isSilent = !isSplit && world.dice.chance(0.1);
  }

  /** Acts every half view. */
  live(): void {
    const { dice, weather } = this.#world;
    if (this.#isSilent) return;
    const tick = () => {
      this.#act();
      const pause = weather.isSplit ? 10 : dice.between(VIEW_MS / 4, VIEW_MS);
      this.#world.at(this.#world.now + pause, tick);
    };
    this.#world.at(30, tick);
  }

  /** Receives every message as soon as it is sent. */
  overhear(message: Signed<Message>): void {
    const { dice, weather } = this.#world;
    const { hostile, isSplit } = weather;
    if (hostile.length === 0 || this.#isSilent || message.type === 'ballot') return;
    if (!this.#echoes || (!isSplit && dice.chance(0.2))) return;
    const side = this.#world.side(message.key);
    for (const key of hostile) {
      this.#vote(key, message, 'prepare', side);
      this.#vote(key, message, 'commit', side);
    }
  }

  #act(): void {
    const { dice, machines, weather } = this.#world;
    const { hostile, isSplit } = weather;
    const places = new Set<string>();
    for (const { state } of machines.values()) {
      if (state.closed !== null) places.add(`${state.attempt} ${state.view}`);
    }
    for (const place of places) {
      const [attempt, view] = place.split(' ').map(Number) as [number, number];
      for (const key of hostile) this.#propose(key, attempt, view + (dice.chance(0.2) ? 1 : 0));
    }
    const votes = this.#votes();
    if (votes.length === 0 || isSplit) return;
    for (const key of hostile) {
      if (dice.chance(0.5)) {
        const heard = dice.pick(votes);
        const view = Math.max(0, heard.view + dice.between(-1, 2));
        this.#vote(key, { ...heard, view }, dice.pick(['prepare', 'commit']), dice.below(3));
      }
      if (this.#world.setup.floor === 0) continue;
      if (dice.chance(0.3)) this.#ballot(key);
      if (dice.chance(0.3)) this.#mislabel(key);
    }
  }

  #votes(): CastVote[] {
    return [...this.#world.events.values()].filter((m): m is CastVote => m.type !== 'ballot');
  }

  /** Sends to one side, or to all workers if the side is neither. */
  #sendTo(key: WorkerId, message: Message, side: number): Signed<Message> {
    const world = this.#world;
    const signed = world.sign(key, message);
    for (const to of world.machines.keys()) {
      if (side > 1 || world.side(to) === side) world.deliver(key, to, signed);
    }
    return signed;
  }

  #vote(key: WorkerId, about: CastVote, step: 'prepare' | 'commit', side: number): void {
    const { attempt, view, ctx, digest } = about;
    const cast = { ...ABOUT, attempt, view, ctx, digest };
    if (step === 'commit') {
      this.#sendTo(key, { type: 'vote', step, ...cast, justify: -1, unlisted: [] }, side);
    } else {
      const justify = Math.min(view - 1, about.justify);
      this.#sendTo(key, { type: 'vote', step, ...cast, justify }, side);
    }
  }

  /** Sends one proposal to each side, each as convincing as possible. */
  #propose(key: WorkerId, attempt: number, view: number): void {
    const world = this.#world;
    const slot = `${key} ${attempt} ${view}`;
    const context = world.contextOf(key);
    if (proposerOf(context, { attempt, view }) !== key || this.#proposed.has(slot)) return;
    this.#proposed.add(slot);
    for (const side of world.dice.shuffled([0, 1])) {
      const trick = world.weather.isSplit ? 0 : world.dice.below(8);
      const proposal =
        (trick > 3 ? this.#justified(attempt, view) : undefined) ??
        (trick === 3 ? this.#repeated(key, attempt, view) : undefined) ??
        this.#fresh(key, attempt, view);
      if (proposal === undefined) continue;
      this.#sendTo(key, trick === 1 || trick === 2 ? this.#lying(proposal) : proposal, side);
    }
  }

  /** Proposes its own outcome again, as if no quorum had prepared it. */
  #repeated(key: WorkerId, attempt: number, view: number): Proposal | undefined {
    const own = this.#votes().filter(
      (m): m is Signed<Proposal> => m.type === 'proposal' && m.key === key,
    );
    const earlier = own.filter((m) => m.attempt === attempt && m.outcome.proposer === key);
    if (earlier.length === 0) return undefined;
    const { ctx, digest, outcome, ballots } = this.#world.dice.pick(earlier);
    const cast = { ...ABOUT, attempt, view, ctx, digest, justify: -1 };
    return { type: 'proposal', step: 'prepare', ...cast, outcome, prepares: [], ballots };
  }

  /** Claims that its outcome was prepared, with prepares of another outcome or only its own. */
  #lying(proposal: Proposal): Proposal {
    const { dice, weather } = this.#world;
    const justify = proposal.view - dice.between(1, 2);
    if (justify < 0) return proposal;
    const there = this.#votes().filter((v) => v.attempt === proposal.attempt && v.view === justify);
    if (dice.chance(0.5)) {
      for (const other of weather.hostile) {
        const { ctx, digest, attempt } = proposal;
        const cast = { ...ABOUT, attempt, view: justify, ctx, digest, justify: -1 };
        there.push(this.#sendTo(other, { type: 'vote', step: 'prepare', ...cast }, 2) as CastVote);
      }
    }
    const prepares = there.filter(({ step }) => step === 'prepare').map(({ id }) => id);
    return { ...proposal, justify, prepares: [...new Set(prepares)].sort() };
  }

  /** Combines another proposal's outcome and committee with view-change votes that yield another committee. */
  #mislabel(key: WorkerId): void {
    const { dice, machines } = this.#world;
    const others = this.#votes().filter(
      (m): m is Signed<Proposal> => m.type === 'proposal' && m.attempt > 0,
    );
    if (others.length === 0) return;
    const { attempt, ctx, digest, outcome, view } = dice.pick(others);
    const ballots = this.#list(key, attempt);
    if (ballots === undefined) return;
    const cast = { ...ABOUT, attempt, ctx, digest, view: Math.max(0, view + dice.between(-1, 1)) };
    const ids = ballots.map(({ id }) => id).sort();
    const to = dice.chance(0.5) ? 2 : this.#world.side(dice.pick([...machines.keys()]));
    const label = { type: 'proposal', step: 'prepare', justify: -1 } as const;
    this.#sendTo(key, { ...label, ...cast, outcome, prepares: [], ballots: ids }, to);
  }

  #fresh(key: WorkerId, attempt: number, view: number): Proposal | undefined {
    const world = this.#world;
    const listed = attempt === 0 ? [] : this.#list(key, attempt);
    if (listed === undefined) return undefined;
    const ballots = listed.map(({ id }) => id).sort();
    const committee = world.election.draw(
      attempt,
      listed.map(({ key: author }) => author),
    );
    const cast = { ...ABOUT, attempt, view, ctx: committee.ctx, justify: -1 };
    const claimed = highest(listed);
    const before = claimed && world.events.get(claimed.proposal);
    if (before?.type === 'proposal') {
      const { outcome, digest } = before;
      return { type: 'proposal', step: 'prepare', ...cast, digest, outcome, prepares: [], ballots };
    }
    const result = world.weather.isSplit ? 'final' : world.dice.pick(['final', 'void'] as const);
    const isValid = world.weather.isSplit || world.dice.chance(0.9);
    const outcome = outcomeBy(key, result, ballots, isValid);
    const digest = `${key} hostile ${this.#made++} ${isValid}`;
    return { type: 'proposal', step: 'prepare', ...cast, digest, outcome, prepares: [], ballots };
  }

  /** Returns an outcome that a quorum prepared, or could have with the votes of all hostile members. */
  #justified(attempt: number, view: number): Proposal | undefined {
    const { dice, election, events, weather } = this.#world;
    const { hostile } = weather;
    const votes = this.#votes().filter((vote) => vote.attempt === attempt && vote.view < view);
    for (const count of dice.shuffled(counts(votes, 'prepare'))) {
      const { ctx, digest } = count;
      const proposal = [...events.values()].find(
        (m): m is Signed<Proposal> => m.type === 'proposal' && m.digest === digest && m.ctx === ctx,
      );
      if (proposal === undefined) continue;
      const keys = proposal.ballots.map((id) => events.get(id)?.key ?? '');
      const committee = election.draw(attempt, keys);
      const signers = new Set([...count.votes.map((vote) => vote.key), ...hostile]);
      if (!hasQuorum(committee, signers)) continue;
      for (const other of hostile)
        this.#vote(other, { ...proposal, view: count.view }, 'prepare', 2);
      const prepares = this.#votes()
        .filter((v) => v.step === 'prepare' && v.view === count.view && v.attempt === attempt)
        .filter((v) => v.digest === digest && v.ctx === ctx)
        .map(({ id }) => id)
        .sort();
      const { outcome, ballots } = proposal;
      const cast = { ...ABOUT, attempt, view, ctx, digest, justify: count.view };
      return { type: 'proposal', step: 'prepare', ...cast, outcome, prepares, ballots };
    }
    return undefined;
  }

  /** Returns a list of view-change votes that just reaches the floor, or a longer one. */
  #list(key: WorkerId, attempt: number): readonly Signed<ViewChangeVote>[] | undefined {
    const { dice, setup, weather } = this.#world;
    for (const other of weather.hostile) this.#ballot(other, attempt);
    const byKey = new Map<WorkerId, Signed<ViewChangeVote>>();
    for (const message of dice.shuffled([...this.#world.events.values()])) {
      if (message.type === 'ballot' && message.attempt === attempt) byKey.set(message.key, message);
    }
    if (byKey.size < setup.floor) return undefined;
    const all = dice.shuffled([...byKey.values()]);
    const own = all.filter((ballot) => ballot.key === key);
    const others = all.filter((ballot) => ballot.key !== key);
    return [...own, ...others].slice(0, dice.between(setup.floor, byKey.size));
  }

  /** Claims that nothing was prepared, or repeats the claim of an honest member. */
  #ballot(key: WorkerId, attempt?: number): void {
    const { dice, events } = this.#world;
    const honest = [...events.values()].filter(
      (m): m is Signed<ViewChangeVote> => m.type === 'ballot',
    );
    if (honest.length === 0) return;
    const one = dice.pick(honest);
    const prepared = dice.chance(0.7) ? null : one.prepared;
    if (attempt !== undefined && prepared !== null && prepared.attempt >= attempt) return;
    this.#sendTo(
      key,
      { type: 'ballot', ...ABOUT, attempt: attempt ?? one.attempt, prepared },
      dice.below(3),
    );
  }
}

function highest(ballots: readonly Signed<ViewChangeVote>[]): ViewChangeVote['prepared'] {
  let best: ViewChangeVote['prepared'] = null;
  for (const { prepared } of ballots) {
    if (prepared === null) continue;
    const isLater =
      best === null ||
      prepared.attempt > best.attempt ||
      (prepared.attempt === best.attempt && prepared.view > best.view);
    if (isLater) best = prepared;
  }
  return best;
}
