/** Programs of a bench in processes of their own: each says one line when it is ready, and may stay until it is ended. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Started {
  readonly child: ChildProcess;
  /** Its first line. Rejects where it ends without one. */
  readonly line: Promise<string>;
}

/** Runs a TypeScript module with these arguments; what it says of errors is shown. */
export function startModule(module: URL | string, args: readonly string[]): Started {
  const node = ['--import', 'tsx', '--conditions=nostrain:source', fileURLToPath(module)];
  const child = spawn(process.execPath, [...node, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const line = new Promise<string>((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (text.includes('\n')) resolve(text.split('\n')[0]!);
    });
    child.on('close', () => reject(new Error(`${args.join(' ')} ended: ${text}`)));
  });
  return { child, line };
}
