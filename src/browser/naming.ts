/**
 * Determines the identity of a tab in a run with sessions: its own key, or a delegation that the owner's signer signs
 * once (NIP-07 in the page, or a NIP-46 bunker). The tab never has the owner's secret key.
 */
import { systemClock } from '../base/async.ts';
import { parseJson } from '../base/canonical-json.ts';
import { ConfigError } from '../base/errors.ts';
import { draftDelegation, readDelegation, type SessionOf } from '../certified/wire/messages.ts';
import { parseEvent, type SignedEvent } from '../network/event.ts';
import { createRelaySet } from '../network/transport/relay-set.ts';
import { openSocket } from '../network/transport/socket.ts';
import { askBunker, parseBunker } from '../network/wire/bunker.ts';
import { type Delegation, delegationField } from '../run/spec/feature-fields.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import type { TabStorage } from './storage.ts';

export type Name =
  | { readonly kind: 'own' }
  /** The event that a signer in the page (NIP-07) returned. */
  | { readonly kind: 'signed'; readonly event: unknown }
  | { readonly kind: 'bunker'; readonly address: string };

export interface NamingOptions extends SessionOf {
  readonly storage: TabStorage;
  readonly prefix: string;
  readonly given: Name | undefined;
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Returns the stored or given delegation; null for the tab's own key. Throws `tab/name` with a draft to sign if no
 * delegation is stored or given.
 */
export async function nameOf(
  { sessions, training }: RunSpec,
  options: NamingOptions,
): Promise<Delegation | null> {
  if (!sessions) return null;
  const { storage, prefix, given } = options;
  const key = `${prefix}/name`;
  if (given === undefined) {
    const kept = await storage.get(key);
    const read = typeof kept === 'string' ? parseJson(kept) : undefined;
    const name = read?.ok ? delegationField.read(read.value) : undefined;
    if (name !== undefined) return name;
  }
  const draft = draftDelegation(options, training.rounds - 1, Math.floor(Date.now() / 1000));
  if (given === undefined) throw needsName('choose the identity of this tab in the run', draft);
  const name = given.kind === 'own' ? null : await signedName(given, draft, options);
  await storage.put(key, JSON.stringify(name));
  return name;
}

const needsName = (message: string, draft: object) =>
  new ConfigError('tab/name', message, {
    hint: 'use the key of this tab, or let your signer delegate to it',
    data: { draft },
  });

async function signedName(
  given: Exclude<Name, { readonly kind: 'own' }>,
  draft: ReturnType<typeof draftDelegation>,
  options: NamingOptions,
): Promise<Delegation> {
  const event =
    given.kind === 'signed' ? parseEvent(given.event) : await fromBunker(given, draft, options);
  const read = event.ok ? readDelegation(event.value, options) : event;
  if (read.ok) return read.value;
  throw needsName(`the signer returned an invalid delegation: ${read.issue.message}`, draft);
}

async function fromBunker(
  { address }: Extract<Name, { readonly kind: 'bunker' }>,
  draft: ReturnType<typeof draftDelegation>,
  { onNotice, signal }: NamingOptions,
): Promise<{ readonly ok: true; readonly value: SignedEvent }> {
  const bunker = parseBunker(address);
  if (!bunker.ok) throw needsName(bunker.issue.message, draft);
  const relays = createRelaySet(bunker.value.relays, { openSocket, clock: systemClock });
  try {
    await relays.ready(signal);
    onNotice('waiting for your signer: it may ask for your approval');
    const onAuth = (url: string) => onNotice(`your signer asks you to open ${url}`);
    const means = { relays, clock: systemClock, signal, onAuth };
    return { ok: true, value: await askBunker(draft, bunker.value, means) };
  } finally {
    await relays.close();
  }
}
