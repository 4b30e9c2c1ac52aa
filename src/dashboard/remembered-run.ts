/** What is remembered of a run between two pictures: heartbeats, signs of life, refusals, and rounds that were replayed before. */
import { safeLine } from '../base/errors.ts';
import type { Chain } from '../certified/decisions/chain.ts';
import type { Gathered } from '../certified/decisions/evidence.ts';
import type { ReplayedRound } from '../certified/decisions/replay.ts';
import { type Explanation, explain } from '../certified/records/explain.ts';
import type { SignedEvent } from '../network/event.ts';
import { lossUnitOf } from '../run/data-forms.ts';
import type { Heartbeat } from '../run/heartbeat.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { isOfText } from '../run/settings.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import { tellRun } from './picture-of.ts';
import type { RefusalPicture, RelayPicture, RunPicture } from './run-picture.ts';

/** Newest rounds that are replayed for each picture, beside those that the run may take back. */
const UNSETTLED = 8;
const MOST_REFUSED = 200;
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
  #gathered: Gathered | undefined;
  #events = 0;

  constructor(spec: RunSpec, run: Digest, start: Chain) {
    this.#spec = spec;
    this.#run = run;
    this.#start = start;
    this.#members = new Set(spec.founders);
  }

  /** How many keys have had a place in the roster. */
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
    if (replayed === undefined || this.#gathered === undefined) return undefined;
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
    const told = tellRun({ start: this.#start, gathered, settled, ...seen });
    const { rounds, workers, open, replayed } = told;
    this.#gathered = gathered;
    this.#replayed = replayed;
    this.#members = new Set([...this.#spec.founders, ...workers.map(({ worker }) => worker)]);
    const { training, name, tier, committee, telemetry } = this.#spec;
    return {
      run: this.#run,
      name: safeLine(name),
      model: training.model,
      tier,
      reports: telemetry,
      planned: training.rounds,
      innerSteps: training.innerSteps,
      seats: committee.size,
      hasText: isOfText(this.#spec.training),
      lossUnit: lossUnitOf(training, this.#spec.input),
      rounds,
      workers,
      ...(open && { open }),
      relays,
      refused: [...unreadable(gathered), ...this.#refused],
      events: this.#events,
      isCaughtUp,
    };
  }

  /** Rounds long decided: a fork that deep is found when all is replayed again. */
  #settled(isWhole: boolean): readonly ReplayedRound[] {
    const depth = UNSETTLED + this.#spec.timing.reorgDepth;
    return isWhole ? [] : this.#replayed.slice(0, Math.max(0, this.#replayed.length - depth));
  }

  #sign(key: WorkerId, at: number): void {
    if (!this.#lastSigns.has(key) && this.#lastSigns.size >= MOST_KEYS && !this.knows(key)) return;
    this.#lastSigns.set(key, Math.max(at, this.#lastSigns.get(key) ?? 0));
  }
}

/** Events that members signed and that say nothing of any use. */
const unreadable = ({ messages }: Gathered): readonly RefusalPicture[] =>
  [...messages.values()]
    .flatMap((message) =>
      message.type === 'unreadable'
        ? [{ at: 0, reason: message.reason, detail: `event ${message.id}`, worker: message.key }]
        : [],
    )
    .slice(0, MOST_REFUSED);
