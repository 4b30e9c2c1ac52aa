/** What the methods of the API work with: relays, the key of the server, and the runs that it follows. */
import { manifest } from '../../../../kinds/manifest.ts';
import { vote } from '../../../../kinds/vote.ts';
import { deferred, within } from '../../../base/async.ts';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import type { HistoryOptions } from '../../../certified/records/archive.ts';
import { followRun, type OpenRun } from '../../../dashboard/follow-run.ts';
import type { RunPicture } from '../../../dashboard/run-picture.ts';
import type { RelaySession } from '../../../network/attachments/relay-chunks.ts';
import { type SignedEvent, type Signer, verifyEvent } from '../../../network/event.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import type { RelayReach } from '../../../node/net/relays.ts';
import type { Rejection } from '../../../run/contribution.ts';
import type { Digest } from '../../../run/ids.ts';

export interface Api extends RelaySession {
  readonly reach: RelayReach & { readonly relays: readonly string[] };
  /** Signs specs, invitations, receipts and verdicts; never votes or contributions, which its worker signs. */
  readonly signer: Signer;
  readonly runs: FollowedRuns;
  /** Folder of installed manifests of sealed data. */
  readonly sealedFolder: string;
  /** Text and published model from which steps are recomputed. */
  readonly files: { readonly corpus?: string; readonly base?: string };
  onNotice(message: string): void;
}

/** Returns the error of a call that a method refuses. */
export const refusal = (code: string, message: string, hint: string, data = {}): ConfigError =>
  new ConfigError(code, message, { hint, data });

/** The topics of the API by the kind of their events. */
const topics: ReadonlyMap<number, string> = new Map([
  [manifest.kind, 'tenzro/training'],
  [vote.kind, 'tenzro/training/syncer'],
]);

/**
 * Checks kind and signature of an event that another program signed. Throws a ConfigError: `event/WrongKind` for an
 * event of another topic or method, `event/BadSignature` for a changed one.
 */
export function assertEvent(event: SignedEvent, kind: number): void {
  if (event.kind !== kind) {
    const [topic, other] = [topics.get(kind), topics.get(event.kind)];
    const hint = other
      ? `events of topic ${other} belong to another method`
      : 'docs/api.md lists the kinds';
    const data = { expected: kind, got: event.kind, ...(topic && { topic }) };
    throw refusal('event/WrongKind', `the event has kind ${event.kind}, not ${kind}`, hint, data);
  }
  const verified = verifyEvent(event, nativeCrypto);
  if (verified.ok) return;
  const hint = 'send the event exactly as it was signed';
  throw refusal('event/BadSignature', verified.issue.message, hint);
}

/** Throws a ConfigError (`event/Refused`) with the reason for which the run does not count an event. */
export function throwRefusal({ reason, detail }: Pick<Rejection, 'reason' | 'detail'>): never {
  const hint = 'getRun has the current round, its previous outcome and its model root';
  const message = `the run does not count it (${reason}): ${detail}`;
  throw refusal('event/Refused', message, hint, { reason });
}

/** Returns how the events of a followed run are read again for receipts and challenges. */
export function historyOptions(api: Api, { run, spec }: OpenRun): HistoryOptions {
  const { signal, sha256, onNotice } = api;
  return { run, spec, signal, sha256, onNotice, crypto: nativeCrypto };
}

const pick = <T extends object, K extends keyof T>(value: T, ...names: readonly K[]) =>
  Object.fromEntries(names.map((name) => [name, value[name]])) as Pick<T, K>;

/** Returns what `getRun` answers and the event stream sends. */
export function stateOf(picture: RunPicture) {
  const { rounds, open, workers } = picture;
  const last = rounds.at(-1);
  return {
    ...pick(picture, 'run', 'name', 'model', 'tier', 'planned'),
    decided: rounds.length,
    complete: open === undefined,
    workers: workers.filter(({ inRoster }) => inRoster).length,
    last: last && {
      ...pick(last, 'round', 'result', 'outcome', 'modelRoot', 'time'),
      accepted: last.accepted.length,
      loss: last.sharedLoss ?? last.trainingLoss,
    },
    open: open && {
      ...pick(open, 'round', 'since', 'attempt', 'view', 'committee', 'quorum', 'lacks'),
      roster: open.roster.length,
      sent: open.sent.length,
      prepared: open.prepared.length,
      committed: open.committed.length,
    },
  };
}

export interface FollowedRun {
  readonly open: OpenRun;
  /** Dispatches `picture` when the run has a new picture. */
  readonly changes: EventTarget;
  /** Aborted when the run is not followed any more. */
  readonly signal: AbortSignal;
}

/** Maximum runs followed at once; the one that was not asked for the longest is dropped. */
const MOST_RUNS = 16;
/** Milliseconds to wait until the stored events of a run are read. */
const CATCH_UP_MS = 60_000;

/** Follows each requested run from the first request on, so that later answers come from memory. */
export class FollowedRuns {
  readonly #options: RelaySession & Pick<HistoryOptions, 'beacon'>;
  readonly #runs = new Map<Digest, { opening: Promise<FollowedRun>; stop: AbortController }>();

  constructor(options: RelaySession & Pick<HistoryOptions, 'beacon'>) {
    this.#options = options;
  }

  /** Returns a run. Throws `run/not-found`, or `run/slow` if relays do not answer in time. */
  async get(run: Digest): Promise<FollowedRun> {
    const entry = this.#runs.get(run) ?? this.#follow(run);
    this.#runs.delete(run);
    this.#runs.set(run, entry);
    if (this.#runs.size > MOST_RUNS) {
      const hint = 'ask again, and for fewer runs at a time';
      const dropped = new RelayError('run/dropped', 'the server follows other runs by now', {
        hint,
      });
      this.#drop(this.#runs.keys().next().value!, dropped);
    }
    return entry.opening;
  }

  #drop(run: Digest, why: unknown): void {
    this.#runs.get(run)?.stop.abort(why);
    this.#runs.delete(run);
  }

  #follow(run: Digest) {
    const stop = new AbortController();
    const opening = this.#open(run, AbortSignal.any([this.#options.signal, stop.signal]));
    opening.catch((error: unknown) => this.#drop(run, error));
    return { opening, stop };
  }

  async #open(run: Digest, signal: AbortSignal): Promise<FollowedRun> {
    const caughtUp = deferred<true>();
    const changes = new EventTarget();
    const open = await followRun(run, {
      ...this.#options,
      signal,
      crypto: nativeCrypto,
      onFailed: (error) => this.#drop(run, error),
      onPicture: ({ isCaughtUp }) => {
        if (isCaughtUp) caughtUp.settle(true);
        changes.dispatchEvent(new Event('picture'));
      },
    });
    if (await within(caughtUp.promise, CATCH_UP_MS, this.#options.clock, signal)) {
      return { open, changes, signal };
    }
    throw new RelayError('run/slow', `relays did not send run ${run} in time`, {
      hint: 'try again later, or start the server with other relays',
    });
  }
}
