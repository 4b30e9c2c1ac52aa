/**
 * One round of a validator: it scores the contributions on shared data rows, merges the best, and exchanges merges with
 * the other validators until all have arrived or the phase ends.
 */
import { createNotifier, deferred, notifiedOrDeadline, within } from '../base/async.ts';
import { deriveKey, type Key } from '../base/rng.ts';
import { weightOf } from '../consensus/aggregate/mean.ts';
import { chunkTree } from '../network/chunks/payload.ts';
import { codecReason } from '../network/wire/judged.ts';
import type { Packer } from '../network/wire/packer.ts';
import type { ChunkAssignment, Contribution, RejectReason } from '../run/contribution.ts';
import { type Digest, type EventId, roundName, type WorkerId } from '../run/ids.ts';
import type { Params } from '../tensor/params.ts';
import type { PartialVector } from '../tensor/partial-vector.ts';
import { boundedMean } from '../worker/apply-round.ts';
import { duplicatesAmong, gainOf, type Losses, SCORE_ROWS, scoresOf } from '../worker/gains.ts';
import type { Session } from '../worker/ports.ts';
import { nextMove, type Phases, type Scored, selectBest, type Timing } from './decide.ts';
import type { ValidatorLink, ValidatorMessage } from './link.ts';

/** What validators of a run share: their link, phases, and which contributions they merge. */
export interface MergingOptions {
  readonly link: ValidatorLink;
  readonly packer: Packer;
  readonly timing: Timing;
  /** Maximum contributions in a merge, at most 64. */
  readonly most: number;
  /** A contribution is merged if its score, in millionths of a nat, is above this. */
  readonly cutoff: number;
}

/** What a round starts from. */
export interface ExchangeStart {
  readonly round: number;
  readonly base: Digest;
  readonly params: Params;
  readonly assignment: ChunkAssignment;
  readonly phases: Phases;
}

export interface Exchanged {
  /** Merges by validator, this one's included; empty if its own is invalid. */
  readonly merges: ReadonlyMap<WorkerId, Contribution>;
  readonly missing: readonly WorkerId[];
}

/** A merge as it is sent, and as it is decoded. */
interface Merge {
  readonly payload: Uint8Array;
  readonly codec: string;
  readonly root: Digest;
  /** Ids of its contributions, ascending. */
  readonly merged: readonly EventId[];
  readonly delta: PartialVector;
}

/** Data rows of a round, and how to measure losses on them. */
interface Rows {
  readonly key: Key;
  readonly losses: Losses;
}

/** Sender in the payload of a merge: equal merges are equal payloads. */
const NO_SENDER = '0'.repeat(64);
/** Share of the scoring phase by which the nonce of the drawn validator may be early or late. */
const DRAW_SHARE = 1 / 4;
/** Standard errors by which a merge that cannot be computed again may be worse than the cutoff. */
const MOST_ERRORS = 3;

export class Exchange {
  readonly #options: MergingOptions;
  readonly #start: ExchangeStart;
  readonly #session: Session;
  readonly #changed = createNotifier();
  readonly #merges = new Map<WorkerId, Contribution>();
  readonly #judging = new Set<WorkerId>();
  readonly #resent = new Map<WorkerId, number>();
  readonly #drawn: WorkerId;
  readonly #prepared = deferred<void>();
  #contributions: readonly Contribution[] = [];
  #rows: Rows | undefined;
  #nonce: string | undefined;
  #local: Merge | undefined;

  constructor(start: ExchangeStart, session: Session, options: MergingOptions) {
    this.#start = start;
    this.#session = session;
    this.#options = options;
    const draw = (key: WorkerId) =>
      deriveKey('nostrain/merging/draw', session.plan.run, start.round, key)[0];
    this.#drawn = [...options.link.validators].sort((a, b) => draw(a) - draw(b))[0]!;
  }

  /** Takes a message of this round from another validator. */
  take(message: ValidatorMessage): void {
    const { step, key, round, nonce, to } = message;
    const { link, timing } = this.#options;
    if (round !== this.#start.round) return;
    // sooner, workers could still train on the rows
    const drawnMs = this.#start.phases.trainedMs - timing.scoreMs * DRAW_SHARE;
    if (step === 'draw' && key === this.#drawn && this.#session.ports.clock.now() >= drawnMs) {
      this.#nonce ??= nonce;
      this.#changed.notify();
    }
    if (step === 'merge' && !this.#merges.has(key) && !this.#judging.has(key)) {
      this.#judging.add(key);
      void this.#judge(message)
        .catch(() => undefined)
        .finally(() => this.#judging.delete(key));
    }
    const resent = this.#resent.get(key) ?? 0;
    if (step === 'ask-merge' && to === link.me && this.#local && resent < timing.retries) {
      this.#resent.set(key, resent + 1);
      this.#send(this.#local);
    }
  }

  /** Scores, merges and exchanges; ends within the exchange phase. */
  async play(contributions: readonly Contribution[]): Promise<Exchanged> {
    const { isValidator } = this.#options.link;
    this.#contributions = contributions;
    try {
      this.#rows = await this.#drawRows();
      if (isValidator) this.#local = await this.#mergeBest();
    } finally {
      this.#prepared.settle();
    }
    if (isValidator && this.#local === undefined) return { merges: new Map(), missing: [] };
    if (this.#local) this.#send(this.#local);
    await this.#wait();
    return { merges: new Map(this.#merges), missing: this.#missing };
  }

  get #missing(): readonly WorkerId[] {
    return this.#options.link.others.filter((key) => !this.#merges.has(key));
  }

  async #wait(): Promise<void> {
    const { clock } = this.#session.ports;
    const { round, base, phases } = this.#start;
    const { link, timing } = this.#options;
    for (let requests = 0; ; ) {
      const counts = { arrived: 0, expected: this.#missing.length, requests };
      const move = nextMove(counts, phases, timing, clock.now());
      if (move.type === 'step') return;
      if (move.type === 'wait') {
        await notifiedOrDeadline(this.#changed, clock, move.untilMs, this.#session.signal);
        continue;
      }
      requests++;
      for (const to of this.#missing) link.tell({ step: 'ask-merge', round, digest: base, to });
    }
  }

  /** Draws the rows that all validators measure on; undefined if the trainer cannot measure. */
  async #drawRows(): Promise<Rows | undefined> {
    const { plan, signal } = this.#session;
    const { clock, trainer } = this.#session.ports;
    const { link, timing } = this.#options;
    const { round, base, phases } = this.#start;
    const untilMs = phases.trainedMs + timing.scoreMs * DRAW_SHARE;
    if (link.me === this.#drawn) {
      const sent = link.send({ step: 'draw', round, digest: base });
      this.#nonce = (await within(sent, untilMs - clock.now(), clock, signal))?.nonce;
    }
    while (this.#nonce === undefined && clock.now() < untilMs) {
      await notifiedOrDeadline(this.#changed, clock, untilMs, signal);
    }
    const key = deriveKey('nostrain/merging/rows', plan.run, round, base, this.#nonce ?? '');
    const measure = trainer.measure?.bind(trainer);
    return (
      measure && {
        key,
        losses: (params) => measure(params, 'validation', { key, rows: SCORE_ROWS }),
      }
    );
  }

  /** Returns the mean of the best contributions; undefined if it is invalid, which is reported. */
  async #mergeBest(): Promise<Merge | undefined> {
    const { ports, signal } = this.#session;
    const { round, phases } = this.#start;
    const { clock, report } = ports;
    const scored: Scored[] = [];
    await within(this.#scoreInto(scored), phases.scoredMs - clock.now(), clock, signal);
    const { merged, skipped } = selectBest([...scored], this.#options);
    for (const each of skipped) report({ type: 'refused', round, ...each });
    const rows = this.#contributions.filter(({ worker }) => merged.includes(worker));
    const local = rows.length === 0 ? undefined : await this.#meanOf(rows);
    if (local && Number.isFinite((await this.#gainOf(local.delta)).gain)) {
      const { me } = this.#options.link;
      this.#merges.set(me, contributionOf(me, local, this.#start));
      return local;
    }
    const message =
      `${roundName(round)} has no valid merge of ${rows.length} contributions: this validator ` +
      'skips the exchange and adopts the state of the others';
    report({ type: 'notice', message });
    return undefined;
  }

  async #scoreInto(scored: Scored[]): Promise<void> {
    const { params, phases } = this.#start;
    if (this.#rows === undefined) return;
    const { key, losses } = this.#rows;
    const { duplicates } = duplicatesAmong(this.#contributions, new Set());
    const scores = scoresOf(params.values, this.#contributions, duplicates, key, losses);
    for await (const [worker, score] of scores) {
      scored.push({ worker, score });
      if (this.#session.ports.clock.now() >= phases.scoredMs) return;
    }
  }

  /** Returns the bounded mean of contributions, packed: the same payload on every validator. */
  async #meanOf(contributions: readonly Contribution[]): Promise<Merge> {
    const { plan } = this.#session;
    const { params } = this.#start;
    const { weights, weightCap: cap } = plan;
    const rows = contributions.map((one) => ({
      ...one,
      id: one.eventId,
      late: false,
      weight: weightOf(one.examples, { weights, cap }),
    }));
    const { mean } = boundedMean(rows, { params, histories: [[]] }, plan, {});
    const { payload, codec, sent } = await this.#options.packer.packInTurns(
      mean.mean,
      this.#context,
    );
    const merged = contributions.map(({ eventId }) => eventId).sort();
    return { payload, codec, root: chunkTree(payload).root, merged, delta: sent };
  }

  get #context() {
    const { round, assignment } = this.#start;
    return { round, worker: NO_SENDER, assignment };
  }

  /** Measures what a merge does to the loss. Without a trainer that measures, it does nothing. */
  async #gainOf(delta: PartialVector): Promise<Awaited<ReturnType<typeof gainOf>>> {
    const { values } = this.#start.params;
    if (this.#rows === undefined) return { gain: 0, error: Number.POSITIVE_INFINITY };
    const { losses } = this.#rows;
    return gainOf(values, { delta }, await losses(values), losses);
  }

  #send({ payload, codec, merged }: Merge): void {
    const { round, base } = this.#start;
    this.#options.link.tell({ step: 'merge', round, digest: base, codec, merged }, payload);
  }

  /** Pulls, decodes and checks a merge; it counts unless it is refused. */
  async #judge(message: ValidatorMessage): Promise<void> {
    const { key, digest } = message;
    const { base, phases, round } = this.#start;
    const { clock, report } = this.#session.ports;
    const refuse = (reason: RejectReason, detail: string) =>
      report({ type: 'refused', round, worker: key, reason, detail });
    if (digest !== base) return refuse('base-mismatch', `merged from ${digest}, we from ${base}`);
    await this.#prepared.promise;
    const isEqual = message.root === this.#local?.root;
    const payload = isEqual
      ? this.#local!.payload
      : await this.#options.link.pull(message, phases.mergedMs - clock.now());
    if (payload === undefined)
      return refuse('payload-missing', 'its chunks did not arrive in time');
    const opened = this.#options.packer.open(payload, message.codec ?? '', this.#context);
    if (!opened.ok) return refuse(codecReason(opened.issue.code), opened.issue.message);
    const delta = opened.value;
    const untrue = isEqual ? undefined : await this.#refusalOf(message, delta);
    if (untrue) return refuse(...untrue);
    const { root = '', codec = '', merged = [] } = message;
    const merge = { payload, codec, root, merged, delta };
    this.#merges.set(key, contributionOf(key, merge, this.#start));
    this.#changed.notify();
  }

  /** Computes a merge again if its contributions are all here, and measures it otherwise. */
  async #refusalOf(
    { merged = [], root }: ValidatorMessage,
    delta: PartialVector,
  ): Promise<readonly [RejectReason, string] | undefined> {
    const named = this.#contributions.filter(({ eventId }) => merged.includes(eventId));
    if (named.length === merged.length && named.length > 0) {
      const recomputed = await this.#meanOf(named);
      if (recomputed.root === root) return undefined;
      return ['not-the-mean', `its ${named.length} contributions have the mean ${recomputed.root}`];
    }
    const { gain, error } = await this.#gainOf(delta);
    if (gain + MOST_ERRORS * error > this.#options.cutoff / 1e6) return undefined;
    return ['low-score', `it lowers the loss by ${gain}`];
  }
}

/** Returns a merge in the form of a contribution, for the outer step. */
const contributionOf = (
  worker: WorkerId,
  { root, delta, payload }: Merge,
  { round, base }: ExchangeStart,
): Contribution => ({
  worker,
  eventId: root,
  round,
  base,
  examples: 1,
  steps: 1,
  createdAt: 0,
  eventBytes: payload.length,
  payloadBytes: payload.length,
  delta,
});
