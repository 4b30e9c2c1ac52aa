/** What the methods of the API work with: relays, the key of the server, and the runs that it follows. */
import { manifest } from '../../../../kinds/manifest.ts';
import { vote } from '../../../../kinds/vote.ts';
import { deferred, within } from '../../../base/async.ts';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import type { HistoryOptions } from '../../../certified/records/archive.ts';
import { decodeRunAddress } from '../../../certified/wire/runs.ts';
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
  onNotice(message: string): void;
}

/** The topics of the API, each with the kind of its events. */
const topics: Readonly<Record<string, number>> = {
  'tenzro/training': manifest.kind,
  'tenzro/training/syncer': vote.kind,
};

/**
 * Checks kind and signature of an event that another program signed. Throws a ConfigError: `event/WrongKind` for an
 * event of another topic or method, `event/BadSignature` for a changed one.
 */
export function assertEvent(event: SignedEvent, kind: number): void {
  if (event.kind !== kind) {
    const topicOf = (of: number) => Object.keys(topics).find((name) => topics[name] === of);
    const topic = topicOf(kind);
    const other = topicOf(event.kind);
    throw new ConfigError('event/WrongKind', `the event has kind ${event.kind}, not ${kind}`, {
      hint: other
        ? `events of topic ${other} belong to another method`
        : 'docs/api.md lists the kinds',
      data: { expected: kind, got: event.kind, ...(topic && { topic }) },
    });
  }
  const verified = verifyEvent(event, nativeCrypto);
  if (verified.ok) return;
  throw new ConfigError('event/BadSignature', verified.issue.message, {
    hint: 'send the event exactly as it was signed',
  });
}

/** Throws a ConfigError (`event/Refused`) with the reason for which the run does not count an event. */
export function throwRefusal({ reason, detail }: Rejection): never {
  throw new ConfigError('event/Refused', `the run does not count it (${reason}): ${detail}`, {
    hint: 'getRun has the current round, its previous outcome and its model root',
    data: { reason },
  });
}

/** Returns how the events of a followed run are read again for receipts and challenges. */
export const historyOptions = (
  { signal, sha256, onNotice }: Api,
  { run, spec }: OpenRun,
): HistoryOptions => ({
  run,
  spec,
  signal,
  sha256,
  crypto: nativeCrypto,
  onNotice,
});

/** Returns what `getRun` answers and the event stream sends. */
function stateOf(picture: RunPicture) {
  const { run, name, model, tier, planned, rounds, open, workers } = picture;
  const last = rounds.at(-1);
  return {
    run,
    name,
    model,
    tier,
    planned,
    decided: rounds.length,
    complete: open === undefined,
    workers: workers.filter(({ inRoster }) => inRoster).length,
    last: last && {
      round: last.round,
      result: last.result,
      outcome: last.outcome,
      modelRoot: last.modelRoot,
      time: last.time,
      accepted: last.accepted.length,
      loss: last.sharedLoss ?? last.trainingLoss,
    },
    open: open && {
      round: open.round,
      since: open.since,
      roster: open.roster.length,
      sent: open.sent.length,
      attempt: open.attempt,
      view: open.view,
      committee: open.committee,
      quorum: open.quorum,
      prepared: open.prepared.length,
      committed: open.committed.length,
      lacks: open.lacks,
    },
  };
}

type RunState = ReturnType<typeof stateOf>;

/** A run that the server follows. */
export interface FollowedRun {
  readonly open: OpenRun;
  /** Aborted when the run is not followed any more. */
  readonly signal: AbortSignal;
  state(): RunState;
  /** Calls back at every change until the returned function is called. */
  subscribe(listener: (state: RunState) => void): () => void;
}

/** Maximum runs followed at once; the one that was not asked for the longest is dropped. */
const MOST_RUNS = 16;
/** Milliseconds to wait until the stored events of a run are read. */
const CATCH_UP_MS = 60_000;

const dropped = (): RelayError =>
  new RelayError('run/dropped', 'the server follows other runs by now', {
    hint: 'ask again, and for fewer runs at a time',
  });

/** Follows each requested run from the first request on, so that later answers come from memory. */
export class FollowedRuns {
  readonly #options: RelaySession & Pick<HistoryOptions, 'beacon'>;
  readonly #runs = new Map<
    Digest,
    { readonly opening: Promise<FollowedRun>; stop(why: unknown): void }
  >();

  constructor(options: RelaySession & Pick<HistoryOptions, 'beacon'>) {
    this.#options = options;
  }

  /** Returns a run by id or address. Throws `run/not-found`, or `run/slow` if relays do not answer in time. */
  async get(name: string): Promise<FollowedRun> {
    const address = name.startsWith('naddr1') ? decodeRunAddress(name) : undefined;
    if (address?.ok === false) {
      throw new ConfigError('settings/value', `run is ${address.issue.message}`, {
        hint: 'name a run by its id (64 hex digits) or its whole address (naddr1…)',
      });
    }
    const run = address?.value.run ?? name;
    const entry = this.#runs.get(run) ?? this.#follow(run);
    this.#runs.delete(run);
    this.#runs.set(run, entry);
    if (this.#runs.size > MOST_RUNS) this.#drop(this.#runs.keys().next().value!);
    return entry.opening;
  }

  #drop(run: Digest, why: unknown = dropped()): void {
    this.#runs.get(run)?.stop(why);
    this.#runs.delete(run);
  }

  #follow(run: Digest) {
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#options.signal, stop.signal]);
    const listeners = new Set<(state: RunState) => void>();
    const caughtUp = deferred<true>();
    let state: RunState;
    const start = async (): Promise<FollowedRun> => {
      const open = await followRun(run, {
        ...this.#options,
        signal,
        crypto: nativeCrypto,
        onFailed: (error) => this.#drop(run, error),
        onPicture: (picture) => {
          if (!picture.isCaughtUp) return;
          state = stateOf(picture);
          for (const listener of listeners) listener(state);
          caughtUp.settle(true);
        },
      });
      if (!(await within(caughtUp.promise, CATCH_UP_MS, this.#options.clock, signal))) {
        throw new RelayError('run/slow', `relays did not send run ${run} in time`, {
          hint: 'try again later, or start the server with other relays',
        });
      }
      return {
        open,
        signal,
        state: () => state,
        subscribe(listener) {
          listeners.add(listener);
          return () => listeners.delete(listener);
        },
      };
    };
    const opening = start();
    opening.catch((error: unknown) => this.#drop(run, error));
    return { opening, stop: (why: unknown) => stop.abort(why) };
  }
}
