/** The events of a followed run, folded into its picture: heartbeats, refusals, replayed rounds. */
import { safeLine } from '../base/errors.ts';
import type { Chain } from '../certified/decisions/chain.ts';
import type { Gathered } from '../certified/decisions/evidence.ts';
import type { ReplayedRound } from '../certified/decisions/replay.ts';
import { gather } from '../certified/history/gather.ts';
import { type Explanation, explain } from '../certified/records/explain.ts';
import type { SignedEvent } from '../network/event.ts';
import type { Heartbeat } from '../run/contribution.ts';
import { lossUnitOf } from '../run/data-forms.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { isOfText } from '../run/settings.ts';
import { type RunSpec, tierName } from '../run/spec/run-spec.ts';
import { computeProgress } from './picture-of.ts';
import type { RefusalPicture, RelayPicture, RunPicture } from './run-picture.ts';

/** Newest rounds replayed for each picture, in addition to those that a fork may undo. */
const UNSETTLED = 8;
/** Maximum number of refused events in a picture. */
const MOST_REFUSED = 200;
/** Maximum number of keys outside the roster that are tracked. */
const MOST_KEYS = 4096;

export class RunView {
  readonly #spec: RunSpec;
  readonly #run: Digest;
  readonly #start: Chain;
  readonly #heartbeats = new Map<WorkerId, Heartbeat>();
  readonly #lastSigns = new Map<WorkerId, number>();
  readonly #refused: RefusalPicture[] = [];
  #members: ReadonlySet<WorkerId>;
  #replayed: readonly ReplayedRound[] = [];
  #gathered: Gathered;
  #tip: Chain;
  #events = 0;

  constructor(spec: RunSpec, run: Digest, start: Chain) {
    this.#spec = spec;
    this.#run = run;
    this.#start = start;
    this.#tip = start;
    this.#gathered = gather([], { run, spec });
    this.#members = new Set(spec.founders);
  }

  get tip(): Chain {
    return this.#tip;
  }

  get gathered(): Gathered {
    return this.#gathered;
  }

  /** Number of keys that are or were in the roster. */
  get keys(): number {
    return this.#members.size;
  }

  knows(key: WorkerId): boolean {
    return this.#members.has(key);
  }

  addEvents(events: readonly SignedEvent[]): void {
    this.#events += events.length;
    for (const { pubkey, created_at } of events) this.#sign(pubkey, created_at);
  }

  hear(heartbeat: Heartbeat): void {
    const { worker, createdAt } = heartbeat;
    const before = this.#heartbeats.get(worker);
    if (before && before.createdAt >= createdAt) return;
    if (!before && this.#heartbeats.size >= MOST_KEYS && !this.knows(worker)) return;
    this.#heartbeats.set(worker, heartbeat);
    this.#sign(worker, createdAt);
  }

  refuse(refusal: RefusalPicture): void {
    this.#refused.push(refusal);
    if (this.#refused.length > MOST_REFUSED) this.#refused.shift();
  }

  explain(worker: WorkerId, round: number): Explanation | undefined {
    const at = this.#replayed.findIndex((each) => each.round === round);
    const replayed = this.#replayed[at];
    if (replayed === undefined) return undefined;
    return explain(worker, replayed, this.#replayed[at + 1], this.#gathered);
  }

  draw(
    gathered: Gathered,
    nowSeconds: number,
    relays: readonly RelayPicture[],
    isCaughtUp: boolean,
    isWhole = true,
  ): RunPicture {
    const seen = { heartbeats: this.#heartbeats, lastSigns: this.#lastSigns, nowSeconds };
    const settled = this.#settled(isWhole);
    const progress = computeProgress({ start: this.#start, gathered, settled, ...seen });
    const { rounds, workers, open, replayed, tip } = progress;
    this.#gathered = gathered;
    this.#replayed = replayed;
    this.#tip = tip;
    this.#members = new Set([...this.#spec.founders, ...workers.map(({ worker }) => worker)]);
    const { training, name, committee, telemetry } = this.#spec;
    return {
      run: this.#run,
      name: safeLine(name),
      model: training.model,
      tier: tierName(this.#spec),
      reports: telemetry,
      planned: training.rounds,
      innerSteps: training.innerSteps,
      seats: committee.size,
      hasText: isOfText(this.#spec.training),
      lossUnit: lossUnitOf(training, this.#spec.input),
      rounds,
      workers,
      open,
      relays,
      refused: [...unreadable(gathered), ...this.#refused],
      events: this.#events,
      isCaughtUp,
    };
  }

  /** Returns rounds that are too old to be undone; a deeper fork is found when all rounds are replayed again. */
  #settled(isWhole: boolean): readonly ReplayedRound[] {
    const depth = UNSETTLED + this.#spec.timing.reorgDepth;
    return isWhole ? [] : this.#replayed.slice(0, Math.max(0, this.#replayed.length - depth));
  }

  #sign(key: WorkerId, at: number): void {
    if (!this.#lastSigns.has(key) && this.#lastSigns.size >= MOST_KEYS && !this.knows(key)) return;
    this.#lastSigns.set(key, Math.max(at, this.#lastSigns.get(key) ?? 0));
  }
}

/** Returns refusals for unreadable events of members. */
const unreadable = ({ messages }: Gathered): readonly RefusalPicture[] =>
  [...messages.values()]
    .flatMap((message) =>
      message.type === 'unreadable'
        ? [{ at: 0, reason: message.reason, detail: `event ${message.id}`, worker: message.key }]
        : [],
    )
    .slice(0, MOST_REFUSED);
