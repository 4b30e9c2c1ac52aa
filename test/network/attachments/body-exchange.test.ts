/** Proposals whose outcomes are in chunks, between members of a run over real relays. */

import { systemClock, utf8 } from 'nostrain/base';
import {
  buildProposal,
  Control,
  collectEvents,
  type ProtocolMessage,
} from 'nostrain/certified/parts';
import { chunk } from 'nostrain/kinds';
import {
  apartIn,
  createRelaySet,
  planChunks,
  type RelaySet,
  type SignedEvent,
  type Signer,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { outcomeBody, type Proposal } from 'nostrain/run';
import { expect, it } from 'vitest';
import { signerOf } from '../../support/certified-run.ts';
import { createKeeper } from '../../support/keeper.ts';
import { largeProposal, outcomeWith, proposalOf } from '../../support/large-bodies.ts';
import { publishRaw } from '../../support/publish-raw.ts';

const [proposer, reader, other, stranger] = [signerOf(1), signerOf(2), signerOf(3), signerOf(4)];
const made = largeProposal();
const { run, round } = made;
const createdAt = Math.floor(Date.now() / 1000);
const life = { createdAt, expiresAt: createdAt + 86_400 };

const keep = createKeeper();
const relay = async (): Promise<string> => keep(await createRelay({ maxEventBytes: 65_536 })).url;

interface Member {
  readonly control: Control;
  readonly heard: ProtocolMessage[];
  /** Beginnings of the roots whose chunks it asked for. */
  readonly asked: Set<string>;
}

/** A member that hears of the round what these keys say, at the first relay; it knows others. */
async function join(
  url: string,
  signer: Signer,
  admitted: readonly Signer[],
  others: readonly string[] = [],
): Promise<Member> {
  const own = (names: readonly string[]) => names.slice(0, 1);
  const relays = keep(
    createRelaySet([url, ...others], {
      openSocket,
      clock: systemClock,
      crypto: nativeCrypto,
      readRelays: own,
    }),
  );
  await relays.ready();
  const asked = new Set<string>();
  const watched: RelaySet = {
    ...{
      relays: relays.relays,
      readRelays: relays.readRelays,
      status: () => relays.status(),
      workFor: () => 0,
    },
    publish: (...args) => relays.publish(...args),
    send: (...args) => relays.send(...args),
    subscribe(filters, ...rest) {
      for (const key of filters[0]?.['#c'] ?? []) asked.add(key.slice(0, 16));
      return relays.subscribe(filters, ...rest);
    },
    query: (...args) => relays.query(...args),
    ready: () => relays.ready(),
    close: () => relays.close(),
  };
  const stop = new AbortController();
  const control = new Control({
    ...{ run, relays: watched, signer, clock: systemClock, sha256: nativeSha256 },
    crypto: nativeCrypto,
    signal: stop.signal,
  });
  keep({ close: () => stop.abort(new Error('over')) });
  keep(control);
  control.admit(admitted.map(({ publicKey }) => publicKey));
  const heard: ProtocolMessage[] = [];
  keep(control.listen(round, { take: (message) => void heard.push(message) }));
  return { control, heard, asked };
}

/** A proposal and its chunks, as events of one key. */
function eventsOf(said: Proposal, signer: Signer, at = life) {
  const event = signer.sign(buildProposal(said, at));
  const plan = planChunks(utf8(outcomeBody(said.outcome)), at);
  const chunks = Array.from({ length: plan.count }, (_, i) => signer.sign(plan.draft(i)));
  return { event, chunks };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}
const has = ({ heard }: Member, { id }: SignedEvent) => heard.some((message) => message.id === id);

/** Everything a relay has of these kinds. */
async function stored(url: string, kinds: readonly number[]): Promise<readonly SignedEvent[]> {
  const relays = keep(
    createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto }),
  );
  await relays.ready();
  const found: SignedEvent[] = [];
  const { signal } = new AbortController();
  await collectEvents([{ kinds }], { relays, signal }, (event) => void found.push(event));
  return found.sort((a, b) => (a.id < b.id ? -1 : 1));
}

it('one goes out after its chunks and comes in whole, as one inside its event would', async () => {
  const url = await relay();
  const a = await join(url, proposer, []);
  const b = await join(url, reader, [proposer]);
  const { message, event } = a.control.sign(made);
  expect(await a.control.send(event).taken).toBe(true);
  await until(() => b.heard.length > 0);
  expect(b.heard).toEqual([{ ...made, id: message.id, key: proposer.publicKey }]);
});

it('while a relay withholds a chunk others are heard, and it is when anybody brings the rest', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer, other]);
  const { event, chunks } = eventsOf(made, proposer);
  await publishRaw(url, [...chunks.slice(1), event]);
  const next = eventsOf({ ...made, view: 1 }, other);
  const another = eventsOf(proposalOf(outcomeWith(1500)), other);
  const small = other.sign(buildProposal(proposalOf(outcomeWith(1)), life));
  await publishRaw(url, [...another.chunks, another.event, small]);
  await until(() => has(b, another.event) && has(b, small));
  expect(has(b, event)).toBe(false);

  await publishRaw(url, [stranger.sign(chunks[0]!), next.event]);
  await until(() => has(b, event) && has(b, next.event));
});

it('forged chunks are skipped, regardless of signer and number', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer, other]);
  const { event, chunks } = eventsOf(made, proposer);
  const plan = planChunks(new Uint8Array(apartIn(event)!.bytes).fill(7), life);
  const forge = (signer: Signer, later: number) =>
    chunks.map(({ tags }, i) =>
      signer.sign({ ...plan.draft(i), tags, created_at: createdAt + later }),
    );
  const forged = [1, 2, 3, 4].flatMap((later) => [
    ...forge(other, later),
    ...forge(stranger, later),
  ]);
  for (const each of forged) expect(chunk.parse(each).ok).toBe(true);
  // a member that names the same body, to be asked for its chunks
  const twin = eventsOf({ ...made, view: 1 }, other).event;
  await publishRaw(url, [...forged, twin]);
  await until(() => b.asked.size > 0);
  await publishRaw(url, [event]);
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(b.heard).toEqual([]);
  await publishRaw(url, chunks);
  await until(() => has(b, event) && has(b, twin));
});

it('of a key that is not a member is not pulled until it is a member, or the body is requested by id', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer]);
  const c = await join(url, other, [proposer]);
  const { event, chunks } = eventsOf(made, stranger);
  const mine = eventsOf(proposalOf(outcomeWith(1)), proposer).event;
  await publishRaw(url, [...chunks, event, mine]);
  await until(() => has(b, mine) && has(c, mine));
  expect([b.asked.size, c.asked.size]).toEqual([0, 0]);

  b.control.admit([proposer.publicKey, stranger.publicKey]);
  await until(() => has(b, event));
  c.control.fetch([event.id], { take: (message) => void c.heard.push(message) });
  await until(() => has(c, event));
});

it('what the relay that is read has not got is asked of all others: by id, by outcome, and its body', async () => {
  const [near, far] = [await relay(), await relay()];
  const b = await join(near, reader, [proposer], [far]);
  const c = await join(near, other, [proposer], [far]);
  const { event, chunks } = eventsOf(made, proposer);
  await publishRaw(far, [...chunks, event]);
  b.control.fetch([event.id], { take: (message) => void b.heard.push(message) });
  c.control.fetchOutcome(made.digest, { take: (message) => void c.heard.push(message) });
  await until(() => has(b, event) && has(c, event));
});

it('a member that names any number of missing bodies costs little and does not block others', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer, other]);
  const flood = Array.from({ length: 40 }, (_, i) => {
    return eventsOf(proposalOf(outcomeWith(1400 + i)), proposer).event;
  });
  await publishRaw(url, flood);
  const { event, chunks } = eventsOf(proposalOf(outcomeWith(2000)), other);
  await publishRaw(url, [...chunks, event]);
  await until(() => has(b, event));
  expect(b.heard).toHaveLength(1);
  const isOfFlood = (asked: string) => flood.some((each) => apartIn(each)!.root.startsWith(asked));
  expect([...b.asked].filter(isOfFlood).length).toBeLessThanOrEqual(8);
});

it('the newest ones of a member are pulled, also one that names the body of the oldest', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer]);
  const all = [0, 1, 2, 3].map((i) => eventsOf(proposalOf(outcomeWith(1400 + i)), proposer));
  const again = eventsOf({ ...proposalOf(outcomeWith(1400)), view: 1 }, proposer);
  for (const { event } of [...all, again]) await publishRaw(url, [event]);
  await until(() => b.asked.size === 4);
  for (const { chunks } of all) await publishRaw(url, chunks);
  await until(() => [again, ...all.slice(1)].every(({ event }) => has(b, event)));
});

it('over the cap is unreadable, and nothing is asked for', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer]);
  const { event } = eventsOf(made, proposer);
  const said = { ...JSON.parse(event.content), bytes: 4_194_305 };
  const huge = proposer.sign({ ...event, content: JSON.stringify(said) });
  await publishRaw(url, [huge]);
  await until(() => b.heard.length > 0);
  expect(b.heard).toMatchObject([{ id: huge.id, type: 'unreadable', reason: 'malformed' }]);
  expect(b.asked.size).toBe(0);
});

it('after a restart the same bytes go out from what was on disk', async () => {
  const [first, second] = [await relay(), await relay()];
  const a = await join(first, proposer, []);
  const { event, message } = a.control.sign(made);
  await a.control.send(event).settled;
  const saved: SignedEvent = JSON.parse(JSON.stringify(event));
  const again = await join(second, proposer, []);
  expect(again.control.restore(saved, made)).toEqual(message);
  await again.control.send(saved).settled;
  const kinds = [7811, 7814];
  expect(await stored(second, kinds)).toEqual(await stored(first, kinds));
  expect(await stored(first, kinds)).toHaveLength(3);
});

it('any worker that has a body can resend it, its chunks only once', async () => {
  const url = await relay();
  const b = await join(url, reader, [proposer]);
  const { event, chunks } = eventsOf(made, proposer);
  await publishRaw(url, [...chunks, event]);
  await until(() => has(b, event));
  b.control.resend([event.id]);
  b.control.resend([event.id]);
  const ofReader = async () =>
    (await stored(url, [7811])).filter(({ pubkey }) => pubkey === reader.publicKey);
  while ((await ofReader()).length < chunks.length);
  expect(await ofReader()).toHaveLength(chunks.length);
});
