/** HTTP servers on this machine: one for the files of a web page, one for a worker's metrics (OpenMetrics). */
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

/** Returns the content type for a file extension. */
export const contentTypeOf = (ending: string): string =>
  TYPES[ending] ?? 'application/octet-stream';

/** Larger files are sent uncompressed: on one machine, compressing them takes longer than sending them. */
const MOST_ZIPPED = 8 << 20;

/** Reads the files directly in a folder. Throws a ConfigError (`page/missing`) if the folder does not exist. */
export async function readPage(folder: string): Promise<PageFiles> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new ConfigError('page/missing', `the files of the page are not in ${folder}`, {
      hint: 'build them with `npm run build`, or install the package from the registry',
      cause,
    });
  });
  const read = names.map(async (name) => [name, await readFile(join(folder, name))] as const);
  return new Map(await Promise.all(read));
}

/**
 * Reads the files of a tab that trains: its page, onnxruntime's WebAssembly, and the `texts` and files of base models
 * that it may download, named by their SHA-256. Throws if a file is missing.
 */
export async function readTab(
  texts: ReadonlyMap<string, string>,
  bases: ReadonlyMap<string, string> = new Map(),
): Promise<PageFiles> {
  const page = await readPage(pageFolder());
  const folder = engineFolder();
  const wasm = (await readdir(folder)).filter((name) => USED.includes(name));
  const read = [
    ...wasm.map((name) => [`ort/${name}`, join(folder, name)] as const),
    ...[...texts].map(([sha256, file]) => [`corpus/${sha256}`, file] as const),
    ...[...bases].map(([sha256, file]) => [`base/${sha256}`, file] as const),
  ].map(async ([name, file]) => [name, await readFile(file)] as const);
  return new Map([...page, ...(await Promise.all(read))]);
}

/** Files of the two builds: WebAssembly only, and with WebGPU. */
const USED = ['', '.asyncify'].flatMap((build) =>
  ['mjs', 'wasm'].map((ending) => `ort-wasm-simd-threaded${build}.${ending}`),
);

/** Returns the path of `dist/browser`, from sources as well as from the build. */
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
    hint: 'install it next to nostrain: npm install onnxruntime-web@1.30.0',
    cause,
  });

export interface PageServerOptions {
  readonly host: string;
  /** 0 means any free port. */
  readonly port: number;
  /** Isolates the pages (COOP, COEP), so that their scripts may use several threads. */
  readonly isolated?: boolean;
  /** Called with the text that a page of this server posts to `/told`. Returns the reply: `reload`, `verify` or ''. */
  onMessage?(text: string): string;
}

/** Serves files until closed. Throws a ConfigError (`page/listen`) if the port is taken. */
export async function servePage(
  files: PageFiles,
  { host, port, isolated = false, onMessage }: PageServerOptions,
): Promise<PageServer> {
  const answers = new Map([...files].map(([name, bytes]) => [name, answerOf(name, bytes)]));
  const server = createServer((request, response) => {
    if (isolated) for (const [name, value] of ISOLATING) response.setHeader(name, value);
    const isMessage =
      onMessage !== undefined && request.method === 'POST' && request.url === '/told';
    if (isMessage) receive(request, response, onMessage);
    else answer(request, response, answers, host);
  });
  return await listen(server, { host, port }, 'page/listen', '--port');
}

/** Starts to listen. Throws a ConfigError with this code, which names the flag, if the port is taken. */
export async function listen(
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

/** Headers that isolate a page: it runs scripts of this server only. WebSockets to relays are not affected. */
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
  // another host name means that a foreign page reached this server (DNS rebinding)
  const isRequested = !isLocal || LOOPBACK.test(headers.host ?? '');
  const path = url.replace(/[?#].*$/, '').replace(/^\//, '');
  const file = isRequested ? answers.get(path === '' ? 'index.html' : path) : undefined;
  if (file === undefined || (method !== 'GET' && method !== 'HEAD')) {
    response.writeHead(isRequested ? 404 : 403, { 'content-type': 'text/plain' }).end('not here\n');
    return;
  }
  const isSame = headers['if-none-match'] === file.tag;
  const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0);
  const isPart = !isSame && from > 0 && from < file.bytes.length;
  const isZipped =
    !isPart && file.zipped !== undefined && /\bgzip\b/.test(headers['accept-encoding'] ?? '');
  response.writeHead(isSame ? 304 : isPart ? 206 : 200, {
    'content-type': file.type,
    etag: file.tag,
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'content-security-policy': "frame-ancestors 'none'",
    vary: 'accept-encoding',
    ...(isZipped && { 'content-encoding': 'gzip' }),
    ...(isPart && {
      'content-range': `bytes ${from}-${file.bytes.length - 1}/${file.bytes.length}`,
    }),
  });
  const bytes = isZipped ? file.zipped : file.bytes.subarray(isPart ? from : 0);
  response.end(isSame || method === 'HEAD' ? undefined : bytes);
}

/** Maximum bytes of a text that a page posts. */
const MOST_MESSAGE_BYTES = 1 << 20;

/** Receives a text from a page of this server; the `origin` header shows requests from other pages, which get 403. */
function receive(
  request: IncomingMessage,
  response: ServerResponse,
  onMessage: (text: string) => string,
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
    if (length > MOST_MESSAGE_BYTES) request.destroy();
    else parts.push(part);
  });
  request.on('end', () => {
    const words = onMessage(Buffer.concat(parts).toString());
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(words);
  });
}

interface Family {
  readonly type: 'gauge' | 'counter';
  readonly help: string;
}

const FAMILIES = {
  parameters: { type: 'gauge', help: 'Parameters of the model.' },
  round: { type: 'gauge', help: 'Number of the current round of this worker, from 1.' },
  rounds_planned: { type: 'gauge', help: 'Rounds of the run.' },
  rounds: { type: 'counter', help: 'Rounds this worker has finished.' },
  void_rounds: { type: 'counter', help: 'Void rounds of a certified run.' },
  training_loss: { type: 'gauge', help: 'Mean training loss of the last inner steps.' },
  validation_loss: { type: 'gauge', help: 'Loss of the shared model on validation data.' },
  bits_per_byte: { type: 'gauge', help: 'Validation loss in bits per byte of text.' },
  accuracy: {
    type: 'gauge',
    help: 'Share of validation pictures that the shared model classifies correctly.',
  },
  tokens_per_second: { type: 'gauge', help: 'Tokens or examples per second in training.' },
  accepted: { type: 'gauge', help: 'Contributions in the last round.' },
  payload_bytes: { type: 'gauge', help: 'Largest payload of the last round.' },
  round_seconds: { type: 'gauge', help: 'Wall time of the last round.' },
  waiting_seconds: { type: 'gauge', help: 'Seconds of the last round spent waiting for others.' },
  sent_bytes: { type: 'counter', help: 'Bytes of events that this worker published.' },
  refused: { type: 'counter', help: 'Refused events, by reason.' },
  stalls: { type: 'counter', help: 'Views of certified rounds without a decision.' },
  faults: { type: 'counter', help: 'Workers proven to have broken the rules.' },
  missing: { type: 'gauge', help: 'Workers missing in the last stall.' },
} as const satisfies Readonly<Record<string, Family>>;

type Name = keyof typeof FAMILIES;

/** Metrics of a worker, computed from its events. Labels are bounded: reasons are a fixed list. */
export class Metrics {
  readonly #values = new Map<Name, Map<string, number>>();
  /** Index of the last finished round. */
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

  /** Returns the metrics as OpenMetrics text. */
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

/** Serves metrics at `/metrics` on loopback. Throws a ConfigError (`metrics/listen`) if the port is taken. */
export async function serveMetrics(metrics: Metrics, port: number): Promise<PageServer> {
  const server = createServer(({ url, method }, response) => {
    const isThere = method === 'GET' && url === '/metrics';
    response.writeHead(isThere ? 200 : 404, { 'content-type': isThere ? TYPE : 'text/plain' });
    response.end(isThere ? metrics.text() : 'metrics are at /metrics\n');
  });
  const { url, close } = await listen(
    server,
    { host: '127.0.0.1', port },
    'metrics/listen',
    '--metrics',
  );
  return { url: `${url}metrics`, close };
}
