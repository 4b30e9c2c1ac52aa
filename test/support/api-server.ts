/** A server of the API on a relay in memory that has all events of a run but those of its last round. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultRetry, systemClock } from 'nostrain/base';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { nativeSha256, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { FollowedRuns } from '../../src/cli/commands/serve/context.ts';
import { serveApi } from '../../src/cli/commands/serve/server.ts';
import { eventful, generateRun, signerOf } from './certified-run.ts';
import { publishRaw } from './publish-raw.ts';

/** The open round. */
export const OPEN_ROUND = 7;

export const made = generateRun([...eventful, {}]);
const isOfRound = ({ tags }: SignedEvent) =>
  tags.some(([, value]) => value === `${made.run}/${OPEN_ROUND}`);
/** Events of the open round. */
export const last = made.events.filter(isOfRound);
/** Events that the relay has. */
export const before = made.events.filter((event) => !isOfRound(event));

/** Members of results that tests read one by one. */
interface Result {
  readonly run: string;
  readonly naddr: string;
  readonly status: string;
  readonly decision: string;
  readonly complete: boolean;
  readonly quorum: number;
  readonly event?: object;
  readonly last: { readonly outcome: string };
  readonly open: { readonly committee: readonly string[]; readonly sent: number };
  readonly runs: readonly { readonly name: string }[];
  readonly methods: readonly { readonly name: string }[];
}

export interface Reply {
  readonly id: unknown;
  readonly result: Result;
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data: { readonly type: string; readonly reason?: string };
  };
}

export const TOKEN = '0123456789abcdef'.repeat(4);
const authorization = `Bearer ${TOKEN}`;

/** Starts relay and server. The data folder is a new one. */
export async function startApiServer() {
  const home = await mkdtemp(join(tmpdir(), 'serve-'));
  process.env.NOSTRAIN_HOME = home;
  const relay = await createRelay();
  await publishRaw(relay.url, before);
  const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
  const over = new AbortController();
  const session = { relays, clock: systemClock, sha256: nativeSha256, signal: over.signal };
  const connection = { openTimeoutMs: 5000, retry: defaultRetry };
  const api = {
    ...session,
    reach: { connection, signal: over.signal, relays: [relay.url] },
    signer: signerOf(1),
    runs: new FollowedRuns(session),
    sealedFolder: join(home, 'sealed'),
    files: {},
    onNotice: () => undefined,
  };
  const server = await serveApi(api, { host: '127.0.0.1', port: 0, token: TOKEN });
  const post = (body: string, headers: Record<string, string> = {}) =>
    fetch(server.url, { method: 'POST', body, headers: { authorization, ...headers } });
  const call = async (method: string, params: object = {}): Promise<Reply> => {
    const response = await post(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));
    return (await response.json()) as Reply;
  };
  return {
    home,
    url: server.url,
    relayUrl: relay.url,
    post,
    call,
    typeOf: async (method: string, params: object) => (await call(method, params)).error?.data.type,
    stream: (run: string, options: RequestInit = { headers: { authorization } }) =>
      fetch(`${server.url}runs/${run}/events`, options),
    async close() {
      over.abort(new Error('over'));
      await server.close();
      await relays.close();
      await relay.close();
      await rm(home, { recursive: true });
    },
  };
}

export type ApiServer = Awaited<ReturnType<typeof startApiServer>>;
