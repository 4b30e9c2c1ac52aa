/** Attacks by hostile members: each wraps the relays of its worker and changes what it sends. */
import { sha256Hex, utf8 } from 'nostrain/base';
import { buildMessage } from 'nostrain/certified/parts';
import {
  chunk as chunkKind,
  manifest as manifestKind,
  memberKind,
  proposal as proposalKind,
  vote as voteKind,
} from 'nostrain/kinds';
import type { RelaySet, SignedEvent, Signer } from 'nostrain/network';
import { canonicalJson } from '../../src/base/canonical-json.ts';
import { bodyDigest } from '../../src/run/outcome.ts';

export type Attack = (relays: RelaySet, signer: Signer) => RelaySet;

type Send = RelaySet['send'];

/** Returns the relays with another way to send, or to hear. */
function changed(
  relays: RelaySet,
  { send = relays.send.bind(relays), hears = () => true }: Changes,
): RelaySet {
  return {
    ...{ relays: relays.relays, readRelays: relays.readRelays, send },
    publish: (event, options) => Promise.all(send(event, options)),
    subscribe: (filters, handlers, options) => {
      const onEvent: typeof handlers.onEvent = (event, relay) =>
        hears(event) ? handlers.onEvent(event, relay) : undefined;
      return relays.subscribe(filters, { ...handlers, onEvent }, options);
    },
    query: (...args) => relays.query(...args),
    status: () => relays.status(),
    workFor: (kind) => relays.workFor(kind),
    ready: (...args) => relays.ready(...args),
    close: () => relays.close(),
  };
}

interface Changes {
  readonly send?: Send;
  /** Reports whether an event of others gets through. */
  hears?(event: SignedEvent): boolean;
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
  readonly parent?: string;
}

const isVoting = ({ kind }: SignedEvent): boolean =>
  kind === voteKind.kind || kind === proposalKind.kind;

/** Signs an event again with other content; the tag `x` names the digest. */
const resign = (event: SignedEvent, content: Content, signer: Signer): SignedEvent =>
  resignAs(event, JSON.stringify(content), content.digest, signer);

function resignAs(
  { kind, created_at, tags }: SignedEvent,
  content: string,
  named: string | undefined,
  signer: Signer,
): SignedEvent {
  const renamed = tags.map(([name = '', ...rest]) =>
    name === 'x' && named !== undefined ? [name, named] : [name, ...rest],
  );
  return signer.sign({ kind, created_at, tags: renamed, content });
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
    return changed(relays, { send });
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
    return changed(relays, { send });
  };

const FLOOD = 12;

/** Returns another vote in place of this one, with the id that it would have, and the signature of the true one. */
export function forgedFrom(event: SignedEvent): SignedEvent {
  const { pubkey, created_at, kind } = event;
  const content = JSON.parse(event.content) as Content;
  const digest = bodyDigest(`${content.digest} forged`);
  const tags = event.tags.map(([name = '', ...rest]) =>
    name === 'x' ? [name, digest] : [name, ...rest],
  );
  const text = JSON.stringify({ ...content, digest });
  const id = sha256Hex(utf8(JSON.stringify([0, pubkey, created_at, kind, tags, text])));
  return { ...event, id, tags, content: text };
}

/** Sends something else in place of events of some kinds. */
const sendsOther =
  (
    kinds: readonly number[],
    otherFor: (event: SignedEvent, signer: Signer) => SignedEvent,
  ): Attack =>
  (relays, signer) => {
    const send: Send = (event, options) =>
      relays.send(kinds.includes(event.kind) ? otherFor(event, signer) : event, options);
    return changed(relays, { send });
  };

interface Judged extends Content {
  readonly features?: {
    readonly scores?: { readonly of: readonly (readonly [number, number])[] };
    readonly screening?: { readonly screened: readonly number[] };
  };
}

/** Says in its votes that all others do harm. */
export const slandering = (fromRound: number): Attack =>
  sendsOther([voteKind.kind], (event, signer) => {
    const content = JSON.parse(event.content) as Judged;
    const { scores, screening } = content.features ?? {};
    if (content.round < fromRound || !(scores || screening)) return event;
    const features = {
      ...content.features,
      ...(scores && { scores: { of: scores.of.map(([index]) => [index, -1_000_000] as const) } }),
      ...(screening && { screening: { screened: [0, 1, 2] } }),
    };
    return resign(event, { ...content, features } as Content, signer);
  });

/** Votes for the right outcomes, but as if they followed another one. */
export const uprooting = (fromRound: number): Attack =>
  sendsOther([voteKind.kind], (event, signer) => {
    const content = JSON.parse(event.content) as Content;
    if (content.round < fromRound || content.parent === undefined) return event;
    return resign(event, { ...content, parent: bodyDigest(content.parent) }, signer);
  });

/** Claims not to have the contributions of some members: proposes outcomes without them. */
export const censoring =
  (fromRound: number): Attack =>
  (relays, signer) =>
    changed(relays, {
      hears: ({ kind, pubkey, content }) =>
        kind !== manifestKind.kind ||
        (JSON.parse(content) as Content).round < fromRound ||
        pubkey === signer.publicKey ||
        Number.parseInt(pubkey.slice(-1), 16) % 2 === 0,
    });

/** Tries many dates for each contribution and proposal, and sends the event with the lowest id. */
export const grinding = (fromRound: number): Attack =>
  sendsOther([manifestKind.kind, proposalKind.kind], (event, signer) => {
    const { kind, created_at, tags, content } = event;
    if ((JSON.parse(content) as Content).round < fromRound) return event;
    const tries = Array.from({ length: 16 }, (_, seconds) =>
      signer.sign({ kind, created_at: created_at - seconds, tags, content }),
    );
    return tries.reduce((least, each) => (each.id < least.id ? each : least));
  });

/** Joins with something else about its machine than what is true. */
export const mismachining = (wrong: object): Attack =>
  sendsOther([memberKind.kind], (event, signer) => {
    const { features, ...content } = JSON.parse(event.content);
    if (features?.machines === undefined) return event;
    const machines = { ...features?.machines, ...wrong };
    const text = canonicalJson({ ...content, features: { ...features, machines } });
    return resignAs(event, text, undefined, signer);
  });

/** Sends what another member contributed, in its own name. */
export const copying =
  (fromRound: number): Attack =>
  (relays, signer) => {
    let heard: string | undefined;
    const send: Send = (event, options) => {
      const own = event.kind === manifestKind.kind ? JSON.parse(event.content) : undefined;
      if (!own || own.round < fromRound || heard === undefined) return relays.send(event, options);
      const { codec, hash, bytes, root, payload } = JSON.parse(heard);
      const content = JSON.stringify({ ...own, codec, hash, bytes, root, payload });
      return relays.send(resignAs(event, content, root, signer), options);
    };
    const hears = ({ kind, pubkey, content }: SignedEvent): boolean => {
      if (kind === manifestKind.kind && pubkey !== signer.publicKey) heard = content;
      return true;
    };
    return changed(relays, { send, hears });
  };

/** Announces chunks whose bytes are wrong. */
export const mischunking: Attack = sendsOther([chunkKind.kind], (event, signer) => {
  const middle = event.content.length >> 1;
  const content = `${event.content.slice(0, middle)}AAAA${event.content.slice(middle + 4)}`;
  return resignAs(event, content, undefined, signer);
});

/** Leaves the run once `isDue`, in the next round that it votes in. */
export const leaving =
  (run: string, isDue: () => boolean): Attack =>
  (relays, signer) => {
    let hasLeft = false;
    const send: Send = (event, options) => {
      if (!hasLeft && event.kind === voteKind.kind && isDue()) {
        hasLeft = true;
        const { round: last } = JSON.parse(event.content) as Content;
        const lifetime = { createdAt: event.created_at, expiresAt: event.created_at + 86_400 };
        const leave = buildMessage({ type: 'leave', run, last }, lifetime);
        forget(relays.send(signer.sign(leave), options));
      }
      return relays.send(event, options);
    };
    return changed(relays, { send });
  };
