/**
 * What chunked files cost: packing and verifying, and a cold fetch from holders beside a plain HTTP download of the same bytes, in turns.
 *
 *   npm run bench:checkpoint -- [--bytes 300000000] [--runs 3] [--only fetch|pack]
 *
 * Programs nobody here wrote (b3sum, openssl, cp) hash and copy the same file in the same run, where they are installed: compare with them.
 * Every step is a process of its own, whose wall time, processor time (all threads) and largest memory are told; servers are others.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { createBLAKE3 } from 'hash-wasm';
import { systemClock } from 'nostrain/base';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { startModule } from './first-line.ts';

const { values } = parseArgs({
  options: {
    bytes: { type: 'string', default: '300000000' },
    runs: { type: 'string', default: '3' },
    step: { type: 'string' },
    only: { type: 'string', default: 'all' },
  },
});
const MB = 1e6;

/** What is measured is the built program: threads that load sources would count. */
const built = async <T>(path: string): Promise<T> =>
  (await import(new URL(`../../dist/src/${path}.js`, import.meta.url).href)) as T;
const { createHttpSource } = await built<typeof import('../../src/network/chunks/http-source.ts')>('network/chunks/http-source'); // biome-ignore format: one line
const { createAskHttp } = await built<typeof import('../../src/node/net/ask-http.ts')>('node/net/ask-http'); // biome-ignore format: one line
const { fetchFolder } = await built<typeof import('../../src/node/checkpoint/fetch-folder.ts')>('node/checkpoint/fetch-folder'); // biome-ignore format: one line
const { readManifest } = await built<typeof import('../../src/node/checkpoint/folder.ts')>('node/checkpoint/folder'); // biome-ignore format: one line
const { createNativeBlake3 } = await built<typeof import('../../src/node/checkpoint/chunk-work.ts')>('node/checkpoint/chunk-work'); // biome-ignore format: one line
const { serveFolder } = await built<typeof import('../../src/node/checkpoint/holder-server.ts')>('node/checkpoint/holder-server'); // biome-ignore format: one line
const { packFile } = await built<typeof import('../../src/node/checkpoint/pack.ts')>('node/checkpoint/pack'); // biome-ignore format: one line
const { unpackFolder } = await built<typeof import('../../src/node/checkpoint/unpack.ts')>('node/checkpoint/unpack'); // biome-ignore format: one line
const { verifyFolder } = await built<typeof import('../../src/node/checkpoint/unpack.ts')>('node/checkpoint/unpack'); // biome-ignore format: one line
type Verified = import('../../src/node/checkpoint/unpack.ts').VerifiedFolder;

interface Step {
  readonly op: string;
  readonly file: string;
  readonly folder: string;
  readonly out: string;
  readonly chunkBytes: number;
  readonly parity: number;
  readonly urls: readonly string[];
  readonly rate?: number | undefined;
}

interface Cost {
  readonly ms: number;
  readonly cpuMs: number;
  readonly maxMb: number;
}

/** The hashes alone, over the bytes of a file in pieces of a megabyte. */
async function hashAlone(file: string, update: (piece: Uint8Array) => unknown): Promise<void> {
  const handle = await open(file);
  const buffer = new Uint8Array(2 ** 20);
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length);
    if (bytesRead === 0) break;
    update(buffer.subarray(0, bytesRead));
  }
  await handle.close();
}

const operations: Readonly<Record<string, (step: Step) => Promise<unknown>>> = {
  pack: ({ file, folder, chunkBytes, parity }) =>
    packFile(file, folder, { chunkBytes, erasure: parity > 0 ? { data: 4, parity } : null }),
  verify: async ({ folder }) => whole(await verifyFolder(folder, await readManifest(folder))),
  quick: async ({ folder }) => verifyFolder(folder, await readManifest(folder), { isQuick: true }),
  blake3: async ({ file }) => {
    const hasher = await createBLAKE3();
    await hashAlone(file, (piece) => hasher.update(piece));
  },
  native: async ({ file }) => {
    const hasher = await createNativeBlake3();
    await hashAlone(file, (piece) => hasher.update(piece));
  },
  sha256: async ({ file }) => {
    const hash = createHash('sha256');
    await hashAlone(file, (piece) => hash.update(piece));
  },
  unpack: async ({ folder, out }) => unpackFolder(folder, await readManifest(folder), out),
  fetch: async ({ folder, out, urls }) => {
    const ask = createAskHttp({ isTrusted: true });
    const places = urls.map((url) => createHttpSource(url, { ask, clock: systemClock }));
    const { signal } = new AbortController();
    await fetchFolder(await readManifest(folder), out, { sources: places, signal });
  },
  plain: ({ urls, out }) =>
    new Promise<void>((resolve, reject) => {
      get(urls[0]!, (answer) => pipeline(answer, createWriteStream(out)).then(resolve, reject));
    }),
};

function whole({ whole: isWhole }: Verified): void {
  if (isWhole !== true) throw new Error('it is not whole');
}

/** Servers tell their address on a line and go on until they are ended. */
const servers: Readonly<Record<string, (step: Step) => Promise<string>>> = {
  holder: async ({ folder, rate }) =>
    (await serveFolder(folder, await readManifest(folder), { port: 0, host: '127.0.0.1', clock: systemClock, rate })).url, // biome-ignore format: one line
  web: async ({ file, rate }) => {
    let freeMs = 0;
    const server = createServer((_, response) => {
      const body = async function* () {
        for await (const piece of createReadStream(file) as AsyncIterable<Uint8Array>) {
          if (rate !== undefined) {
            const now = systemClock.now();
            freeMs = Math.max(now, freeMs) + (1000 * piece.length) / rate;
            // timers are a millisecond or more late: short waits gather
            if (freeMs - now > 5) await systemClock.sleep(freeMs - now);
          }
          yield piece;
        }
      };
      void stat(file).then(({ size }) => {
        response.writeHead(200, { 'content-length': String(size) });
        return pipeline(body(), response);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/file`;
  },
};

async function play(step: Step): Promise<void> {
  const server = servers[step.op];
  if (server) {
    process.stdout.write(`${await server(step)}\n`);
    return;
  }
  const startedMs = performance.now();
  const before = process.cpuUsage();
  await operations[step.op]!(step);
  const { user, system } = process.cpuUsage(before);
  const maxMb = process.resourceUsage().maxRSS / 1024;
  const cost: Cost = { ms: performance.now() - startedMs, cpuMs: (user + system) / 1000, maxMb };
  process.stdout.write(`${JSON.stringify(cost)}\n`);
  process.exit(0);
}

const start = (step: Step) => startModule(import.meta.url, ['--step', JSON.stringify(step)]);

const cost = async (step: Step): Promise<Cost> => JSON.parse(await start(step).line) as Cost;

const median = (costs: readonly Cost[]): Cost =>
  costs.toSorted((a, b) => a.ms - b.ms)[Math.floor(costs.length / 2)]!;

function tell(name: string, costs: readonly Cost[], bytes: number): void {
  const { ms, cpuMs } = median(costs);
  const speed = (each: number) => `${((bytes / MB / each) * 1000).toFixed(0)} MB/s`;
  const most = Math.max(...costs.map(({ maxMb }) => maxMb)).toFixed(0);
  const all = costs.map((each) => (each.ms / 1000).toFixed(2)).join(', ');
  console.log(`${name.padEnd(44)} ${speed(ms).padStart(9)} wall  ${speed(cpuMs).padStart(9)} of one core  ${most.padStart(4)} MB  (${all} s)`); // biome-ignore format: one line
}

/** What others make of the same file. */
const peers = (file: string, out: string): readonly (readonly [string, string, string[]])[] => [
  ['b3sum, one thread', 'b3sum', ['--num-threads', '1', '--no-mmap', file]],
  ['b3sum, all threads', 'b3sum', [file]],
  ['openssl dgst -sha256', 'openssl', ['dgst', '-sha256', file]],
  ['cp', 'cp', [file, out]],
];

function tellPeer(name: string, program: string, args: string[], bytes: number, runs: number) {
  const all: number[] = [];
  for (let i = 0; i < runs; i++) {
    const startedMs = performance.now();
    if (spawnSync(program, args, { stdio: 'ignore' }).status !== 0) {
      console.log(`${name.padEnd(44)} not installed`);
      return;
    }
    all.push(performance.now() - startedMs);
  }
  const ms = all.toSorted((a, b) => a - b)[Math.floor(runs / 2)]!;
  const told = all.map((each) => (each / 1000).toFixed(2)).join(', ');
  console.log(
    `${name.padEnd(44)} ${(bytes / MB / (ms / 1000)).toFixed(0).padStart(4)} MB/s wall  (${told} s)`,
  );
}

async function makeFile(file: string, bytes: number): Promise<void> {
  const block = drawnBytes(2 ** 20);
  const handle = await open(file, 'w');
  const view = new DataView(block.buffer);
  for (let at = 0; at < bytes; at += block.length) {
    view.setUint32(0, at);
    await handle.writeFile(block.subarray(0, Math.min(block.length, bytes - at)));
  }
  await handle.close();
}

/** Three holders, then one web server with the whole file, in turns; `rate` is shared among the holders. */
async function fetching(base: Step, runs: number, bytes: number, rate: number | undefined) {
  const each = rate === undefined ? undefined : rate / 3;
  const held = [0, 1, 2].map(() => start({ ...base, op: 'holder', rate: each }));
  const web = start({ ...base, op: 'web', rate });
  const urls = await Promise.all(held.map(({ line }) => line));
  const plainUrl = await web.line;
  const ours: Cost[] = [];
  const plain: Cost[] = [];
  for (let i = 0; i < runs; i++) {
    await rm(base.out, { recursive: true, force: true });
    ours.push(await cost({ ...base, op: 'fetch', urls }));
    await rm(base.out, { recursive: true, force: true });
    plain.push(await cost({ ...base, op: 'plain', urls: [plainUrl] }));
  }
  for (const { child } of [...held, web]) child.kill();
  const at = rate === undefined ? 'as fast as they can' : `${rate / MB} MB/s in all`;
  tell(`cold fetch from 3 holders, ${at}`, ours, bytes);
  tell(`plain HTTP download, ${at}`, plain, bytes);
  console.log(`  ${(median(ours).ms / median(plain).ms).toFixed(2)} times`);
}

/** In chunks of 4 MiB, as `checkpoint pack` makes them. */
async function fetchAll(base: Step, runs: number, bytes: number): Promise<void> {
  await rm(base.folder, { recursive: true, force: true });
  await cost({ ...base, op: 'pack', chunkBytes: 2 ** 22 });
  await fetching(base, runs, bytes, 125 * MB);
  await fetching(base, runs, bytes, undefined);
}

async function main(): Promise<void> {
  const bytes = Number(values.bytes);
  const runs = Number(values.runs);
  const home = await mkdtemp(join(tmpdir(), 'nostrain-bench-'));
  const file = join(home, 'state');
  const base: Step = { op: '', file, folder: join(home, 'packed'), out: join(home, 'out'), chunkBytes: 2 ** 26, parity: 0, urls: [] }; // biome-ignore format: one line
  try {
    await makeFile(file, bytes);
    const times = async (name: string, step: Step, fresh: string) => {
      const costs: Cost[] = [];
      for (let i = 0; i < runs; i++) {
        await rm(fresh, { recursive: true, force: true });
        costs.push(await cost(step));
      }
      tell(name, costs, bytes);
    };
    const { folder, out } = base;
    if (values.only === 'fetch') {
      return await fetchAll(base, runs, bytes);
    }
    for (const [name, program, args] of peers(file, out))
      tellPeer(name, program, args, bytes, runs);
    await times('BLAKE3 alone, WebAssembly, one thread', { ...base, op: 'blake3' }, out);
    await times('BLAKE3 alone, compiled, one thread', { ...base, op: 'native' }, out);
    await times('SHA-256 alone, one thread', { ...base, op: 'sha256' }, out);
    await times('pack, 64 MiB chunks', { ...base, op: 'pack' }, folder);
    await times('pack, 64 MiB chunks, 4/6', { ...base, op: 'pack', parity: 2 }, folder);
    await times('pack, 16 KiB chunks', { ...base, op: 'pack', chunkBytes: 2 ** 14 }, folder);
    await times('pack, 4 MiB chunks, 4/6', { ...base, op: 'pack', chunkBytes: 2 ** 22, parity: 2 }, folder); // biome-ignore format: one line
    await times('verify', { ...base, op: 'verify' }, out);
    await times('verify --quick', { ...base, op: 'quick' }, out);
    await times('unpack', { ...base, op: 'unpack' }, out);
    if (values.only !== 'pack') await fetchAll(base, runs, bytes);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

if (values.step === undefined) await main();
else await play(JSON.parse(values.step) as Step);
