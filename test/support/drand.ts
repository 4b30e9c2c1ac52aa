/** A drand chain for tests: a key, signatures for any round, and endpoints that serve them or lie. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { sha256, toHex } from 'nostrain/base';
import type { DrandChain } from '../../src/consensus/committee/beacon.ts';

const { shortSignatures } = bls12_381;
const SECRET = new Uint8Array(32).fill(7);
const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';

/** A chain with this start and period, whose key is the test's. */
export const testChain = (genesis: number, periodSeconds: number): DrandChain => ({
  publicKey: toHex(shortSignatures.getPublicKey(SECRET).toBytes()),
  genesis,
  periodSeconds,
});

/** The signature of a round, in hex. */
export function signRound(round: number): string {
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, BigInt(round));
  const message = shortSignatures.hash(sha256(number), DOMAIN);
  return toHex(shortSignatures.sign(message, SECRET).toBytes());
}

export interface DrandEndpoint {
  readonly url: string;
  readonly asked: readonly number[];
  close(): Promise<void>;
}

/** An HTTP endpoint that answers for a round what it is told to; undefined is a 404. */
export async function startDrand(
  answer: (round: number) => string | undefined = (round) =>
    JSON.stringify({ round, signature: signRound(round) }),
): Promise<DrandEndpoint> {
  const asked: number[] = [];
  const server: Server = createServer((request, response) => {
    const round = Number(/^\/chain\/public\/(\d+)$/.exec(request.url ?? '')?.[1]);
    asked.push(round);
    const body = Number.isNaN(round) ? undefined : answer(round);
    response.statusCode = body === undefined ? 404 : 200;
    response.end(body ?? 'not found');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/chain`,
    asked,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
