/** Wraps the relays of a hostile worker in tests: withholds its votes, or adds a second, contradicting commit. */

import { sha256Hex, utf8 } from 'nostrain/base';
import { proposal, vote } from 'nostrain/kinds';
import type { PublishOutcome, RelaySet, SignedEvent, Signer } from 'nostrain/network';

export interface Attack {
  /** Commits to a second, invented outcome from this round on. */
  readonly equivocateFrom?: number;
  /** Lifetime of votes and proposals in seconds, after which they expire. */
  readonly lastsSeconds?: number;
  /** Votes and proposals of these rounds are not sent. */
  readonly silentFrom?: number;
  readonly silentTo?: number;
}

/** Returns a relay set that sends through `relays` and misbehaves as `attack` says. */
export function misbehave(relays: RelaySet, signer: Signer, attack: Attack): RelaySet {
  const { equivocateFrom = Infinity, silentFrom = Infinity, silentTo = -1 } = attack;
  const send: RelaySet['send'] = (made, options) => {
    const round = roundOf(made);
    if (round === undefined) return relays.send(made, options);
    const event = endingSoon(made, signer, attack.lastsSeconds);
    if (round >= silentFrom && round <= silentTo) return relays.relays.map(pretend);
    const outcomes = relays.send(event, options);
    if (round >= equivocateFrom && isCommit(event)) {
      for (const outcome of relays.send(twinOf(event, signer), options))
        void outcome.catch(() => {});
    }
    return outcomes;
  };
  return {
    relays: relays.relays,
    readRelays: relays.readRelays,
    send,
    publish: (event, options) => Promise.all(send(event, options)),
    subscribe: (...args) => relays.subscribe(...args),
    query: (...args) => relays.query(...args),
    status: () => relays.status(),
    workFor: (kind) => relays.workFor(kind),
    ready: (signal) => relays.ready(signal),
    close: () => relays.close(),
  };
}

/** Returns the round of a vote or proposal; undefined for other events. */
function roundOf({ kind, content }: SignedEvent): number | undefined {
  if (kind !== vote.kind && kind !== proposal.kind) return undefined;
  return Number(JSON.parse(content).round);
}

function endingSoon(
  event: SignedEvent,
  signer: Signer,
  lastsSeconds: number | undefined,
): SignedEvent {
  if (lastsSeconds === undefined) return event;
  const { kind, created_at, content } = event;
  const end = String(created_at + lastsSeconds);
  const tags = event.tags.map(([name = '', ...rest]) =>
    name === 'expiration' ? [name, end] : [name, ...rest],
  );
  return signer.sign({ kind, created_at, tags, content });
}

const isCommit = ({ kind, content }: SignedEvent): boolean =>
  kind === vote.kind && JSON.parse(content).step === 'commit';

/** Returns a commit in the same slot, signed by the same key, to an outcome that does not exist. */
function twinOf({ kind, created_at, tags, content }: SignedEvent, signer: Signer): SignedEvent {
  const said = JSON.parse(content);
  const digest = sha256Hex(utf8(said.digest));
  return signer.sign({
    ...{ kind, created_at },
    tags: tags.map(([name, ...values]) => (name === 'x' ? ['x', digest] : [name!, ...values])),
    content: JSON.stringify({ ...said, digest }),
  });
}

const pretend = (relay: string): Promise<PublishOutcome> =>
  Promise.resolve({ relay, status: 'accepted', message: '', attempts: 1, delaysMs: [] });
