/** Messages between the page and its background thread, as plain data; and how the page starts the thread. */
import type { ReplayReport, RoundReport } from '../certified/records/replay-run.ts';
import type { RunPicture } from '../dashboard/run-picture.ts';

export interface Source {
  /** `naddr1…` or the 64 hex digits of a run id; with neither the runs of the relays are listed. */
  readonly run: string;
  readonly relays: readonly string[];
  /** Endpoints of a drand chain, for runs whose draws wait for one. */
  readonly drand: readonly string[];
  /** Whether relays of a private network are dialled; only a person at this machine says so. */
  readonly mayDialPrivate: boolean;
}

export interface ListedRun {
  readonly run: string;
  readonly name: string;
  readonly model: string;
  readonly rounds: number;
  /** Unix seconds. */
  readonly createdAt: number;
}

export type ToJob =
  | { readonly type: 'open'; readonly source: Source }
  | { readonly type: 'open-archive'; readonly files: readonly Blob[]; readonly run: string }
  | { readonly type: 'explain'; readonly worker: string; readonly round: number }
  | { readonly type: 'verify' };

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
  | { readonly type: 'gathering'; readonly have: number }
  | { readonly type: 'checked'; readonly round: RoundReport; readonly of: number }
  | { readonly type: 'verified'; readonly report: ReplayReport; readonly seconds: number }
  | { readonly type: 'failed'; readonly message: string; readonly hint: string };

/** Starts it; it says so when it cannot start. */
export function openJob(hear: (message: FromJob) => void): { say(message: ToJob): void } {
  const worker = new Worker(scriptOf('job.js'), { type: 'module', name: 'nostrain' });
  worker.onmessage = ({ data }: MessageEvent<FromJob>) => hear(data);
  worker.onerror = ({ message }) =>
    hear({
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

/** The page lets only its own script be one (Trusted Types), where the browser knows that rule. */
function scriptOf(name: string): string {
  const { trustedTypes } = globalThis as { readonly trustedTypes?: Policies };
  const url = new URL(name, document.baseURI).href;
  return (trustedTypes
    ?.createPolicy('nostrain', { createScriptURL: () => url })
    .createScriptURL(url) ?? url) as string;
}
