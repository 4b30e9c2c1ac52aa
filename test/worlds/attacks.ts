/** Attacks by hostile members: each wraps the relays of its worker and changes what it sends. */
import { proposal as proposalKind, vote as voteKind } from 'nostrain/kinds';
import type { RelaySet, SignedEvent, Signer } from 'nostrain/network';
import { bodyDigest } from '../../src/run/outcome.ts';

export type Attack = (relays: RelaySet, signer: Signer) => RelaySet;

type Send = RelaySet['send'];

/** Returns the relays with another way to send. */
function sendingBy(relays: RelaySet, send: Send): RelaySet {
  return {
    ...{ relays: relays.relays, readRelays: relays.readRelays, send },
    publish: (event, options) => Promise.all(send(event, options)),
    subscribe: (...args) => relays.subscribe(...args),
    query: (...args) => relays.query(...args),
    status: () => relays.status(),
    workFor: (kind) => relays.workFor(kind),
    ready: (signal) => relays.ready(signal),
    close: () => relays.close(),
  };
}

const forget = (outcomes: readonly Promise<unknown>[]): void => {
  for (const outcome of outcomes) outcome.catch(() => undefined);
};

/** Content of a vote or proposal. */
interface Content {
  readonly round: number;
  readonly digest: string;
  readonly body?: string;
  readonly view?: number;
}

const isVoting = ({ kind }: SignedEvent): boolean =>
  kind === voteKind.kind || kind === proposalKind.kind;

/** Signs an event again with other content; the tag `x` names the digest. */
function resign(event: SignedEvent, content: Content, signer: Signer): SignedEvent {
  const tags = event.tags.map(([name = '', ...rest]) =>
    name === 'x' ? [name, content.digest] : [name, ...rest],
  );
  const { kind, created_at } = event;
  return signer.sign({ kind, created_at, tags, content: JSON.stringify(content) });
}

/**
 * From a round on, proposes one outcome at some relays and another at the rest, and votes for both. Both are valid;
 * their times differ by a second.
 */
export const splitting =
  (fromRound: number): Attack =>
  (relays, signer) => {
    const twins = new Map<string, string>();
    const halves = [0, 1].map((half) => relays.relays.filter((_, i) => i % 2 === half));
    const send: Send = (event, options) => {
      const content = isVoting(event) ? (JSON.parse(event.content) as Content) : undefined;
      if (!content || content.round < fromRound) return relays.send(event, options);
      const twin = twinOf(content, twins);
      if (!twin) return relays.send(event, options);
      const [some, others] = halves as [string[], string[]];
      const where = others.length > 0 ? others : some;
      forget(relays.send(resign(event, twin, signer), { ...options, only: where }));
      return relays.send(event, { ...options, only: some });
    };
    return sendingBy(relays, send);
  };

function twinOf(content: Content, twins: Map<string, string>): Content | undefined {
  if (content.body !== undefined) {
    const body = content.body.replace(/"time":(\d+)/, (_, time) => `"time":${Number(time) + 1}`);
    twins.set(content.digest, bodyDigest(body));
    return { ...content, body, digest: bodyDigest(body) };
  }
  const digest = twins.get(content.digest);
  return digest === undefined ? undefined : { ...content, digest };
}

/** Sends with each vote many more for outcomes that do not exist, in this view and later ones. */
export const flooding =
  (fromRound: number): Attack =>
  (relays, signer) => {
    const send: Send = (event, options) => {
      const content =
        event.kind === voteKind.kind ? (JSON.parse(event.content) as Content) : undefined;
      if (content && content.round >= fromRound) {
        for (let i = 1; i <= FLOOD; i++) {
          const digest = bodyDigest(`${content.digest}${i}`);
          const made = { ...content, digest, view: (content.view ?? 0) + (i % 4) };
          forget(relays.send(resign(event, made, signer), { ...options, skipWhenBusy: true }));
        }
      }
      return relays.send(event, options);
    };
    return sendingBy(relays, send);
  };

const FLOOD = 12;
