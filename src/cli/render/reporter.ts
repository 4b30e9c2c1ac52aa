/** Tells people what workers do: a live view on a terminal, plain lines elsewhere, or NDJSON for programs. */
import { createView, fold, notify } from '../../dashboard/view.ts';
import type { WorkerEvent } from '../../worker/events.ts';
import { renderLive } from './live.ts';
import { renderPlain } from './plain.ts';
import { createScreen, type Output } from './screen.ts';
import { safeLine } from './text.ts';

export const reportModes = ['live', 'plain', 'ndjson'] as const;
export type ReportMode = (typeof reportModes)[number];

export interface Reporter {
  event(worker: string, event: WorkerEvent): void;
  /** Something about the whole, not one worker. */
  notice(message: string): void;
  close(): void;
}

/** The little of `process.stdout` it needs. */
export interface ReportStream extends Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

export interface ReporterOptions {
  readonly title: string;
  /** Names in the order of their rows. */
  readonly workers: readonly string[];
  readonly stream?: ReportStream;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const REDRAW_MS = 100;
/** Where every line stays, progress is told this often per round. */
const QUARTERS = 4;

type Progress = Extract<WorkerEvent, { type: 'progress' }>;

/** Without a mode: live on a terminal, plain elsewhere. */
export function createReporter(mode: ReportMode | undefined, options: ReporterOptions): Reporter {
  const { stream = process.stdout, env = process.env } = options;
  const terminal = stream.isTTY === true && env.TERM !== 'dumb';
  switch (mode ?? (terminal ? 'live' : 'plain')) {
    case 'live':
      return createLive(stream, options, env);
    case 'plain':
      return createPlain(stream);
    case 'ndjson':
      return createNdjson(stream, options.workers.length > 1);
  }
}

/** https://no-color.org: any value but the empty one means no. */
const wantsColor = (env: Readonly<Record<string, string | undefined>>): boolean =>
  (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb';

function createLive(
  stream: ReportStream,
  { title, workers }: ReporterOptions,
  env: Readonly<Record<string, string | undefined>>,
): Reporter {
  const screen = createScreen(stream);
  const color = wantsColor(env);
  let view = createView(workers);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closed = false;
  // One column and one row less: a terminal that is filled to the edge wraps or scrolls.
  const columns = () => Math.max(20, (stream.columns ?? 80) - 1);
  const draw = () => {
    timer = undefined;
    const rows = Math.max(5, (stream.rows ?? 24) - 1);
    screen.draw(renderLive(view, { title, columns: columns(), rows, color }));
  };
  const drawSoon = () => {
    if (!closed) timer ??= setTimeout(draw, REDRAW_MS);
  };
  return {
    event(worker, event) {
      view = fold(view, worker, event);
      drawSoon();
    },
    notice(message) {
      view = notify(view, '', message);
      drawSoon();
    },
    close() {
      if (closed) return;
      closed = true;
      clearTimeout(timer);
      screen.close(renderLive(view, { title, columns: columns(), color }));
    },
  };
}

function createPlain(stream: ReportStream): Reporter {
  const told = new Map<string, string>();
  /** Whether a worker has entered another quarter of its round. */
  const isNews = (worker: string, { round, step, steps }: Progress): boolean => {
    const quarter = `${round} ${Math.floor((QUARTERS * step) / steps)}`;
    const news = told.get(worker) !== quarter;
    told.set(worker, quarter);
    return news;
  };
  return {
    event(worker, event) {
      if (event.type === 'progress' && !isNews(worker, event)) return;
      stream.write(`${renderPlain(worker, event)}\n`);
    },
    notice: (message) => void stream.write(`${safeLine(message)}\n`),
    close: () => undefined,
  };
}

/** One worker speaks for itself; of several, each line names its worker first. */
function createNdjson(stream: ReportStream, named: boolean): Reporter {
  return {
    event: (name, event) =>
      void stream.write(`${JSON.stringify(named ? { name, ...event } : event)}\n`),
    notice: (message) => void stream.write(`${JSON.stringify({ type: 'notice', message })}\n`),
    close: () => undefined,
  };
}
