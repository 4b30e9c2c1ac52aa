/** Starts a real local chain (anvil) for tests, with helpers that change it, and endpoints that lie about it. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from 'nostrain/base';
import { createEndpoint, createPost, type DeployedRegistry, type Endpoint } from 'nostrain/chain';
import type { ChainAccess } from '../../src/chain/evm/blocks.ts';
import {
  bondFor,
  deployRegistry,
  type Sender,
  type Slashing,
  sendTransaction,
  type Transaction,
  unlockedAccounts,
} from '../../src/chain/registry/registry-calls.ts';
import { findAnvil, startLocalChain } from '../../src/node/net/local-programs.ts';
import type { Missing } from './needs.ts';

const program = findAnvil();
export const anvilMissing: Missing =
  program === undefined ? 'no anvil for this machine' : undefined;

export const never = new AbortController().signal;

export const endpointAt = (url: string, maxBytes = 1024 * 1024): Endpoint =>
  createEndpoint(url, { post: createPost(fetch), clock: systemClock, timeoutMs: 10_000, maxBytes });

export interface TestChain {
  readonly url: string;
  readonly endpoint: Endpoint;
  readonly accounts: readonly string[];
  call(method: string, ...params: readonly unknown[]): Promise<unknown>;
  send(transaction: Transaction): ReturnType<typeof sendTransaction>;
  deploy(unbondingSeconds?: bigint, slashing?: Slashing): Promise<DeployedRegistry>;
  bond(registry: DeployedRegistry, funder: number, key: string, value: bigint): Promise<void>;
  mine(blocks: number): Promise<void>;
  stop(): Promise<void>;
}

/** Starts anvil. A block is final two blocks later unless the flags say otherwise. */
export async function startAnvil(...flags: readonly string[]): Promise<TestChain> {
  const usual = flags.includes('--slots-in-an-epoch') ? [] : ['--slots-in-an-epoch', '1'];
  const { url, stop } = await startLocalChain(program!, [...usual, ...flags]);
  const endpoint = endpointAt(url);
  const sender: Sender = { endpoint, clock: systemClock, signal: never };
  const accounts = await unlockedAccounts(sender);
  const call = (method: string, ...params: readonly unknown[]) =>
    endpoint.call(method, params, never);
  const send = (transaction: Transaction) => sendTransaction(sender, transaction);
  return {
    ...{ url, endpoint, accounts, call, send, stop },
    deploy: (unbondingSeconds = 3600n, slashing) =>
      deployRegistry(sender, accounts[0]!, unbondingSeconds, slashing),
    async bond(registry, funder, key, value) {
      await send(bondFor(registry, accounts[funder]!, key, value));
    },
    async mine(blocks) {
      await call('anvil_mine', `0x${blocks.toString(16)}`);
    },
  };
}

/** Returns the access to the chain for stake sources in tests; by default all endpoints must agree. */
export const accessTo = (
  all: readonly Endpoint[],
  need = all.length,
  clock: Clock = systemClock,
): ChainAccess => ({
  ...{ chain: 'eip155:31337', endpoints: { all, need }, clock },
  ...{ waitMs: 0, pollMs: 20 },
});

export interface LyingEndpoint {
  readonly endpoint: Endpoint;
  readonly url: string;
  readonly server: Server;
}

interface Call {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** Starts a proxy of the endpoint at `url` that replaces each result with that of `alter`; null fails the call. */
export async function startLying(
  url: string,
  alter: (call: Call, result: unknown) => unknown,
): Promise<LyingEndpoint> {
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    const upstream = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    const answer = (await upstream.json()) as { id: unknown; result?: unknown; error?: unknown };
    const result = answer.result === undefined ? undefined : alter(JSON.parse(body), answer.result);
    const error = { code: -32_000, message: 'query returned more than 10000 results' };
    const changed = result === null ? { error } : { result, error: answer.error };
    response.end(JSON.stringify({ jsonrpc: '2.0', id: answer.id, ...changed }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { endpoint: endpointAt(address), url: address, server };
}
