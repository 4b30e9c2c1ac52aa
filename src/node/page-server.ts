/**
 * Serves the pages of this package on this machine, isolated (COOP, COEP), so that a tab may compute with several threads; with them the
 * WebAssembly of onnxruntime-web, and texts to train on by their hash. It answers with these files and no others.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError, TrainingError } from '../base/errors.ts';

export interface PageServerOptions {
  /** 0 takes any free one. */
  readonly port: number;
  /** Files of texts by the SHA-256 of their bytes. */
  readonly texts?: ReadonlyMap<string, string>;
  /**
   * Hears what pages that were asked to tell say (`&tell` in their address), as text; what it answers is what the page shall do: `reload`,
   * `verify`, or nothing.
   */
  readonly onTold?: (text: string) => string;
  /** Served without the headers that isolate a page: its tabs then have one thread. */
  readonly isolated?: boolean;
}

export interface PageServer {
  /** Ends in a slash. */
  readonly url: string;
  close(): Promise<void>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

/** Scripts and workers of this server alone; relays are reached over WebSockets, wherever they are. */
const POLICY = [
  ...["default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "worker-src 'self' blob:"],
  ...["connect-src 'self' ws: wss:", "style-src 'self' 'unsafe-inline'", "img-src 'self' data:"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');

const headersOf = (isolated: boolean): Readonly<Record<string, string>> => ({
  ...(isolated && {
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-embedder-policy': 'require-corp',
  }),
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
});

/** Starts it on 127.0.0.1. Throws where the pages were not built, or onnxruntime-web is not installed. */
export async function servePages(options: PageServerOptions): Promise<PageServer> {
  const files = await filesServed(options);
  const headers = headersOf(options.isolated ?? true);
  const { onTold } = options;
  const server = createServer((request, response) => {
    if (onTold && request.method === 'POST' && request.url === '/told') {
      hear(request, response, { headers, onTold });
    } else answer(request, response, { files, headers });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, '127.0.0.1', resolve);
  }).catch((cause: unknown) => {
    throw new ConfigError('page/listen', `cannot listen on 127.0.0.1:${options.port}`, {
      hint: 'choose another port; 0 takes any free one',
      cause,
    });
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** By their paths. */
async function filesServed({ texts = new Map() }: PageServerOptions) {
  const [pages, engine] = [pagesFolder(), engineFolder()];
  const found = await readdir(pages).catch((cause: unknown) => {
    throw new ConfigError('page/unbuilt', `the pages were not built: ${pages} is not there`, {
      hint: 'in a checkout: npm run build',
      cause,
    });
  });
  const wasm = (await readdir(engine)).filter((name) => /^ort-wasm.*\.(mjs|wasm)$/.test(name));
  return new Map([
    ...found.map((name) => [`/${name}`, join(pages, name)] as const),
    ...wasm.map((name) => [`/ort/${name}`, join(engine, name)] as const),
    ...[...texts].map(([sha256, file]) => [`/corpus/${sha256}`, file] as const),
  ]);
}

/** `dist/browser`, from the sources as from the build. */
const pagesFolder = (): string =>
  fileURLToPath(
    new URL(
      import.meta.url.endsWith('.ts') ? '../../dist/browser' : '../../browser',
      import.meta.url,
    ),
  );

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

interface Served {
  readonly files: ReadonlyMap<string, string>;
  readonly headers: Readonly<Record<string, string>>;
}

function answer(
  { url = '/', method }: IncomingMessage,
  response: ServerResponse,
  { files, headers }: Served,
): void {
  const file = files.get(url.split(/[?#]/)[0]!);
  if (file === undefined || (method !== 'GET' && method !== 'HEAD')) {
    response.writeHead(file === undefined ? 404 : 405, headers).end();
    return;
  }
  const type = TYPES[extname(file)] ?? 'application/octet-stream';
  stat(file).then(
    ({ size }) => {
      response.writeHead(200, { ...headers, 'content-type': type, 'content-length': size });
      if (method === 'HEAD') response.end();
      else
        createReadStream(file)
          .on('error', () => response.destroy())
          .pipe(response);
    },
    () => response.writeHead(404, headers).end(),
  );
}

/** A page says one thing at a time, in few words. */
const MOST_TOLD = 1 << 20;

/** Pages of other servers may not speak here: browsers say where a request comes from. */
function hear(
  request: IncomingMessage,
  response: ServerResponse,
  { headers, onTold }: Pick<Served, 'headers'> & { onTold(text: string): string },
): void {
  if (request.headers.origin !== `http://${request.headers.host}`) {
    response.writeHead(403, headers).end();
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
    const type = { 'content-type': 'text/plain; charset=utf-8' };
    response.writeHead(200, { ...headers, ...type }).end(onTold(Buffer.concat(parts).toString()));
  });
}
