/** Processes of `bench:join`: each says one line of JSON when it is ready, and members, relays and servers stay until they are ended. */
import type { ChildProcess } from 'node:child_process';
import { startModule } from '../first-line.ts';

export interface Step {
  readonly op: 'relay' | 'member' | 'web' | 'join' | 'plain';
  readonly index: number;
  readonly home: string;
  readonly relays?: readonly string[];
  readonly places?: readonly string[];
  readonly parameters?: number;
  readonly bytes?: number;
  readonly way?: string;
  readonly url?: string;
  readonly digest?: string;
  readonly root?: string;
}

/** What a member says once it holds its share. */
export interface Ready {
  readonly digest: string;
  readonly root: string;
}

export interface StartedStep {
  readonly child: ChildProcess;
  ready<T>(): Promise<T>;
}

export function start(step: Step): StartedStep {
  const { child, line } = startModule(new URL('./step.ts', import.meta.url), [
    JSON.stringify(step),
  ]);
  return { child, ready: async <T>() => JSON.parse(await line) as T };
}
