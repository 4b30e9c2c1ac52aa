/** Processes of `bench:join`: each says one line of JSON when it is ready, and members, relays and servers stay until they are ended. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

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

export interface Started {
  readonly child: ChildProcess;
  ready<T>(): Promise<T>;
}

export function start(step: Step): Started {
  const self = fileURLToPath(new URL('./step.ts', import.meta.url));
  const args = ['--import', 'tsx', '--conditions=nostrain:source', self, JSON.stringify(step)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const line = new Promise<string>((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (text.includes('\n')) resolve(text.split('\n')[0]!);
    });
    child.on('close', () => reject(new Error(`${step.op} ${step.index} ended: ${text}`)));
  });
  return { child, ready: async <T>() => JSON.parse(await line) as T };
}
