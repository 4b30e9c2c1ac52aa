/**
 * The coordinator account of a Psyche run on Solana, version 1: who takes part in the epoch, and what they earned. Offsets as in
 * docs/stake.md. The account has no stake field, so weights are 1 each, or earned minus slashed points.
 */
import { toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';

export interface CoordinatorClient {
  /** Ed25519 key of the client's Solana account, hex. */
  readonly signer: string;
  readonly earned: bigint;
  readonly slashed: bigint;
}

export interface Coordinator {
  readonly runId: string;
  readonly state: number;
  readonly epoch: number;
  readonly step: number;
  /** Rises with every change of the account. */
  readonly nonce: bigint;
  /** Those who take part: their `active` is the account's `next_active`. */
  readonly clients: readonly CoordinatorClient[];
}

export const ACCOUNT_BYTES = 119_160;
const DISCRIMINATOR = 'ef21b1372c9b562b';
const VERSION = 1n;
const AT = {
  version: 8,
  runId: 376,
  state: 408,
  epoch: 1032,
  step: 1036,
  clients: 94_424,
  length: 119_000,
  nextActive: 119_008,
  nonce: 119_152,
};
const MOST_CLIENTS = 256;
const CLIENT_BYTES = 96;
const LAST_STATE = 7;

/** The account's bytes as a reading; any other version, length or program is refused. */
export function readCoordinator(bytes: Uint8Array): Result<Coordinator> {
  const broken = (message: string) => refuse('bad-account', 'account', message);
  if (bytes.length !== ACCOUNT_BYTES) return broken(`${bytes.length} bytes, not ${ACCOUNT_BYTES}`);
  if (toHex(bytes.subarray(0, 8)) !== DISCRIMINATOR) return broken('not a coordinator account');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const u64 = (at: number) => view.getBigUint64(at, true);
  if (u64(AT.version) !== VERSION) return broken(`version ${u64(AT.version)}, only 1 is known`);
  const runId = paddedText(bytes.subarray(AT.runId, AT.runId + 32));
  if (runId === undefined) return broken('the run id is no text');
  const state = bytes[AT.state]!;
  if (state > LAST_STATE) return broken(`run state ${state} is not known`);
  const length = u64(AT.length);
  if (length > BigInt(MOST_CLIENTS)) return broken(`${length} clients, ${MOST_CLIENTS} at most`);
  const clients: CoordinatorClient[] = [];
  for (let i = 0; i < Number(length); i++) {
    const at = AT.clients + i * CLIENT_BYTES;
    if (u64(at + 88) !== u64(AT.nextActive)) continue;
    const signer = toHex(bytes.subarray(at, at + 32));
    clients.push({ signer, earned: u64(at + 72), slashed: u64(at + 80) });
  }
  if (new Set(clients.map(({ signer }) => signer)).size < clients.length) {
    return broken('a client is in it twice');
  }
  return ok({
    ...{ runId, state, clients, nonce: u64(AT.nonce) },
    epoch: view.getUint16(AT.epoch, true),
    step: view.getUint32(AT.step, true),
  });
}

/** Printable ASCII followed by zeros to the end. */
function paddedText(bytes: Uint8Array): string | undefined {
  const text = String.fromCharCode(...bytes).replace(/\0+$/, '');
  return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
}
