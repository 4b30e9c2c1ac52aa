/** Builds the bytes of a Psyche coordinator account from the offsets in docs/stake.md alone. */

export interface FakeClient {
  /** 32 bytes. */
  readonly signer: Uint8Array;
  readonly earned?: bigint;
  readonly slashed?: bigint;
  readonly active?: bigint;
}

export interface FakeAccount {
  readonly run?: string;
  readonly version?: bigint;
  readonly epoch?: number;
  readonly nonce?: bigint;
  readonly state?: number;
  readonly clients?: readonly FakeClient[];
  readonly nextActive?: bigint;
}

export function fakeAccount(account: FakeAccount = {}): Uint8Array {
  const { run = 'moss', version = 1n, epoch = 3, nonce = 9n, state = 3, clients = [] } = account;
  const { nextActive = 2n } = account;
  const bytes = new Uint8Array(119_160);
  const view = new DataView(bytes.buffer);
  const u64 = (at: number, value: bigint) => view.setBigUint64(at, value, true);
  bytes.set(Buffer.from('ef21b1372c9b562b', 'hex'));
  u64(8, version);
  bytes.set(Buffer.from(run), 376);
  bytes[408] = state;
  view.setUint16(1032, epoch, true);
  view.setUint32(1036, 77, true);
  clients.forEach(({ signer, earned = 0n, slashed = 0n, active = nextActive }, i) => {
    const at = 119_160 - 24_736 + 96 * i;
    bytes.set(signer, at);
    u64(at + 72, earned);
    u64(at + 80, slashed);
    u64(at + 88, active);
  });
  u64(119_000, BigInt(clients.length));
  u64(119_008, nextActive);
  u64(119_152, nonce);
  return bytes;
}
