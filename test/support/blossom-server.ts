/** A Blossom server in memory, as strict as its specification, for tests of chunk mirrors. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseEvent, verifyEvent } from 'nostrain/network';

export interface BlossomServer {
  readonly url: string;
  readonly blobs: Map<string, Buffer>;
  /** Keys that signed the uploads. */
  readonly uploaders: string[];
  /** Blobs that were read. */
  readonly reads: { count: number };
  close(): Promise<void>;
}

export async function startBlossomServer(): Promise<BlossomServer> {
  const blobs = new Map<string, Buffer>();
  const types = new Map<string, string>();
  const uploaders: string[] = [];
  const reads = { count: 0 };
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const sha256 = createHash('sha256').update(body).digest('hex');
    const uploader = signerOfUpload(request.headers.authorization, sha256);
    if (uploader === undefined) {
      response.writeHead(401, { 'x-reason': 'not signed for' }).end();
      return;
    }
    uploaders.push(uploader);
    blobs.set(sha256, body);
    types.set(sha256, request.headers['content-type'] ?? '');
    response.end(JSON.stringify({ sha256, size: body.length }));
  };
  const server = createServer((request, response) => {
    if (request.method === 'PUT' && request.url === '/upload') {
      void take(request, response);
      return;
    }
    const blob = blobs.get(request.url!.slice(1));
    if (request.method === 'GET') reads.count++;
    if (blob === undefined) response.writeHead(404).end();
    else {
      const type = types.get(request.url!.slice(1));
      if (type) response.setHeader('content-type', type);
      response.end(request.method === 'HEAD' ? undefined : blob);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    ...{ blobs, uploaders, reads },
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Returns the key that signed a valid upload authorization for this blob; undefined if the header has none. */
function signerOfUpload(header: string | undefined, sha256: string): string | undefined {
  const text = /^Nostr ([\w-]+)$/.exec(header ?? '')?.[1];
  if (text === undefined) return undefined;
  const parsed = parseEvent(JSON.parse(Buffer.from(text, 'base64url').toString()));
  if (!parsed.ok || !verifyEvent(parsed.value).ok || parsed.value.kind !== 24_242) return undefined;
  const { tags, pubkey } = parsed.value;
  const has = (name: string, value: string) => tags.some(([key, said]) => key === name && said === value); // biome-ignore format: one line
  const expires = Number(tags.find(([key]) => key === 'expiration')?.[1]);
  const isLeave = has('t', 'upload') && has('x', sha256) && has('server', '127.0.0.1');
  return isLeave && expires > Date.now() / 1000 ? pubkey : undefined;
}
