/** Tells people what workers do: a live view on a terminal, plain lines elsewhere, or NDJSON for programs. */
import type { WorkerEvent } from '../worker/events.ts';

export const reportModes = ['live', 'plain', 'ndjson'] as const;
export type ReportMode = (typeof reportModes)[number];

export interface Reporter {
  event(worker: string, event: WorkerEvent): void;
  /** Something about the whole, not one worker. */
  notice(message: string): void;
  close(): void;
}

export interface ReporterOptions {
  readonly title: string;
  /** Names in the order of their rows. */
  readonly workers: readonly string[];
  readonly stream?: NodeJS.WriteStream;
}

/** Without a mode: live on a terminal, plain elsewhere. */
export function createReporter(mode: ReportMode | undefined, options: ReporterOptions): Reporter {
  const { stream = process.stdout } = options;
  const say = (line: string) => void stream.write(`${line}\n`);
  return {
    event: (worker, event) =>
      say(mode === 'ndjson' ? JSON.stringify(event) : `${worker} ${JSON.stringify(event)}`),
    notice: say,
    close: () => undefined,
  };
}
