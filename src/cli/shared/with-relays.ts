/** Relays for one piece of work of a command: connected before it, closed after it. */
import { anySignal, systemClock } from '../../base/async.ts';
import type { BoardOptions } from '../../certified/wire/runs.ts';
import { createSigner, type Signer } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { parseRelayUrls } from '../../network/transport/relay-urls.ts';
import { createSecretKey } from '../../node/files/keys.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { type Connection, connectRelays } from '../../node/net/relays.ts';
import { writeNote } from '../../terminal/output.ts';

export interface Reach {
  readonly connection: Connection;
  /** Proves to relays that ask whose key this is; default a key of the moment. */
  readonly signer?: Signer | undefined;
  readonly signal: AbortSignal;
}

/** A signer for whoever needs no key of their own. */
export const passingSigner = (): Signer => createSigner(createSecretKey(), nativeCrypto);

const wordWait = (relays: readonly string[]): void =>
  writeNote(`waiting for an answer from ${relays.join(', ')}`);

/** Does the work with these relays; it is handed what most readers of relays need, and a signal that ends what it leaves under way. */
export async function withRelays<T>(
  urls: readonly string[],
  { connection, signer = passingSigner(), signal }: Reach,
  work: (board: BoardOptions & { readonly relays: RelaySet }) => Promise<T>,
): Promise<T> {
  const told = { onWaiting: wordWait, ...connection };
  const relays = await connectRelays(parseRelayUrls(urls), told, signer, signal);
  const over = new AbortController();
  const working = anySignal(signal, over.signal);
  const given = { clock: systemClock, sha256: nativeSha256, signal: working.signal };
  try {
    return await work({ relays, ...given });
  } finally {
    over.abort(new Error('over'));
    working.release();
    await relays.close();
  }
}
