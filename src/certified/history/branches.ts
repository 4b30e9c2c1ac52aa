/**
 * Forks of a certified run: on evidence of another branch, reads the decisions from round 0 and compares both branches
 * by the fork rule (consensus/round/fork-choice.ts).
 */
import { type Clock, type Deferred, deferred, firstOf, systemClock } from '../../base/async.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Certified, Chain } from '../decisions/chain.ts';
import type { Gathered } from '../decisions/evidence.ts';
import { hasModel, type Path, pathOf, replay } from '../decisions/replay.ts';
import type { CertifiedEvent, RunReporter } from '../rounds/events.ts';
import { type CaughtUp, checkpointOn } from './catch-up.ts';
import { fetchManifests, type ReadOptions } from './from-relays.ts';
import { decisionsOf } from './history.ts';

export interface KnownHistory {
  readonly start: Chain;
  readonly events: Gathered;
  /** Recomputes the state at the end of a path; undefined if evidence for it is missing everywhere. */
  restore(path: Path): Promise<Certified | undefined>;
}

export type ReadHistory = () => Promise<KnownHistory>;

export interface Better extends CaughtUp {
  readonly path: Path;
  /** First round in which the branches differ. */
  readonly fork: number;
}

/** Why a worker stays on its branch although relays have another one. */
type Obstacle = Extract<CertifiedEvent, { readonly type: 'fork' }>['obstacle'];

export interface BranchOptions {
  readonly spec: RunSpec;
  readonly history: ReadHistory;
  readonly reporter: RunReporter;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly through?: Digest | undefined;
}

/** Maximum doublings of the wait after comparisons that found nothing. */
const MOST_DOUBLINGS = 3;

export class Branches {
  readonly #options: BranchOptions;
  #at: Certified | undefined;
  #better: Deferred<Better> = deferred();
  #comparison: Promise<void> | undefined;
  #wasHinted = false;
  /** The current round is decided but cannot be followed, because evidence is missing everywhere. */
  #isStuck = false;
  #inVain = 0;
  #nextQueryMs = 0;

  constructor(options: BranchOptions) {
    this.#options = options;
  }

  /** Resolves with a better branch once there is one. */
  get better(): Promise<Better> {
    return this.#better.promise;
  }

  /** Sets the current state. With a chosen branch (`through`) the first call starts a comparison. */
  begin(state: Certified): void {
    const isFirst = this.#at === undefined;
    this.#at = state;
    this.#isStuck = false;
    if (isFirst && this.#options.through !== undefined) this.hint();
  }

  /** Called after switching; yet another branch may become better. */
  taken(): void {
    this.#better = deferred();
    this.#inVain = 0;
  }

  /**
   * Compares once more at the end of the run if there was ever evidence of another branch; returns the better branch,
   * if any.
   */
  async atTheEnd(state: Certified): Promise<Better | undefined> {
    if (!this.#wasHinted) return undefined;
    this.#at = state;
    await this.#comparison;
    await this.#begin();
    return firstOf<Better | undefined>([this.better, Promise.resolve(undefined)]);
  }

  /** Called on evidence of another branch; triggers a comparison. With a key it counts only from the roster. */
  hint(key?: WorkerId): void {
    const isStranger = key !== undefined && !this.#at?.ledger.members.some((m) => m.key === key);
    if (this.#at === undefined || isStranger || this.#comparison !== undefined) return;
    this.#wasHinted = true;
    if (this.#options.clock.now() >= this.#nextQueryMs) void this.#begin();
  }

  /** Called when evidence of a decided round does not arrive: searches for a later certified state. */
  stuck(): void {
    this.#isStuck = true;
    this.hint();
  }

  /** Runs one comparison. Never rejects. */
  #begin(): Promise<void> {
    const { clock, reporter, signal, spec } = this.#options;
    this.#comparison = this.#compare()
      .catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        if (!signal.aborted) reporter.branchesUnavailable(this.#at!.round, why);
      })
      .finally(() => {
        const wait = spec.timing.viewMs * 2 ** Math.min(this.#inVain++, MOST_DOUBLINGS);
        this.#nextQueryMs = clock.now() + wait;
        this.#comparison = undefined;
      });
    return this.#comparison;
  }

  async #compare(): Promise<void> {
    const { history, through, spec, reporter } = this.#options;
    const { start, events, restore } = await history();
    const path = pathOf(start, events, through);
    if (through !== undefined && !path.stops.has(through)) reporter.unknownBranch(through);
    // the state may have advanced during the queries
    const state = this.#at!;
    const tip = path.tip.chain.parent;
    if (this.#isStuck && path.stops.has(state.parent)) return this.#skip(path, state, restore);
    if (path.stops.has(state.parent) || state.recent.includes(tip)) return;
    const ours = pathOf(start, events, state.parent);
    const isSeen = ours.stops.has(state.parent);
    const fork = forkOf(isSeen ? [...ours.stops.keys()] : state.recent, path);
    const depth = state.round - fork;
    const obstacle = obstacleTo(depth, isSeen, spec);
    const comparison = { round: state.round, fork, depth, ours: state.parent, theirs: tip };
    const isChosen = through !== undefined && path.stops.has(through);
    if (obstacle !== undefined && !isChosen) return reporter.forked({ ...comparison, obstacle });
    const restored = await restore(path);
    if (restored === undefined) return reporter.forked({ ...comparison, obstacle: 'not-whole' });
    this.#better.settle({ path, state: restored, votes: path.tip.votes, fork });
  }

  /** Continues from a later state of the same branch, if relays have one with all its evidence. */
  async #skip(path: Path, { round }: Certified, restore: KnownHistory['restore']): Promise<void> {
    if (path.tip.chain.round <= round) return;
    const restored = await restore(path);
    if (!restored || !this.#isStuck || this.#at!.round !== round) return;
    this.#better.settle({ path, state: restored, votes: path.tip.votes, fork: round });
  }
}

/** Returns the reason not to switch automatically, if any. A branch that relays do not have cannot be compared. */
const obstacleTo = (depth: number, isSeen: boolean, { timing }: RunSpec): Obstacle | undefined => {
  if (!isSeen) return 'ours-unseen';
  return depth > timing.reorgDepth ? 'too-deep' : undefined;
};

/** Returns the first round that differs on this path; `outcomes` are oldest first. */
function forkOf(outcomes: readonly Digest[], { stops }: Path): number {
  const shared = outcomes.findLast((digest) => stops.has(digest));
  return shared === undefined ? 0 : stops.get(shared)!.chain.round;
}

interface Options extends ReadOptions {
  genesis(): Certified;
}

export function createHistory(spec: RunSpec, options: Options): ReadHistory {
  const { signal, clock = systemClock } = options;
  return async () => {
    const start = options.genesis();
    const decisions = await decisionsOf(spec, start, options);
    return { start, events: decisions.gathered, restore };

    async function restore(path: Path): Promise<Certified | undefined> {
      const end = path.tip.chain;
      const point = (await checkpointOn(path, spec, start.params.layout, options))?.state ?? start;
      const listed = [...path.stops.values()].flatMap(({ outcome }) =>
        outcome && outcome.round >= point.round
          ? [...outcome.accepted, ...outcome.rejected].map(({ manifest }) => manifest)
          : [],
      );
      const payloads = await fetchManifests(listed, spec.limits.payloadBytes, options);
      const playing = replay(point, decisions.with(payloads), end.parent, options.sha256);
      for (;;) {
        const { done, value } = playing.next();
        // yield between model steps
        await clock.sleep(0, signal);
        if (!done) continue;
        const { state } = value;
        return hasModel(state) && state.parent === end.parent ? state : undefined;
      }
    }
  };
}
