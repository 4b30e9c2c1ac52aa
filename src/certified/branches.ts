/**
 * Whether this worker is still on the branch to be on. Where something hints at another one, all that the relays have of who decided what
 * is followed from the beginning, and both branches are compared by the fork rule (consensus/round/fork-choice.ts).
 */
import type { Clock } from '../base/clock.ts';
import { type Deferred, deferred } from '../base/deferred.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { Certified, Chain } from './chain-state.ts';
import type { CertifiedEvent } from './events.ts';
import type { Gathered } from './gather.ts';
import { type Path, pathOf } from './path.ts';
import type { Tell } from './tell.ts';

/** What relays have of a run's past. */
export interface KnownPast {
  /** Where round 0 starts. */
  readonly start: Chain;
  /** Who decided what in all rounds. */
  readonly events: Gathered;
  /** The whole state at the end of a path; undefined while something that it takes is nowhere. */
  restore(path: Path): Promise<Certified | undefined>;
}

/** Asks relays for it. */
export type AskPast = () => Promise<KnownPast>;

/** A branch to go over to. */
export interface Better {
  readonly path: Path;
  /** At its end. */
  readonly state: Certified;
  readonly votes: ListedVotes | null;
  /** The first round in which it is another one. */
  readonly fork: number;
}

/** Why a worker stays where it is although relays have another branch. */
type Obstacle = Extract<CertifiedEvent, { readonly type: 'fork' }>['obstacle'];

export interface BranchOptions {
  readonly spec: RunSpec;
  readonly history: AskPast;
  readonly tell: Tell;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The outcome whose branch somebody chose. */
  readonly through?: Digest | undefined;
}

/** A look that found nothing doubles the time to the next one, so often at most: as views do. */
const MOST_DOUBLINGS = 3;

export class Branches {
  readonly #options: BranchOptions;
  #at: Certified | undefined;
  #better: Deferred<Better> = deferred();
  /** The look that is under way. */
  #look: Promise<void> | undefined;
  #wasHinted = false;
  #inVain = 0;
  #againMs = 0;

  constructor(options: BranchOptions) {
    this.#options = options;
  }

  /** Resolves with the branch to go over to once there is one. */
  get better(): Promise<Better> {
    return this.#better.promise;
  }

  /** Where this worker stands now. Whoever was told which branch to be on looks at once. */
  begin(state: Certified): void {
    const isFirst = this.#at === undefined;
    this.#at = state;
    if (isFirst && this.#options.through !== undefined) this.hint();
  }

  /** This worker went over: from now on another one may be better. */
  taken(): void {
    this.#better = deferred();
    this.#inVain = 0;
  }

  /** What to go over to at the end of the run: looked for once more where anything ever hinted at another branch. */
  async atTheEnd(state: Certified): Promise<Better | undefined> {
    if (!this.#wasHinted) return undefined;
    this.#at = state;
    await this.#look;
    await this.#begin();
    return Promise.race([this.better, Promise.resolve(undefined)]);
  }

  /** Called on evidence of another branch, with its author where that is known; triggers a comparison. */
  hint(key?: WorkerId): void {
    const isStranger = key !== undefined && !this.#at?.ledger.members.some((m) => m.key === key);
    if (this.#at === undefined || isStranger || this.#look !== undefined) return;
    this.#wasHinted = true;
    if (this.#options.clock.now() >= this.#againMs) void this.#begin();
  }

  /** One look. Never rejects. */
  #begin(): Promise<void> {
    const { clock, tell, signal, spec } = this.#options;
    this.#look = this.#compare()
      .catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        if (!signal.aborted) tell.unlooked(this.#at!.round, why);
      })
      .finally(() => {
        const wait = spec.timing.viewMs * 2 ** Math.min(this.#inVain++, MOST_DOUBLINGS);
        this.#againMs = clock.now() + wait;
        this.#look = undefined;
      });
    return this.#look;
  }

  async #compare(): Promise<void> {
    const { history, through, spec, tell } = this.#options;
    const { start, events, restore } = await history();
    const path = pathOf(start, events, through);
    if (through !== undefined && !path.stops.has(through)) tell.unknownBranch(through);
    // the certified state may have moved while relays were asked
    const state = this.#at!;
    const tip = path.tip.chain.parent;
    if (path.stops.has(state.parent) || state.recent.includes(tip)) return;
    const ours = pathOf(start, events, state.parent);
    const isSeen = ours.stops.has(state.parent);
    const fork = forkOf(isSeen ? [...ours.stops.keys()] : state.recent, path);
    const depth = state.round - fork;
    const obstacle = obstacleTo(depth, isSeen, spec);
    const told = { round: state.round, fork, depth, ours: state.parent, theirs: tip };
    const isChosen = through !== undefined && path.stops.has(through);
    if (obstacle !== undefined && !isChosen) return tell.forked({ ...told, obstacle });
    const restored = await restore(path);
    if (restored === undefined) return tell.forked({ ...told, obstacle: 'not-whole' });
    this.#better.settle({ path, state: restored, votes: path.tip.votes, fork });
  }
}

/** What speaks against going over by itself. A branch that relays do not have cannot be compared. */
const obstacleTo = (depth: number, isSeen: boolean, { timing }: RunSpec): Obstacle | undefined => {
  if (!isSeen) return 'ours-unseen';
  return depth > timing.reorgDepth ? 'too-deep' : undefined;
};

/** The first round that is another one on this path; outcomes oldest first. */
function forkOf(outcomes: readonly Digest[], { stops }: Path): number {
  const shared = outcomes.findLast((digest) => stops.has(digest));
  return shared === undefined ? 0 : stops.get(shared)!.chain.round;
}
