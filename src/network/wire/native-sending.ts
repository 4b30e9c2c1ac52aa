/** Sends what `nostrain/1` seals: the chunks first, then the manifest, as soon as the relays together hold the payload. */

import { manifest } from '../../../kinds/manifest.ts';
import { stripeOf } from '../attachments/parts.ts';
import { publishWithAttachments } from '../attachments/publish.ts';
import type { SignedEvent } from '../event.ts';
import type { Sending } from '../transport/delivery.ts';
import { watchOutcomes } from '../transport/delivery.ts';
import type { ProfileOptions } from './profile.ts';
import type { Sealed } from './wire.ts';

export interface NativeSending {
  send(sealed: Sealed): Sending;
  /** What was sent last, when it is the event of this id. */
  own(eventId: string): Sealed | undefined;
  /** Ends uploads to relays that are still behind. */
  close(): void;
}

/** Chunks go on to slow relays while the next round is trained, and no longer; a manifest that is all there is, for longer. */
const UPLOADS_IN_CHUNKS = 2;
const UPLOADS_WHOLE = 16;

export function createNativeSending({ relays, signer, sha256 }: ProfileOptions): NativeSending {
  const inChunks = createUploads(UPLOADS_IN_CHUNKS);
  const whole = createUploads(UPLOADS_WHOLE);
  let last: { readonly id: string; readonly sealed: Sealed } | undefined;

  function sendInChunks(event: SignedEvent, payload: Uint8Array): Sending {
    const said = manifest.parse(event);
    if (!said.ok) throw new TypeError(`not a manifest of ours: ${said.issue.message}`);
    const signal = inChunks.begin();
    const lifetime = { createdAt: event.created_at, expiresAt: said.value.expiration };
    return publishWithAttachments(event, [{ payload, stripe: stripeOf(said.value) }], {
      relays,
      sign: (draft) => signer.sign(draft),
      sha256,
      lifetime,
      signal,
    });
  }

  return {
    send(sealed) {
      const { event } = sealed;
      last = { id: event.id, sealed };
      return sealed.payload
        ? sendInChunks(event, sealed.payload)
        : watchOutcomes(relays.send(event, { signal: whole.begin() }), relays);
    },
    own: (eventId) => (last?.id === eventId ? last.sealed : undefined),
    close() {
      inChunks.close();
      whole.close();
    },
  };
}

/** Signals of the latest uploads; older ones are aborted. */
function createUploads(most: number) {
  let open: readonly AbortController[] = [];
  return {
    begin(): AbortSignal {
      const upload = new AbortController();
      const all = [...open, upload];
      for (const old of all.slice(0, -most)) old.abort(new Error('later rounds began'));
      open = all.slice(-most);
      return upload.signal;
    },
    close() {
      for (const upload of open) upload.abort(new Error('closed'));
    },
  };
}
