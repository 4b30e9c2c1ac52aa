/** HTTP servers of this machine: the files of a page for browsers, and a worker's numbers for OpenMetrics scrapers. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { ConfigError, TrainingError } from '../../base/errors.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';

export type PageFiles = ReadonlyMap<string, Uint8Array>;

/** An HTTP server of pages. */
export interface PageServer {
  readonly url: string;
  close(): Promise<void>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.wasm': 'application/wasm',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.jsonl': 'application/x-ndjson',
};

/** What a browser is told that a file is, by how its name ends. */
export const contentTypeOf = (ending: string): string =>
  TYPES[ending] ?? 'application/octet-stream';

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

/**
 * The files of a tab that trains: its page, onnxruntime's WebAssembly, and `texts` by their SHA-256. Throws if one is
 * missing.
 */
export async function readTab(texts: ReadonlyMap<string, string>): Promise<PageFiles> {
  const page = await readPage(pageFolder());
  const folder = engineFolder();
  const wasm = (await readdir(folder)).filter((name) => USED.includes(name));
  const read = [
    ...wasm.map((name) => [`ort/${name}`, join(folder, name)] as const),
    ...[...texts].map(([sha256, file]) => [`corpus/${sha256}`, file] as const),
  ].map(async ([name, file]) => [name, await readFile(file)] as const);
  return new Map([...page, ...(await Promise.all(read))]);
}

/** One build for WebAssembly alone, and one with WebGPU. */
const USED = ['', '.asyncify'].flatMap((build) =>
  ['mjs', 'wasm'].map((ending) => `ort-wasm-simd-threaded${build}.${ending}`),
);

/** `dist/browser`, from the sources as from the build. */
const pageFolder = (): string => {
  const built = import.meta.url.endsWith('.ts') ? '../../../dist/browser' : '../../../browser';
  return fileURLToPath(new URL(built, import.meta.url));
};

function engineFolder(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve('onnxruntime-web'));
  } catch (error) {
    throw noWebEngine(error);
  }
}

const noWebEngine = (cause: unknown) =>
  new TrainingError('training/no-web-engine', 'training in a tab needs onnxruntime-web', {
    hint: 'install it beside nostrain: npm install onnxruntime-web@1.30.0',
    cause,
  });

export interface PageServerOptions {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Isolates the pages (COOP, COEP), so that their scripts may compute with several threads. */
  readonly isolated?: boolean;
  /**
   * Receives the text that pages of this server post to `told`; its answer (`reload`, `verify` or nothing) goes back.
   */
  onTold?(text: string): string;
}

/** Listens until closed. Throws `page/listen` where the port is taken. */
export async function servePage(
  files: PageFiles,
  { host, port, isolated = false, onTold }: PageServerOptions,
): Promise<PageServer> {
  const answers = new Map([...files].map(([name, bytes]) => [name, answerOf(name, bytes)]));
  const server = createServer((request, response) => {
    if (isolated) for (const [name, value] of ISOLATING) response.setHeader(name, value);
    const isTold = onTold !== undefined && request.method === 'POST' && request.url === '/told';
    if (isTold) hear(request, response, onTold);
    else answer(request, response, answers, host);
  });
  return await listen(server, { host, port }, 'page/listen', '--port');
}

/** Serves until closed. Throws a ConfigError with this code, which names the flag, if the port is taken. */
async function listen(
  server: Server,
  { host, port }: Pick<PageServerOptions, 'host' | 'port'>,
  code: string,
  flag: string,
): Promise<PageServer> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      const hint = `choose another ${flag} (0 takes any free port)`;
      reject(new ConfigError(code, `cannot listen on ${host}:${port}`, { hint, cause }));
    });
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

/** Scripts of this server alone run in an isolated page; relays are reached over WebSockets, wherever they are. */
const ISOLATING = [
  ['cross-origin-opener-policy', 'same-origin'],
  ['cross-origin-embedder-policy', 'require-corp'],
  ['cross-origin-resource-policy', 'same-origin'],
] as const;

interface Answer {
  readonly bytes: Uint8Array;
  readonly zipped: Uint8Array | undefined;
  readonly type: string;
  readonly tag: string;
}

function answerOf(name: string, bytes: Uint8Array): Answer {
  const tag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 32)}"`;
  const zipped = bytes.length > MOST_ZIPPED ? undefined : gzipSync(bytes);
  return { bytes, zipped, tag, type: contentTypeOf(extname(name)) };
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
  const isRequested = !isLocal || LOOPBACK.test(headers.host ?? '');
  const path = url.replace(/[?#].*$/, '').replace(/^\//, '');
  const found = isRequested ? answers.get(path === '' ? 'index.html' : path) : undefined;
  if (found === undefined || (method !== 'GET' && method !== 'HEAD')) {
    response.writeHead(isRequested ? 404 : 403, { 'content-type': 'text/plain' }).end('not here\n');
    return;
  }
  const isSame = headers['if-none-match'] === found.tag;
  const isZipped = found.zipped !== undefined && /\bgzip\b/.test(headers['accept-encoding'] ?? '');
  response.writeHead(isSame ? 304 : 200, {
    'content-type': found.type,
    etag: found.tag,
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'content-security-policy': "frame-ancestors 'none'",
    vary: 'accept-encoding',
    ...(isZipped && { 'content-encoding': 'gzip' }),
  });
  response.end(isSame || method === 'HEAD' ? undefined : isZipped ? found.zipped : found.bytes);
}

/** A page says one thing at a time, in few words. */
const MOST_TOLD = 1 << 20;

/** Pages of other servers may not speak here: browsers say where a request comes from. */
function hear(
  request: IncomingMessage,
  response: ServerResponse,
  onTold: (text: string) => string,
): void {
  const { origin, host = '' } = request.headers;
  if (origin !== `http://${host}` || !LOOPBACK.test(host)) {
    response.writeHead(403).end();
    return;
  }
  const parts: Buffer[] = [];
  let length = 0;
  request.on('data', (part: Buffer) => {
    length += part.length;
    if (length > MOST_TOLD) request.destroy();
    else parts.push(part);
  });
  request.on('end', () => {
    const words = onTold(Buffer.concat(parts).toString());
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(words);
  });
}

interface Family {
  readonly type: 'gauge' | 'counter';
  readonly help: string;
}

const FAMILIES = {
  parameters: { type: 'gauge', help: 'Parameters of the model.' },
  round: { type: 'gauge', help: 'Number of the round this worker is in, from 1.' },
  rounds_planned: { type: 'gauge', help: 'Rounds of the run.' },
  rounds: { type: 'counter', help: 'Rounds this worker has finished.' },
  void_rounds: { type: 'counter', help: 'Certified rounds that counted nothing.' },
  training_loss: { type: 'gauge', help: 'Mean training loss of the last inner steps.' },
  validation_loss: { type: 'gauge', help: 'Loss of the shared model on data nobody trains on.' },
  bits_per_byte: { type: 'gauge', help: 'The same per byte of text, in bits.' },
  accuracy: { type: 'gauge', help: 'Share of held-out pictures that the shared model has right.' },
  tokens_per_second: { type: 'gauge', help: 'Tokens or examples a second in training.' },
  accepted: { type: 'gauge', help: 'Contributions that the last round counted.' },
  payload_bytes: { type: 'gauge', help: 'Largest payload of the last round.' },
  round_seconds: { type: 'gauge', help: 'Wall time of the last round.' },
  waiting_seconds: { type: 'gauge', help: 'Seconds of it spent waiting for others.' },
  sent_bytes: { type: 'counter', help: 'Bytes of events of this worker that relays took.' },
  refused: { type: 'counter', help: 'Events that did not count, by reason.' },
  stalls: { type: 'counter', help: 'Views of certified rounds without a decision.' },
  faults: { type: 'counter', help: 'Workers proven to have broken the rules.' },
  missing: { type: 'gauge', help: 'Workers that the last stall did not hear of.' },
} as const satisfies Readonly<Record<string, Family>>;

type Name = keyof typeof FAMILIES;

/** Reasons are a fixed list of ours, so labels cannot grow without end. */
export class Metrics {
  readonly #values = new Map<Name, Map<string, number>>();
  /** The furthest round that was finished. */
  #last = -1;

  take(event: RunEvent): void {
    switch (event.type) {
      case 'hello':
        this.#set('parameters', event.parameters);
        this.#set('rounds_planned', event.rounds);
        this.#set('round', event.round + 1);
        break;
      case 'progress':
        this.#set('round', event.round + 1);
        this.#set('tokens_per_second', event.tokensPerSecond);
        break;
      case 'trained':
        this.#set('training_loss', event.loss);
        break;
      case 'published':
        this.#add('sent_bytes', event.eventBytes);
        break;
      case 'refused':
        this.#add('refused', 1, event.reason);
        break;
      case 'stalled':
        this.#add('stalls', 1);
        this.#set('missing', event.missing.length);
        break;
      case 'fault':
        this.#add('faults', 1);
        break;
      case 'round':
        this.#round(event);
        break;
      default:
    }
  }

  /** The text that scrapers read. */
  text(): string {
    const families = Object.entries(FAMILIES).map(([name, { type, help }]) => {
      const full = `nostrain_${name}`;
      const lines = [...(this.#values.get(name as Name) ?? [])].map(([reason, value]) => {
        const label = reason === '' ? '' : `{reason="${reason}"}`;
        return `${full}${type === 'counter' ? '_total' : ''}${label} ${value}\n`;
      });
      return `# TYPE ${full} ${type}\n# HELP ${full} ${help}\n${lines.join('')}`;
    });
    return `${families.join('')}# EOF\n`;
  }

  #round(event: Extract<RunEvent, { type: 'round' }>): void {
    if (event.index > this.#last) this.#add('rounds', 1);
    this.#last = Math.max(this.#last, event.index);
    if (event.certified?.result === 'void') this.#add('void_rounds', 1);
    this.#set('round', event.index + 2);
    this.#set('training_loss', event.trainingLoss);
    this.#set('validation_loss', event.validationLoss);
    this.#set('bits_per_byte', event.bitsPerByte);
    this.#set('accuracy', event.accuracy);
    this.#set('accepted', event.accepted.length);
    this.#set('payload_bytes', event.payloadBytes);
    this.#set('round_seconds', event.seconds);
    this.#set('waiting_seconds', event.secondsWaiting);
    this.#set('missing', 0);
  }

  #set(name: Name, value: number | undefined): void {
    if (value !== undefined && Number.isFinite(value))
      this.#values.set(name, new Map([['', value]]));
  }

  #add(name: Name, more: number, reason = ''): void {
    const values = this.#values.get(name) ?? new Map<string, number>();
    values.set(reason, (values.get(reason) ?? 0) + more);
    this.#values.set(name, values);
  }
}

const TYPE = 'application/openmetrics-text; version=1.0.0; charset=utf-8';

/** Shows them at `/metrics` on this machine until closed; throws `metrics/listen` where the port is taken. */
export async function serveMetrics(metrics: Metrics, port: number): Promise<PageServer> {
  const server = createServer(({ url, method }, response) => {
    const isThere = method === 'GET' && url === '/metrics';
    response.writeHead(isThere ? 200 : 404, { 'content-type': isThere ? TYPE : 'text/plain' });
    response.end(isThere ? metrics.text() : 'numbers are at /metrics\n');
  });
  const { url, close } = await listen(
    server,
    { host: '127.0.0.1', port },
    'metrics/listen',
    '--metrics',
  );
  return { url: `${url}metrics`, close };
}
