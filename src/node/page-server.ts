/** Serves a folder of files, and a few more, to browsers on this machine: no writing, no listing, nothing outside of what was named. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ConfigError } from '../base/errors.ts';

/** Files by name. */
export type PageFiles = ReadonlyMap<string, Uint8Array>;

export interface PageServer {
  readonly url: string;
  close(): Promise<void>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.jsonl': 'application/x-ndjson',
};

/** Larger ones are sent as they are: nobody waits for the work on this machine. */
const MOST_ZIPPED = 8 << 20;

/** The files of a folder, none of its folders. */
export async function readPage(folder: string): Promise<PageFiles> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new ConfigError('page/missing', `the files of the page are not in ${folder}`, {
      hint: 'npm run build makes them; a package from the registry has them',
      cause,
    });
  });
  const read = names.map(async (name) => [name, await readFile(join(folder, name))] as const);
  return new Map(await Promise.all(read));
}

/** Listens until closed. Throws `page/listen` where the port is taken. */
export async function servePage(
  files: PageFiles,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<PageServer> {
  const answers = new Map([...files].map(([name, bytes]) => [name, answerOf(name, bytes)]));
  const server = createServer((request, response) => answer(request, response, answers, host));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new ConfigError('page/listen', `cannot listen on ${host}:${port}`, {
          hint: 'choose another --port (0 takes any free one)',
          cause,
        }),
      ),
    );
    server.listen(port, host, resolve);
  });
  const name = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${name}:${(server.address() as AddressInfo).port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Answer {
  readonly bytes: Uint8Array;
  readonly zipped: Uint8Array | undefined;
  readonly type: string;
  readonly tag: string;
}

function answerOf(name: string, bytes: Uint8Array): Answer {
  const tag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 32)}"`;
  const zipped = bytes.length > MOST_ZIPPED ? undefined : gzipSync(bytes);
  return { bytes, zipped, tag, type: TYPES[extname(name)] ?? 'application/octet-stream' };
}

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?$/;

function answer(
  { url = '/', method, headers }: IncomingMessage,
  response: ServerResponse,
  answers: ReadonlyMap<string, Answer>,
  host: string,
): void {
  const isLocal = host === '127.0.0.1' || host === 'localhost' || host === '::1';
  // another name that leads here belongs to somebody else's page
  const isAsked = !isLocal || LOOPBACK.test(headers.host ?? '');
  const path = url.replace(/[?#].*$/, '').replace(/^\//, '');
  const found = isAsked ? answers.get(path === '' ? 'index.html' : path) : undefined;
  if (found === undefined || (method !== 'GET' && method !== 'HEAD')) {
    response.writeHead(isAsked ? 404 : 403, { 'content-type': 'text/plain' }).end('not here\n');
    return;
  }
  const isSame = headers['if-none-match'] === found.tag;
  const isZipped = found.zipped !== undefined && /\bgzip\b/.test(headers['accept-encoding'] ?? '');
  response.writeHead(isSame ? 304 : 200, {
    ...{ 'content-type': found.type, etag: found.tag, 'cache-control': 'no-cache' },
    ...{ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' },
    ...{ 'content-security-policy': "frame-ancestors 'none'", vary: 'accept-encoding' },
    ...(isZipped && { 'content-encoding': 'gzip' }),
  });
  response.end(isSame || method === 'HEAD' ? undefined : isZipped ? found.zipped : found.bytes);
}
