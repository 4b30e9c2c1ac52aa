/**
 * Floods a run with events from strangers over an honest relay, and measures how much of them a listening member still
 * stores afterwards and how much memory it used.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createNotifier, systemClock } from 'nostrain/base';
import {
  buildMessage,
  Control,
  createEvidenceStore,
  type ProtocolMessage,
} from 'nostrain/certified/parts';
import { fault, manifest, memberKind, presence, proposal, vote } from 'nostrain/kinds';
import {
  buildManifest,
  createRelaySet,
  createSigner,
  createWire,
  type EventDraft,
  type SignedEvent,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { assignChunks } from 'nostrain/worker';
import { WebSocket } from 'ws';
import { LONGEST_EVENT_BYTES } from '../../src/node/protocol.ts';
import { smallLayout } from './swarm.ts';

const run = 'ab'.repeat(32);
const base = 'cd'.repeat(32);
const round = 3;
const MEMBERS = [1, 2, 3];

const signerOf = (number: number) =>
  createSigner(nativeSha256(Uint8Array.of(7, number, number >> 8, number >> 16)), nativeCrypto);

const lifetime = () => {
  const createdAt = Math.floor(Date.now() / 1000);
  return { createdAt, expiresAt: createdAt + 86_400 };
};

/** Nothing in the content; tags by which those who listen to the run, and to its round, hear it. */
const junk = (kind: number, bytes: number): EventDraft => ({
  kind,
  created_at: lifetime().createdAt,
  tags: [
    ['d', run],
    ['t', 'nostrain'],
    ['s', run],
    ['s', `${run}/${round}`],
    ['expiration', String(lifetime().expiresAt)],
  ],
  content: String.fromCharCode(33 + (bytes % 90)).repeat(bytes),
});

const JUNK_KINDS = [manifest, vote, proposal, memberKind, fault, presence].map(({ kind }) => kind);

/** Well made manifests with a payload inside, joins, and votes of keys that are in no roster. */
function wellMade(i: number): EventDraft {
  const author = signerOf(1000 + (i % 500)).publicKey;
  if (i % 3 === 0) {
    const payload = new Uint8Array(40_000).fill(i);
    const said = { run, round, parent: base, base, codec: 'int8' as const, roster: base };
    const own = { ...said, examples: 1, steps: 1, prev: undefined };
    return buildManifest(own, payload, { ...lifetime(), erasure: undefined }).draft;
  }
  const vote = { run, round, attempt: 0, parent: base, ctx: base, view: i, digest: base };
  return i % 3 === 1
    ? buildMessage({ type: 'join', run, after: run, tip: author, evidence: `${i}` }, lifetime())
    : buildMessage({ ...vote, type: 'vote', step: 'prepare', justify: -1 }, lifetime());
}

interface Flood {
  /** Bytes of unreadable events, of 2 MB each. */
  readonly junkBytes: number;
  /** Events that say something, of 500 strangers. */
  readonly wellMade: number;
}

/** Starts a relay that accepts the flood. */
const startRelay = () =>
  createRelay({ maxEventBytes: 4 << 20, limits: { maxStoredBytes: 8 << 20 } });

export interface Member {
  readonly heardBytes: () => number;
  readonly knows: (id: string) => boolean;
  close(): Promise<void>;
}

/** A member of a certified run that listens to a round in progress, with everything a worker has that hears events. */
export async function startMember(url: string): Promise<Member> {
  const relays = createRelaySet([url], {
    ...{ openSocket, clock: systemClock, crypto: nativeCrypto },
    quota: { bytesPerMinute: 64 * 2 ** 30, faultsPerMinute: 1e6, pauseMs: 1000 },
    longestEventBytes: LONGEST_EVENT_BYTES,
  });
  await relays.ready();
  const stop = new AbortController();
  const evidence = createEvidenceStore(nativeCrypto);
  const control = new Control({
    ...{ run, relays, signer: signerOf(1), clock: systemClock, sha256: nativeSha256 },
    crypto: nativeCrypto,
    signal: stop.signal,
  });
  const members = MEMBERS.map((number) => signerOf(number).publicKey);
  control.admit(members);
  evidence.admit(members);
  const take = (message: ProtocolMessage) => void evidence.add(message);
  const listening = [
    control.listen(round, { take }),
    control.listenToMembers({ take }),
    control.listenToFaults({ take }),
  ];
  const wire = createWire({
    ...{ run, layout: smallLayout, relays, signer: signerOf(1), clock: systemClock },
    ...{ sha256: nativeSha256, ratio: 1, maxContainerBytes: 1 << 20, peers: members },
  });
  const assignment = assignChunks({
    ...{ run, round, base, roster: members, owners: 0, fragments: 1, size: smallLayout.size },
  });
  const inbox = wire.openRound({ round, base, assignment });
  return {
    heardBytes: () => relays.status()[0]!.bytesIn,
    knows: (id) => evidence.message(id) !== undefined,
    async close() {
      stop.abort(new Error('over'));
      for (const each of listening) each.close();
      inbox.close();
      control.close();
      await wire.close();
    },
  };
}

/** What an honest member says first. */
const honest = () =>
  signerOf(2).sign(
    buildMessage({ type: 'join', run, after: run, tip: base, evidence: 'honest' }, lifetime()),
  );

/** Some junk of every kind, so that all code has run before anything is measured. */
async function warmUp(say: (event: SignedEvent) => Promise<void>): Promise<void> {
  for (let i = 0; i < 30; i++) await say(signerOf(900).sign(junk(JUNK_KINDS[i % 6]!, 100_000)));
}

async function pour(
  say: (event: SignedEvent) => Promise<void>,
  { junkBytes, wellMade: events }: Flood,
  onSent: (i: number) => void = () => undefined,
): Promise<void> {
  const size = 2_000_000;
  for (let i = 0; i * size < junkBytes; i++) {
    await say(signerOf(900 + (i % 2)).sign(junk(JUNK_KINDS[i % 6]!, size + i)));
    onSent(i);
  }
  for (let i = 0; i < events; i++) await say(signerOf(1000 + (i % 500)).sign(wellMade(i)));
}

/** How much of a flood arrives at a member, and how much of it is still held afterwards, in parsed events; in MB. */
export async function heldAfter(flood: Flood): Promise<{
  readonly heardMegabytes: number;
  readonly heldMegabytes: number;
}> {
  const relay = await startRelay();
  const member = await startMember(relay.url);
  const { say, end } = await connect(relay.url);
  const watched = watchEvents();
  try {
    const first = honest();
    await say(first);
    await warmUp(say);
    await pour(say, flood);
    await quiet(member.heardBytes);
    const heardMegabytes = member.heardBytes() / 1e6;
    const heldMegabytes = (await watched.heldBytes()) / 1e6;
    if (!member.knows(first.id)) throw new Error('the flood pushed out what a member said');
    return { heardMegabytes, heldMegabytes };
  } finally {
    watched.restore();
    await member.close();
    end();
    await relay.close();
  }
}

/** What a member in a process of its own says of itself; in MB. */
export interface MemberMemory {
  readonly heard: number;
  readonly resident: number;
  /** The most since it was asked last, every 20 ms. */
  readonly mostResident: number;
  readonly heap: number;
  readonly external: number;
}

/** How much the resident memory of a member grows that is alone in its process; in MB. */
export async function residentAfter(
  flood: Flood,
  execArgv: readonly string[] = [],
): Promise<{ readonly before: MemberMemory; readonly after: MemberMemory }> {
  const relay = await startRelay();
  const program = fileURLToPath(new URL('./flood-member.ts', import.meta.url));
  const child = fork(program, [relay.url], {
    execArgv: ['--import', 'tsx', '--conditions=nostrain:source', ...execArgv],
  });
  const answers = messagesOf<MemberMemory>(child);
  const measure = async (): Promise<MemberMemory> => {
    child.send('measure');
    return (await answers.next()).value;
  };
  const settled = async () => {
    for (let before = -1; ; ) {
      const memory = await measure();
      if (memory.heard === before) return memory;
      before = memory.heard;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  };
  await answers.next();
  const { say, end } = await connect(relay.url);
  await say(honest());
  await warmUp(say);
  await settled();
  const before = await measure();
  let most = 0;
  await pour(say, flood);
  const last = await measure();
  most = Math.max(last.mostResident, (await settled()).mostResident);
  const after = { ...(await measure()), mostResident: most };
  end();
  child.kill();
  await relay.close();
  return { before, after };
}

async function* messagesOf<T>(child: ChildProcess): AsyncGenerator<T, never> {
  const waiting: T[] = [];
  const changed = createNotifier();
  child.on('message', (message) => {
    waiting.push(message as T);
    changed.notify();
  });
  const never = new AbortController().signal;
  for (;;) {
    while (waiting.length === 0) await changed.next(never);
    yield waiting.shift()!;
  }
}

/** One that waits for each answer. */
async function connect(url: string) {
  const socket = new WebSocket(url);
  await new Promise((resolve) => socket.once('open', resolve));
  return {
    say: (event: SignedEvent) =>
      new Promise<void>((resolve, reject) => {
        socket.once('message', (data: Buffer) => {
          const [, , isTaken, why] = JSON.parse(data.toString());
          if (isTaken || /rate-limited|duplicate|replaced/.test(why)) resolve();
          else reject(new Error(why));
        });
        socket.send(JSON.stringify(['EVENT', event]));
      }),
    end: () => socket.terminate(),
  };
}

/** Until nothing has come for a moment. */
async function quiet(heardBytes: () => number): Promise<void> {
  for (let before = -1; before !== heardBytes(); ) {
    before = heardBytes();
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

/** Events that are parsed in this process until `restore`, and the bytes of those that something still holds. */
function watchEvents() {
  const original = JSON.parse;
  const events: { readonly ref: WeakRef<object>; readonly bytes: number }[] = [];
  JSON.parse = (text, ...more) => {
    const value: unknown = original(text, ...more);
    const last: unknown = Array.isArray(value) ? value.at(-1) : undefined;
    if (typeof last === 'object' && last !== null) {
      events.push({ ref: new WeakRef(last), bytes: text.length });
    }
    return value;
  };
  return {
    async heldBytes(): Promise<number> {
      // a WeakRef keeps its target alive until the turn of the event loop ends
      await new Promise((resolve) => setImmediate(resolve));
      collectGarbage();
      const held = events.filter(({ ref }) => ref.deref() !== undefined);
      return held.reduce((sum, { bytes }) => sum + bytes, 0);
    },
    restore() {
      JSON.parse = original;
    },
  };
}
