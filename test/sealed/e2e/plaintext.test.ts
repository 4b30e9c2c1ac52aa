/** T-17: every byte that a worker writes in a run on sealed data, through a crash and a resume, seen by strace. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRelay } from 'nostrain/relay';
import { expect, onTestFinished } from 'vitest';
import { itWith } from '../../support/needs.ts';
import { runProgram, temporaryFolder } from '../../support/processes.ts';
import { countLeaks } from '../leaks.ts';

const bin = fileURLToPath(new URL('../../../dist/src/cli/bin.js', import.meta.url));
const straceMissing = spawnSync('strace', ['-V']).status === 0 ? undefined : 'no strace';
const MARKER = 24_000;

/** Random characters that the tokenizer of characters has. */
function marker(): string {
  const random = globalThis.crypto.getRandomValues(new Uint8Array(MARKER));
  return Array.from(random, (byte, i) =>
    i % 97 === 96 ? '\n' : String.fromCharCode(33 + (byte % 90)),
  ).join('');
}

/** Runs a command under strace; resolves when it ends, or when it is killed after it printed `until`. */
async function traced(args: readonly string[], home: string, trace: string, until?: string) {
  const calls = 'trace=write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg,openat';
  const strace = ['-f', '--seccomp-bpf', '-qq', '-xx', '-s', '100000000', '-e', calls, '-o', trace];
  const child = spawn('strace', [...strace, process.execPath, bin, ...args], {
    env: { ...process.env, NOSTRAIN_HOME: home, NO_COLOR: '1', UV_USE_IO_URING: '0' },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (until === undefined || !output.includes(until)) return;
      const pid = Number(/^\d+/.exec(readFileSync(trace, 'latin1'))?.[0]);
      if (pid > 0) process.kill(pid, 'SIGKILL');
      until = undefined;
    });
  }
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, output };
}

/** Returns the written bytes and opened paths of all traced calls. */
function bytesIn(trace: string): Buffer {
  const text = readFileSync(trace, 'latin1');
  const parts = [...text.matchAll(/"((?:\\x[0-9a-f]{2})*)"/g)].map(([, hex = '']) =>
    Buffer.from(hex.replaceAll('\\x', ''), 'hex'),
  );
  return Buffer.concat(parts.flatMap((part) => [part, Buffer.from([0])]));
}

itWith(straceMissing)(
  'T-17 no write of a join, a crash and a resume holds 16 bytes of the data',
  async () => {
    const relay = await createRelay();
    onTestFinished(() => relay.close());
    const folder = temporaryFolder();
    const at = (name: string) => join(folder, name);
    const data = marker();
    writeFileSync(at('data.txt'), data);
    writeFileSync(at('public.txt'), 'to be or not to be, that is the question\n'.repeat(400));
    const home = at('home');
    const run = async (...args: readonly string[]) => {
      const made = await runProgram(args, home, folder);
      expect(made.code, made.stderr).toBe(0);
      return made.stdout;
    };
    execFileSync('mkdir', [home]);
    writeFileSync(at('me.json'), await run('shard', 'key'));
    await run('shard', 'seal', at('data.txt'), '--to', at('me.json'), '-o', at('sealed'));
    const sizes = ['width=16', 'layers=1', 'heads=2', 'ffn=32'].flatMap((each) => ['--set', each]);
    const training = '--rounds 4 --inner-steps 4 --batch-size 4 --context 32'.split(' ');
    const task = ['--model', 'char-gpt', ...sizes, ...training, '--name', 'sealed'];
    const made = ['-o', at('run.json'), '--relay', relay.url];
    const sealedData = ['--sealed', at('sealed'), '--evaluation', at('public.txt')];
    await run('run', 'create', ...sealedData, ...task, ...made);
    const sources = ['--files-from', at('sealed/manifest'), '--files-from', at('sealed/shard-0')];
    const joining = ['run', 'join', at('run.json'), '--relay', relay.url, ...sources];
    const flags = ['--device', 'cpu', '--threads', '1', '--report', 'ndjson'];
    const args = [...joining, ...flags, '--dir', at('worker')];
    const first = await traced(args, home, at('first'), '"type":"round"');
    const second = await traced(args, home, at('second'));
    expect(second.code, second.output).toBe(0);
    expect(second.output).toContain('"type":"done"');
    const written = Buffer.concat([at('first'), at('second')].map(bytesIn));
    // memory is left out of core dumps
    expect(written.includes('/proc/self/coredump_filter')).toBe(true);
    // the trace is whole: it holds the report and the state of the worker
    expect(written.includes('"type":"done"')).toBe(true);
    expect(written.length).toBeGreaterThan(50_000);
    expect(first.output).not.toContain('"type":"done"');
    expect(countLeaks(written, data)).toEqual({});
    expect(existsSync(at('worker/core'))).toBe(false);
  },
  { timeout: 600_000 },
);
