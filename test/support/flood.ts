/** Strangers who flood a run over an honest relay, and a member that listens: what the member still has of it afterwards. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { WebSocket } from 'ws';
import { fault } from '../../kinds/fault.ts';
import { manifest } from '../../kinds/manifest.ts';
import { memberKind } from '../../kinds/member.ts';
import { presence } from '../../kinds/presence.ts';
import { proposal } from '../../kinds/proposal.ts';
import { vote } from '../../kinds/vote.ts';
import { createRelay } from '../../relay/server.ts';
import { systemClock } from '../../src/base/clock.ts';
import { createEvidenceStore, type ProtocolMessage } from '../../src/certified/evidence.ts';
import { toProtocolMessage } from '../../src/certified/gather.ts';
import { createSigner, type EventDraft, type SignedEvent } from '../../src/network/event.ts';
import { createRelaySet } from '../../src/network/transport/relay-set.ts';
import { buildMessage } from '../../src/network/wire/certified-events.ts';
import { Control } from '../../src/network/wire/control.ts';
import { createWire } from '../../src/network/wire/create-wire.ts';
import { buildManifest } from '../../src/network/wire/manifests.ts';
import { nativeCrypto } from '../../src/node/native-crypto.ts';
import { nativeSha256 } from '../../src/node/native-sha256.ts';
import { openSocket } from '../../src/node/sockets.ts';
import { assignChunks } from '../../src/worker/chunk-assignment.ts';
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
    return buildManifest(own, payload, { ...lifetime(), stripe: undefined }).draft;
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

/** How much memory of what was said a member keeps; in MB. */
export async function memoryAfter({ junkBytes, wellMade: events }: Flood): Promise<{
  readonly heardMegabytes: number;
  readonly keptMegabytes: number;
  readonly residentMegabytes: number;
}> {
  const relay = await createRelay({
    maxEventBytes: 4 << 20,
    limits: { maxStoredBytes: 8 << 20 },
  });
  const relays = createRelaySet([relay.url], {
    ...{ openSocket, clock: systemClock, crypto: nativeCrypto },
    quota: { bytesPerMinute: 64 * 2 ** 30, faultsPerMinute: 1e6, pauseMs: 1000 },
  });
  await relays.ready();
  const stop = new AbortController();
  const evidence = createEvidenceStore(nativeCrypto);
  const control = new Control<ProtocolMessage>({
    ...{ run, relays, signer: signerOf(1), clock: systemClock, sha256: nativeSha256 },
    read: (event, bodyOf) => toProtocolMessage(event, run, nativeCrypto, bodyOf),
    isKept: ({ type }) => type !== 'unreadable',
    signal: stop.signal,
  });
  const members = MEMBERS.map((number) => signerOf(number).publicKey);
  control.admit(members);
  evidence.admit(members);
  const take = (message: ProtocolMessage) => void evidence.add(message);
  const listening = [control.listen(round, { take }), control.listenToMembers({ take })];
  const wire = createWire({
    ...{ run, layout: smallLayout, relays, signer: signerOf(1), clock: systemClock },
    ...{ sha256: nativeSha256, ratio: 1, maxContainerBytes: 1 << 20, peers: members },
  });
  const assignment = assignChunks({
    ...{ run, round, base, roster: members, owners: 0, fragments: 1, size: smallLayout.size },
  });
  const inbox = wire.openRound({ round, base, assignment });
  const { say, end } = await connect(relay.url);
  const heardBytes = () => relays.status()[0]!.bytesIn;

  const honest = signerOf(2).sign(
    buildMessage({ type: 'join', run, after: run, tip: base, evidence: 'honest' }, lifetime()),
  );
  await say(honest);
  for (let i = 0; i < 30; i++) await say(signerOf(900).sign(junk(JUNK_KINDS[i % 6]!, 100_000)));
  await quiet(heardBytes);
  const before = memory();
  const firstBytes = heardBytes();
  let resident = 0;
  const size = 2_000_000;
  for (let i = 0; i * size < junkBytes; i++) {
    await say(signerOf(900 + (i % 2)).sign(junk(JUNK_KINDS[i % 6]!, size + i)));
    if (i % 16 === 0) resident = Math.max(resident, memory().resident - before.resident);
  }
  for (let i = 0; i < events; i++) await say(signerOf(1000 + (i % 500)).sign(wellMade(i)));
  await quiet(heardBytes);
  const after = memory();
  const isHonestHere = evidence.message(honest.id) !== undefined;
  const heardMegabytes = (heardBytes() - firstBytes) / 1e6;
  stop.abort(new Error('over'));
  for (const each of listening) each.close();
  inbox.close();
  control.close();
  end();
  await wire.close();
  await relay.close();
  if (!isHonestHere) throw new Error('the flood pushed out what a member said');
  return {
    heardMegabytes,
    keptMegabytes: after.kept - before.kept,
    residentMegabytes: resident,
  };
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
const collect: () => void = runInNewContext('gc');

function memory(): { readonly kept: number; readonly resident: number } {
  collect();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { kept: (heapUsed + external) / 1e6, resident: rss / 1e6 };
}
