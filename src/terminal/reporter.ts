/** Reports what workers do: a live view on a terminal, plain lines elsewhere, or NDJSON for programs. */

import { safeJson, safeLine } from '../base/errors.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import { createView, fold, notify, type View } from '../dashboard/view.ts';
import type { WorkerId } from '../run/ids.ts';
import { withNames } from '../run/worker-names.ts';
import { renderLive, type Saved } from './render/live.ts';
import { renderPlain } from './render/plain.ts';

export const reportModes = ['live', 'plain', 'ndjson'] as const;
export type ReportMode = (typeof reportModes)[number];

export interface Reporter {
  event(worker: string, event: RunEvent): void;
  /** Shows a message about the whole run. */
  notice(message: string): void;
  close(): void;
}

export interface ReporterOptions {
  readonly title: string;
  /** Worker names in the order of their rows. */
  readonly workers: readonly string[];
  readonly stream?: NodeJS.WriteStream;
  readonly saved?: Saved;
}

/** Milliseconds between two frames of the live view. */
const FRAME_MS = 200;
/** Milliseconds between two progress lines of one worker in plain mode. */
const PROGRESS_MS = 10_000;

/** Creates the reporter of a mode; the default is live on a terminal and plain elsewhere. */
export function createReporter(mode: ReportMode | undefined, options: ReporterOptions): Reporter {
  const stream = options.stream ?? process.stdout;
  const chosen = mode ?? (stream.isTTY ? 'live' : 'plain');
  if (chosen === 'live') return liveReporter(options, stream);
  return chosen === 'plain' ? plainReporter(stream) : ndjsonReporter(stream);
}

const ndjsonReporter = (stream: NodeJS.WriteStream): Reporter => ({
  event: (_worker, event) => void stream.write(`${safeJson(event)}\n`),
  notice: (message) => void stream.write(`${safeJson({ type: 'notice', message })}\n`),
  close: () => undefined,
});

function plainReporter(stream: NodeJS.WriteStream): Reporter {
  const lastProgressMs = new Map<string, number>();
  const names = new Map<WorkerId, string>();
  const write = (line: string) => void stream.write(`${safeLine(withNames(line, names))}\n`);
  return {
    event(worker, event) {
      if (event.type === 'peer' && event.name !== undefined) names.set(event.worker, event.name);
      if (event.type === 'progress') {
        const isDue = Date.now() - (lastProgressMs.get(worker) ?? 0) >= PROGRESS_MS;
        if (!isDue && event.step < event.steps) return;
        lastProgressMs.set(worker, Date.now());
      }
      // of peers, only departures are printed: the rest is in the line of the round
      if (event.type === 'peer' && event.state !== 'away') return;
      write(renderPlain(worker, event));
    },
    notice: (message) => write(safeLine(message)),
    close: () => undefined,
  };
}

/** Redraws its lines in place a few times a second; the last frame stays on the screen. */
function liveReporter(
  { title, workers, saved }: ReporterOptions,
  stream: NodeJS.WriteStream,
): Reporter {
  let view: View = createView(workers);
  let drawn = 0;
  let dirty = true;
  let closed = false;

  function draw(isLast: boolean): void {
    if (!dirty && !isLast) return;
    dirty = false;
    // some terminals report 0; one column stays free because others wrap at the last one
    const [columns, rows] = [stream.columns || 80, stream.rows || 24];
    const color = stream.hasColors?.() === true && !process.env.NO_COLOR;
    const limits = isLast ? {} : { rows: rows - 1, ...(saved && { saved }) };
    const lines = renderLive(view, { title, columns: columns - 1, color, ...limits });
    const home = drawn > 0 ? `\x1b[${drawn}A` : '';
    stream.write(`${home}${lines.map((line) => `${line}\x1b[K\n`).join('')}\x1b[J`);
    drawn = lines.length;
  }

  const timer = setInterval(() => draw(false), FRAME_MS);
  return {
    event(worker, event) {
      view = fold(view, worker, event);
      dirty = true;
    },
    notice(message) {
      view = notify(view, '', message);
      dirty = true;
    },
    close() {
      if (closed) return;
      closed = true;
      clearInterval(timer);
      draw(true);
    },
  };
}
