/**
 * Screening by loss (Zeno, arXiv 1805.10032): a member applies each contribution and measures the loss on data rows
 * that only it can draw. It does not propose harmful contributions and rejects proposals that list very harmful ones.
 * This is an opinion that replays do not repeat. A vote waits at most a quarter of a view for measurements.
 */

import type { Clock } from '../../base/async.ts';
import { deriveKey, type Key } from '../../base/rng.ts';
import type { ViewId } from '../../consensus/round/round-state.ts';
import { distributionOf, type GainDistribution, harmBound } from '../../consensus/scores.ts';
import type { Contribution } from '../../run/contribution.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { Commit, Signed } from '../../run/vote.ts';
import type { Vector } from '../../tensor/params.ts';
import { gainOf, type Losses, type MeasuredGain } from '../../worker/gains.ts';
import { rosterIndicesOf } from '../rounds/compose.ts';
import type { Screened } from '../rounds/events.ts';
import type { CertifiedFeature, ContributionOpinion, FeatureHost } from './feature.ts';

/** Deviations below zero gain at which a member does not propose a contribution. */
const STRICT = 3;
/** Deviations below zero gain at which a member rejects a proposal that lists it, in view 0; doubles with each view. */
const LOOSE = 9;
const MOST_DOUBLINGS = 10;

/** One member's opinion of the contributions that it measured. Unmeasured contributions are accepted. */
export class Judgment implements ContributionOpinion {
  readonly #findings: ReadonlyMap<EventId, MeasuredGain>;
  readonly #distribution: GainDistribution | undefined;

  constructor(findings: ReadonlyMap<EventId, MeasuredGain>) {
    this.#findings = findings;
    const finite = [...findings.values()].filter(({ gain }) => Number.isFinite(gain));
    // a single contribution gives nothing to compare with
    if (findings.size < 2 || finite.length === 0) return;
    const errors = finite.map(({ error }) => error).sort((a, b) => a - b);
    const gains = finite.map(({ gain }) => gain);
    this.#distribution = distributionOf(
      gains,
      Math.max(errors[errors.length >> 1]!, Number.MIN_VALUE),
    );
  }

  mayPropose(id: EventId): boolean {
    return this.#isAbove(id, STRICT);
  }

  mayAccept(id: EventId, view: number): boolean {
    return this.#isAbove(id, LOOSE * 2 ** Math.min(view, MOST_DOUBLINGS));
  }

  /**
   * Reports whether others must list it: it does no harm at all, so an honest proposer cannot measure much harm either.
   */
  isGood(id: EventId): boolean {
    return this.#isAbove(id, 0);
  }

  /** Returns its gain and the bound that it had to reach to be proposed. */
  gainAndBound(id: EventId): Pick<Screened, 'gain' | 'bound'> {
    const { gain = 0, error = 0 } = this.#findings.get(id) ?? {};
    const bound = this.#distribution ? harmBound(this.#distribution, STRICT, error) : 0;
    return { gain: Number.isFinite(gain) ? gain : null, bound };
  }

  #isAbove(id: EventId, width: number): boolean {
    const finding = this.#findings.get(id);
    if (finding === undefined || this.#distribution === undefined) return true;
    if (!Number.isFinite(finding.gain)) return false;
    return finding.gain >= harmBound(this.#distribution, width, finding.error);
  }
}

/**
 * Returns how many data rows a contribution is measured on: fewer if many contributions share the work of estimating
 * the deviation.
 */
export const rowsFor = (workers: number): number => (workers > 24 ? 8 : workers > 16 ? 16 : 32);
/**
 * Maximum contributions that a member measures in a round. With a committee of 64, half its members measure each of 64
 * contributions.
 */
const MOST_MEASURED = 32;
/** Longest wait of a vote for measurements, as a share of the view. */
const WAIT_SHARE = 1 / 4;

export interface ScreenOptions {
  /** Parameters that the round's contributions start from. */
  readonly params: Vector;
  readonly round: number;
  readonly workers: number;
  readonly viewMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  find(manifest: EventId): Pick<Contribution, 'delta' | 'worker'> | undefined;
  wake(): void;
  onFailure(error: unknown): void;
}

export class Screen {
  readonly #options: ScreenOptions;
  readonly #losses: Losses;
  readonly #order: (worker: WorkerId) => Key;
  readonly #findings = new Map<EventId, MeasuredGain>();
  readonly #wanted = new Map<EventId, WorkerId>();
  readonly #waits = new Map<string, number>();
  #before: Float32Array | undefined;
  #isMeasuring = false;
  #isBroken = false;

  constructor(options: ScreenOptions, losses: Losses, order: (worker: WorkerId) => Key) {
    this.#options = options;
    this.#losses = losses;
    this.#order = order;
  }

  get judgment(): Judgment {
    return new Judgment(this.#findings);
  }

  /** Queues a contribution; it is measured in the background. */
  want(manifest: EventId): void {
    if (this.#wanted.has(manifest) || this.#findings.has(manifest) || this.#isBroken) return;
    const worker = this.#options.find(manifest)?.worker;
    if (worker === undefined) return;
    this.#wanted.set(manifest, worker);
    if (!this.#isMeasuring) void this.#measureAll();
  }

  /** Reports whether a vote in this view may be cast: all these contributions are measured, or the wait is over. */
  isReady(manifests: readonly EventId[], { attempt, view }: ViewId): boolean {
    for (const each of manifests) this.want(each);
    if (!this.#isMeasuring || !manifests.some((each) => this.#wanted.has(each))) return true;
    const { clock, signal, viewMs, wake } = this.#options;
    const viewKey = `${attempt}/${view}`;
    const untilMs = this.#waits.get(viewKey);
    if (untilMs !== undefined) return clock.now() >= untilMs;
    const waitMs = viewMs * WAIT_SHARE;
    this.#waits.set(viewKey, clock.now() + waitMs);
    void clock.sleep(waitMs, signal).then(wake, () => undefined);
    return false;
  }

  async #measureAll(): Promise<void> {
    const { params, signal, find, wake, onFailure } = this.#options;
    this.#isMeasuring = true;
    try {
      this.#before ??= await this.#losses(params);
      for (let id = this.#next(); id !== undefined && !signal.aborted; id = this.#next()) {
        const contribution = find(id);
        if (contribution !== undefined) {
          this.#findings.set(id, await gainOf(params, contribution, this.#before, this.#losses));
        }
        this.#wanted.delete(id);
        wake();
      }
    } catch (error) {
      this.#isBroken = true;
      if (!signal.aborted) onFailure(error);
    }
    this.#wanted.clear();
    this.#isMeasuring = false;
    wake();
  }

  /** Returns the next contribution in this member's own random order; undefined once it has measured enough. */
  #next(): EventId | undefined {
    if (this.#findings.size >= MOST_MEASURED) return undefined;
    const queue = [...this.#wanted].map(([id, worker]) => ({ id, order: this.#order(worker)[0] }));
    return queue.sort((a, b) => a.order - b.order)[0]?.id;
  }
}

/** Creates the screen of one round; only this member knows `secret`. */
function screenOf(
  { measure, secret }: NonNullable<FeatureHost['measuring']>,
  options: ScreenOptions,
): Screen {
  const { round, workers } = options;
  const key = deriveKey('nostrain/screening', secret, round);
  const order = (worker: WorkerId) => deriveKey('nostrain/screening/order', secret, round, worker);
  const rows = rowsFor(workers);
  return new Screen(options, (params) => measure(params, 'shard', { key, rows }), order);
}

/**
 * Measures what each contribution does to the loss and votes against harmful ones. Without a training engine it has no
 * opinion.
 */
export const screening: CertifiedFeature = {
  isIn: (spec) => spec.screening,
  create: ({ measuring, clock, reporter }) => ({
    judge({ state, context, signal, find, wake }) {
      const { round, roster, timing } = context;
      const screen =
        measuring &&
        screenOf(measuring, {
          params: state.params.values,
          round,
          viewMs: timing.viewMs,
          workers: roster.length,
          clock,
          signal,
          find,
          wake,
          onFailure: (error) => reporter.unmeasured(round, error),
        });
      return {
        arrived: (manifest) => screen?.want(manifest),
        isReady: (manifests, view) => screen?.isReady(manifests, view) ?? true,
        judgment(available) {
          const judgment = screen?.judgment ?? new Judgment(new Map());
          for (const { worker, manifest } of available) {
            if (judgment.mayPropose(manifest)) continue;
            reporter.screened(round, { worker, manifest, ...judgment.gainAndBound(manifest) });
          }
          return judgment;
        },
        commitFields(available) {
          const { judgment } = screen ?? {};
          const harmful = available.filter(
            ({ manifest }) => judgment?.mayPropose(manifest) === false,
          );
          return { screening: { screened: rosterIndicesOf(state.ledger, harmful) } };
        },
      };
    },
  }),
  describe: (_, commits, roster) => ({
    screened: screenedBy(commits).map((index) => roster[index]!),
  }),
};

/** Returns the roster indices that more than half of the votes screen. */
function screenedBy(votes: readonly Signed<Commit>[]): readonly number[] {
  const counts = new Map<number, number>();
  for (const { features } of votes) {
    for (const index of features?.screening?.screened ?? []) {
      counts.set(index, (counts.get(index) ?? 0) + 1);
    }
  }
  const most = [...counts].filter(([, count]) => 2 * count > votes.length);
  return most.map(([index]) => index).sort((a, b) => a - b);
}
