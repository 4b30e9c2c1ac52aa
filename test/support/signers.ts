/** Signers and events for tests; the keys are public, never use them. */
import { createSigner, type EventDraft, type SignedEvent, type Signer } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';

const signers = new Map<number, Signer>();

/** Returns the cached signer with this number, from 1. It signs natively, with the same bits as pure JavaScript. */
export function signerOf(number: number): Signer {
  const known = signers.get(number);
  if (known) return known;
  const signer = createSigner(new Uint8Array(32).fill(number), nativeCrypto);
  signers.set(number, signer);
  return signer;
}

/** A regular event of the first signer, signed now or at the given fields. */
export const eventOf = (content: string, draft: Partial<EventDraft> = {}): SignedEvent =>
  signerOf(1).sign({ kind: 1000, created_at: 1_700_000_000, tags: [], content, ...draft });

/** Returns the event with one hex digit of its signature changed: the id is still valid, the signature is not. */
export const forgedTwin = (event: SignedEvent): SignedEvent => ({
  ...event,
  sig: `${event.sig[0] === '0' ? '1' : '0'}${event.sig.slice(1)}`,
});
