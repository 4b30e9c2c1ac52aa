/**
 * Entry point of the Web Worker of a tab, which trains and votes. It is separate from the page's thread, whose timers
 * browsers slow down in the background.
 */
import { deferred, systemClock } from '../base/async.ts';
import { NostrainError, wordsOf } from '../base/errors.ts';
import { archiveRun } from '../certified/records/archive.ts';
import { replayRun } from '../certified/records/replay-run.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import { createRelaySet } from '../network/transport/relay-set.ts';
import { openSocket } from '../network/transport/socket.ts';
import { type FromWorker, parseLink, type TabLink, type ToWorker } from './link.ts';
import { runTab, watchSuspension } from './session.ts';
import type { Write } from './writer.ts';

const say = (message: FromWorker): void => self.postMessage(message);
const report = (event: RunEvent): void => say({ type: 'event', event });

const stop = new AbortController();
let link: TabLink | undefined;
let isPlaying = false;
let isVisible = true;
let write: Write | undefined;
/** Settled while the tab may train. */
let allowed = deferred<void>();
allowed.settle();

async function join({
  hash,
  host,
  chosen,
  name,
  isAccepted,
}: Extract<ToWorker, { type: 'join' }>): Promise<void> {
  if (isPlaying) return;
  isPlaying = true;
  try {
    link = parseLink(hash, host);
    await runTab({
      link,
      chosen,
      name,
      isAccepted,
      report,
      signal: stop.signal,
      isVisible: () => isVisible,
      untilAllowed: () => allowed.promise,
      onEnd: ({ round, head }) => say({ type: 'ended', rounds: round, root: head.modelRoot }),
      onDownload: downloadReporter(),
      onWriter: (given) => {
        write = given;
      },
    });
  } catch (error) {
    say(failureOf(error));
  } finally {
    isPlaying = false;
  }
}

/** Interval between reports of a download, in milliseconds. */
const PROGRESS_MS = 250;

function downloadReporter(): (have: number, of: number) => void {
  let reportedMs = 0;
  return (have, of) => {
    const now = systemClock.now();
    if (have < of && now - reportedMs < PROGRESS_MS) return;
    reportedMs = now;
    say({ type: 'download', have, of });
  };
}

async function continuePrompt({
  prompt,
  isTuned,
}: Extract<ToWorker, { type: 'write' }>): Promise<void> {
  const show = (text: string, isDone = false) => say({ type: 'written', text, isTuned, isDone });
  const onText = (text: string) => show(text);
  await write?.(prompt, { isTuned, onText }).then(
    (text) => show(text, true),
    (error: unknown) => say(failureOf(error)),
  );
}

/** Pauses training with a reason, or resumes it without one. */
function pause(reason: string | undefined): void {
  if (reason === undefined) allowed.settle();
  else allowed = deferred();
  report({ type: 'notice', message: reason ?? 'training resumes' });
}

/** Downloads the events of the run from relays and replays it; only signatures are trusted. */
async function verify(): Promise<void> {
  if (link === undefined) return;
  const startedMs = systemClock.now();
  const relays = createRelaySet(link.relays, { openSocket, clock: systemClock });
  try {
    const { signal } = new AbortController();
    await relays.ready(signal);
    const archive = await archiveRun(link.address.run, { relays, signal });
    const { ok, rounds, modelRoot: root } = await replayRun(archive);
    const seconds = (systemClock.now() - startedMs) / 1000;
    say({ type: 'verified', ok, rounds, root, seconds });
  } catch (error) {
    say(failureOf(error));
  } finally {
    await relays.close();
  }
}

function failureOf(error: unknown): FromWorker {
  const message = wordsOf(error);
  if (!(error instanceof NostrainError)) return { type: 'failed', code: 'internal', message };
  const { code, hint, data } = error;
  return { type: 'failed', code, message, hint, ...data };
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.type === 'join') void join(data);
  else if (data.type === 'stop') stop.abort(new Error('the tab was told to stop'));
  else if (data.type === 'visible') isVisible = data.isVisible;
  else if (data.type === 'verify') void verify();
  else if (data.type === 'pause') pause(data.reason);
  else if (data.type === 'write') void continuePrompt(data);
};
watchSuspension(systemClock, stop.signal, (message) => {
  if (isPlaying) report({ type: 'notice', message });
}).catch(() => undefined);
