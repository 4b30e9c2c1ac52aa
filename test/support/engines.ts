/** Runs a function in JavaScript engines other than V8, so that tests on demand can compare the results. */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { bundleForBrowser } from './bundle.ts';

const call = promisify(execFile);

export interface Engine {
  readonly name: string;
  /** The first of these programs that is in the path runs it. */
  readonly programs: readonly string[];
  /** Runs a script that hands its answer to a global function `answer`. */
  run(program: string, script: string): Promise<unknown>;
}

export const engines: readonly Engine[] = [
  { name: 'Bun (JavaScriptCore)', programs: ['bun'], run: runInBun },
  { name: 'Firefox (SpiderMonkey)', programs: ['firefox', 'firefox-esr'], run: runInFirefox },
];

/** The program of an engine on this machine. */
export async function findProgram({ programs }: Engine): Promise<string | undefined> {
  for (const name of programs) {
    const found = await call('which', [name]).catch(() => undefined);
    if (found) return found.stdout.trim();
  }
  return undefined;
}

/** Bundles a module and calls its exported `run` with plain data; the answer is plain data too. */
export async function runInEngine<Input, Output>(
  engine: Engine,
  program: string,
  entryFile: URL,
  input: Input,
): Promise<Output> {
  const bundle = await bundleForBrowser(entryFile);
  const script = `${bundle}\nanswer(entry.run(${JSON.stringify(input)}));`;
  return (await engine.run(program, script)) as Output;
}

async function runInBun(program: string, script: string): Promise<unknown> {
  const file = join(await mkdtemp(join(tmpdir(), 'nostrain-engine-')), 'script.js');
  await writeFile(file, `const answer = (it) => console.log(JSON.stringify(it));\n${script}`);
  const { stdout } = await call(program, [file]);
  return JSON.parse(stdout);
}

/** The page comes from a server on loopback, and posts its answer there. */
async function runInFirefox(program: string, script: string): Promise<unknown> {
  const profile = await mkdtemp(join(tmpdir(), 'nostrain-engine-'));
  const post = "const answer = (it) => fetch('/', { method: 'POST', body: JSON.stringify(it) });";
  const page = `<!doctype html><script>${post}\n${script.replaceAll('</script', '<\\/script')}</script>`;
  let finish: (text: string) => void = () => undefined;
  const answered = new Promise<string>((resolve) => {
    finish = resolve;
  });
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => {
      body += part;
    });
    request.on('end', () => {
      if (request.method === 'POST') finish(body);
      response.setHeader('content-type', 'text/html; charset=utf-8').end(page);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const args = ['--headless', '--no-remote', '--profile', profile, url];
  const browser = spawn(program, args, { stdio: 'ignore' });
  try {
    const gone = new Promise<never>((_, reject) => {
      browser.on('error', reject);
      browser.on('exit', (code) => reject(new Error(`${program} ended with ${code}`)));
    });
    return JSON.parse(await Promise.race([answered, gone]));
  } finally {
    browser.kill();
    server.close();
    server.closeAllConnections();
  }
}
