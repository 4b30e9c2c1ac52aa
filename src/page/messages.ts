/** Messages between the page and its background thread, and the function that starts the thread. */
import type { ReplayReport, RoundReport } from '../certified/records/replay-run.ts';
import type { RunPicture } from '../dashboard/run-picture.ts';
import type { EventDraft } from '../network/event.ts';
import type { Parent } from '../run/spec/parent.ts';
import type { Comment } from '../social/comments.ts';
import type { ZapVerdict } from '../social/zaps.ts';
import type { Address } from './address.ts';

export interface Source extends Pick<Address, 'run' | 'relays' | 'drand'> {
  /** Allows relays in a private network; only the user of this machine can allow them. */
  readonly mayDialPrivate: boolean;
}

export interface ListedRun {
  readonly run: string;
  readonly name: string;
  readonly model: string;
  readonly rounds: number;
  /** Unix seconds. */
  readonly createdAt: number;
  /** The run that this one continues, and the number of its rounds before the fork. */
  readonly parent?: Pick<Parent, 'run' | 'rounds'> | undefined;
}

/** A note about the run that carries a zap split. */
export interface SplitNote {
  readonly id: string;
  readonly author: string;
  /** Unix seconds, as signed. */
  readonly at: number;
  readonly verdict: ZapVerdict;
}

export type ToJob =
  | { readonly type: 'open'; readonly source: Source }
  | { readonly type: 'open-archive'; readonly files: readonly Blob[]; readonly run: string }
  | { readonly type: 'explain'; readonly worker: string; readonly round: number }
  | { readonly type: 'verify' }
  /** Asks for the draft of a note, with a link to this page. */
  | { readonly type: 'draft'; readonly page: string | undefined }
  /** Publishes what the signer of the page returned. */
  | { readonly type: 'post'; readonly event: unknown };

export type FromJob =
  | { readonly type: 'picture'; readonly picture: RunPicture }
  | { readonly type: 'reading'; readonly have: number }
  | {
      readonly type: 'runs';
      readonly runs: readonly ListedRun[];
      readonly relays: readonly string[];
    }
  | {
      readonly type: 'explained';
      readonly worker: string;
      readonly round: number;
      readonly why: readonly string[];
    }
  | {
      readonly type: 'social';
      readonly comments: readonly Comment[];
      readonly notes: readonly SplitNote[];
    }
  /** The parent of the run, and its forks on these relays. */
  | {
      readonly type: 'lineage';
      readonly parent: Pick<Parent, 'run' | 'rounds'> | undefined;
      readonly forks: readonly ListedRun[];
    }
  | { readonly type: 'drafted'; readonly draft: EventDraft }
  | { readonly type: 'posted'; readonly relays: readonly string[] }
  | { readonly type: 'gathering'; readonly have: number }
  | { readonly type: 'checked'; readonly round: RoundReport; readonly of: number }
  | { readonly type: 'verified'; readonly report: ReplayReport; readonly seconds: number }
  | { readonly type: 'failed'; readonly message: string; readonly hint: string };

/** Starts the background thread. If it fails, `receive` gets a `failed` message. */
export function openJob(receive: (message: FromJob) => void): { say(message: ToJob): void } {
  const worker = new Worker(scriptOf('job.js'), { type: 'module', name: 'nostrain' });
  worker.onmessage = ({ data }: MessageEvent<FromJob>) => receive(data);
  worker.onerror = ({ message }) =>
    receive({
      type: 'failed',
      message: `the background thread failed: ${message}`,
      hint: 'reload the page',
    });
  return { say: (message) => worker.postMessage(message) };
}

interface Policies {
  createPolicy(
    name: string,
    rules: { createScriptURL(url: string): string },
  ): { createScriptURL(url: string): unknown };
}

/** Returns the URL of a script, as a Trusted Type if the browser supports them: the page allows no other script. */
function scriptOf(name: string): string {
  const { trustedTypes } = globalThis as { readonly trustedTypes?: Policies };
  const url = new URL(name, document.baseURI).href;
  return (trustedTypes
    ?.createPolicy('nostrain', { createScriptURL: () => url })
    .createScriptURL(url) ?? url) as string;
}
