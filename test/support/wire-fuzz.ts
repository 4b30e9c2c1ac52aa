/** Fuzz targets: every parser of the wire and of the relay, with valid inputs that a fuzzer mutates. */
import { readdirSync, readFileSync } from 'node:fs';
import { nip77 } from 'nostr-tools';
import { concatBytes, fromHex, NostrainError, toHex, utf8 } from 'nostrain/base';
import {
  decodeRunAddress,
  encodeRunAddress,
  toCheckpointClaim,
  toProtocolMessage,
  toRun,
} from 'nostrain/certified/parts';
import { parseJson } from 'nostrain/formats';
import { kinds, packed } from 'nostrain/kinds';
import {
  apartIn,
  createSigner,
  encodeGroup,
  heapChunks,
  hintProblem,
  parseEvent,
  parseFrame,
  parseRelayList,
  parseRelayUrls,
  planChunks,
  readManifest,
  relayHints,
  restoreGroup,
  type SignedEvent,
  toChunk,
  toPresence,
  verifyEvent,
  withoutSecrets,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import { parseRelayInfo } from 'nostrain/node/parts';
import { decodeTorchState, encodeTorchState, parseStateJson } from 'nostrain/python';
import { encodeNstr, openReferenceEvent, readNstr } from 'nostrain/python/parts';
import { compileFilter, defaultLimits, finish, IdList, reconcile } from 'nostrain/relay';
import {
  anyFeatures,
  canonicalSpec,
  decodeSnapshot,
  formatStakeJson,
  ledgerBytes,
  outcomeBody,
  parseLedger,
  parseOutcome,
  parseStakeJson,
  snapshotBytes,
} from 'nostrain/run';
import { createLayout } from 'nostrain/tensor';
import { parseArrival } from '../../relay/event.ts';
import { readMessage } from '../../relay/messages.ts';
import { readCanonical } from '../../src/certified/wire/runs.ts';
import { readSnapshot } from '../../src/certified/wire/snapshots.ts';
import { decodeNpy, decodeNpz, encodeNpy, encodeNpz } from '../../src/formats/numpy.ts';
import { canonicalize } from '../../src/formats/python-json.ts';
import { decodeZip } from '../../src/formats/zip.ts';
import { readAddressed } from '../../src/network/wire/addressed.ts';
import { outcomeWith } from './large-bodies.ts';
import { type Draw, mutateBytes, mutateJson, mutateText, pick, textOf } from './mutations.ts';
import { play, rulesOf } from './run-history.ts';
import { sampleSpec } from './run-spec.ts';

/** A parser and its inputs. `run` throws only if the parser has a bug. */
export interface Target {
  readonly name: string;
  run(draw: Draw): void;
}

const layout = createLayout([
  { name: 'a', shape: [7, 9] },
  { name: 'b', shape: [30] },
]);
const params = { layout, values: Float64Array.from({ length: layout.size }, (_, i) => i / 7 - 3) };
const signer = createSigner(new Uint8Array(32).fill(9), nativeCrypto);
const RUN = '1f'.repeat(32);
const life = { createdAt: 1_790_000_000, expiresAt: 1_790_086_400 };

/** Every valid sample of every kind. */
const samples: readonly SignedEvent[] = (() => {
  const folder = new URL('../../kinds/samples/', import.meta.url);
  return readdirSync(folder).flatMap((kind) =>
    readdirSync(new URL(`${kind}/`, folder))
      .filter((name) => name.startsWith('valid'))
      .map((name) => JSON.parse(readFileSync(new URL(`${kind}/${name}`, folder), 'utf8'))),
  );
})();
const chunkPlan = planChunks(new Uint8Array(100_000).fill(3), life);
const chunks = Array.from({ length: chunkPlan.count }, (_, i) => signer.sign(chunkPlan.draft(i)));
const events = [...samples, ...chunks.slice(0, 1)];
const limits = { maxContainerBytes: 1 << 20, maxValues: 1 << 16 };
const claims = { run: RUN, nowSeconds: 1_790_000_000 };

/** Calls every parser that reads an event from a relay. */
function readEvent(event: SignedEvent): void {
  const bodyOf = () => utf8(outcomeBody(outcomeWith(2)));
  kinds[event.kind as keyof typeof kinds]?.parse(event);
  toProtocolMessage(event, RUN, nativeCrypto, bodyOf, anyFeatures);
  readManifest(event, nativeSha256, anyFeatures);
  toPresence(event, claims, anyFeatures);
  toChunk(event, { maxPayloadBytes: 1 << 20 }, nativeSha256);
  toCheckpointClaim(event, RUN, anyFeatures);
  readSnapshot(event, nativeSha256);
  readAddressed(packed, event, nativeSha256);
  toRun(event);
  apartIn(event);
  openReferenceEvent(event, limits);
  parseRelayList(event);
  relayHints(event);
}

const jsonTarget = (
  name: string,
  seeds: readonly unknown[],
  read: (json: unknown) => void,
): Target => ({
  name,
  run: (draw) => read(mutateJson(mutateJson(pick(seeds, draw), draw), draw)),
});
const textTarget = (
  name: string,
  seeds: readonly string[],
  read: (text: string) => void,
): Target => ({
  name,
  run(draw) {
    const text = pick(seeds, draw);
    const json = draw(4) > 0 ? jsonOf(text) : undefined;
    read(
      json === undefined ? mutateText(text, draw) : (JSON.stringify(mutateJson(json, draw)) ?? ''),
    );
  },
});
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
const bytesTarget = (
  name: string,
  seeds: readonly Uint8Array[],
  read: (bytes: Uint8Array, draw: Draw) => void,
): Target => ({ name, run: (draw) => read(mutateBytes(pick(seeds, draw), draw), draw) });

/** Accepts errors of this program as results, for parsers of the user's own files and flags. */
const orTyped =
  <T>(read: (input: T) => unknown) =>
  (input: T): void => {
    try {
      read(input);
    } catch (error) {
      if (!(error instanceof NostrainError)) throw error;
    }
  };

const frames: readonly unknown[] = [
  ...samples.slice(0, 6).flatMap((event) => [
    ['EVENT', 'n1', event],
    ['EVENT', event],
  ]),
  ...[
    ['EOSE', 'n1'],
    ['EOSE', 'n1', 'more'],
    ['CLOSED', 'n1', 'error: x'],
    ['NOTICE', 'x'],
  ],
  ...[
    ['OK', 'f'.repeat(64), true, ''],
    ['AUTH', 'challenge'],
    ['COUNT', 'n1', { count: 3 }],
  ],
  ...[
    ['NEG-MSG', 'n1', '6100000200'],
    ['NEG-ERR', 'n1', 'blocked'],
    ['NEG-OPEN', 'x', {}, '61'],
  ],
  ['REQ', 'a', { kinds: [7810], '#s': ['x'], limit: 3 }, { ids: ['f'.repeat(64)], since: 1 }],
];
const filters = [
  {
    kinds: [7810, 7811],
    '#s': [RUN],
    authors: ['f'.repeat(64)],
    since: 1,
    until: 2 ** 40,
    limit: 9,
  },
  { ids: ['0'.repeat(64), 'f'.repeat(64)], '#t': ['nostrain'], '#c': ['a/1'] },
];

const known = samples.slice(0, 8).map(({ id, created_at }) => ({ id, created_at }));
const ids = IdList.of(known);
const { Negentropy, NegentropyStorageVector } = nip77;
function clientSide(own: readonly { readonly id: string; readonly created_at: number }[]) {
  const storage = new NegentropyStorageVector();
  for (const { id, created_at } of own) storage.insert(created_at, id);
  storage.seal();
  return new Negentropy(storage);
}
const opening = clientSide(known.slice(3)).initiate();
const answer = finish(reconcile(ids, opening));

/** Accepts the immediate error with which both sides of a sync answer an invalid message. */
const orRefused = (read: () => unknown): void => {
  try {
    read();
  } catch (error) {
    if (!(error instanceof Error) || error instanceof TypeError) throw error;
    if (/call stack|Invalid (array|string) length|allocation failed/i.test(error.message))
      throw error;
  }
};

const spec = canonicalSpec(sampleSpec());
const stake = {
  ...{ chain: 'eip155:1', strategy: 'file', params: '{}', height: 1, unit: 'wei' },
  ...{ blockHash: '0'.repeat(64), rows: [{ key: 'a'.repeat(64), stake: 5n }] },
};
const npz = encodeNpz({ params, runtime: undefined }, 'nostrain-model-state');
const nstr = encodeNstr(params, { ratio: 0.5 });
const shards = encodeGroup(new Uint8Array(999).fill(5), { data: 2, parity: 2 });
/** Shards are of one length before they are looked at. */
const sized = (bytes: Uint8Array, length: number): Uint8Array => {
  const out = new Uint8Array(length);
  out.set(bytes.subarray(0, length));
  return out;
};
/** Returns the root of these bytes, as if a committee had certified them. */
const rootOf = (bytes: Uint8Array): string =>
  toHex(nativeSha256(concatBytes(utf8('nostrain/ledger/2'), bytes)));
const ledger = play(rulesOf(), {}, {});
const outcome = outcomeBody(outcomeWith(3, ['malformed']));
const address = encodeRunAddress({
  run: RUN,
  author: signer.publicKey,
  relays: ['wss://a.test', 'ws://b.test/x'],
});

export const targets: readonly Target[] = [
  textTarget(
    'frames from relays',
    frames.map((each) => JSON.stringify(each)),
    (text) => void parseFrame(text),
  ),
  bytesTarget(
    'messages to our relay, as bytes',
    frames.map((each) => utf8(JSON.stringify(each))),
    (bytes) => void readMessage(Buffer.from(bytes), defaultLimits),
  ),
  textTarget(
    'messages to our relay, as text',
    frames.map((each) => JSON.stringify(each)),
    (text) => void readMessage(Buffer.from(text), defaultLimits),
  ),
  jsonTarget('events to our relay', events, (json) => void parseArrival(json)),
  jsonTarget('filters to our relay', filters, (json) => void compileFilter(json, defaultLimits)),
  textTarget('NEG-OPEN and NEG-MSG to our relay', [opening, answer], (text) =>
    orRefused(() => finish(reconcile(ids, text))),
  ),
  bytesTarget(
    'NEG messages to our relay, in whole bytes',
    [fromHex(opening)!, fromHex(answer)!],
    (bytes) => orRefused(() => finish(reconcile(ids, toHex(bytes)))),
  ),
  bytesTarget('NEG messages from relays', [fromHex(answer)!], (bytes) =>
    orRefused(() => clientSide(known).reconcile(toHex(bytes), undefined, () => undefined)),
  ),
  jsonTarget('events from relays', events, (json) => {
    const parsed = parseEvent(json);
    if (parsed.ok) verifyEvent(parsed.value, nativeCrypto);
  }),
  {
    name: 'what events of all kinds say',
    run(draw) {
      const event = pick(events, draw);
      const change = draw(3);
      const content =
        change === 0 ? event.content : textOf(mutateJson(event.content, draw)).slice(0, 200_000);
      const tags = change === 1 ? event.tags : mutateJson(event.tags, draw);
      const parsed = parseEvent({ ...event, content, tags });
      if (parsed.ok) readEvent(parsed.value);
    },
  },
  {
    name: 'chunks put together',
    run(draw) {
      const some = Array.from({ length: 4 }, () => {
        const event = pick(chunks, draw);
        return { ...event, tags: mutateJson(event.tags, draw) };
      });
      const parsed = some.flatMap((each) => {
        const event = parseEvent(each);
        return event.ok ? [event.value] : [];
      });
      heapChunks(parsed, 1 << 20)({ root: chunkPlan.root, bytes: draw(200_000) });
    },
  },
  {
    name: 'stripes',
    run(draw) {
      const given = shards.map((shard) =>
        draw(3) === 0 ? undefined : sized(mutateBytes(shard, draw), shard.length),
      );
      restoreGroup(given, { data: 2, parity: 2 }, 999);
    },
  },
  textTarget('outcomes', [outcome], (text) => void parseOutcome(text, anyFeatures)),
  textTarget('ledgers', [new TextDecoder().decode(ledgerBytes(ledger))], (text) => {
    const bytes = utf8(text);
    parseLedger(bytes, rootOf(bytes), anyFeatures);
  }),
  textTarget('specs', [spec], (text) => void readCanonical(text)),
  bytesTarget('snapshots of stake', [snapshotBytes(stake)], (bytes) => void decodeSnapshot(bytes)),
  textTarget('stake tables', [formatStakeJson(stake)], (text) => void parseStakeJson(text)),
  textTarget(
    'addresses of runs',
    [address, `nostr:${address}`],
    (text) => void decodeRunAddress(text),
  ),
  textTarget(
    'addresses of relays',
    ['wss://user:p@relay.example.com:7777/a?b=c#d', 'ws://[::1]:1'],
    (text) => {
      withoutSecrets(text);
      hintProblem(text);
      orTyped(() => parseRelayUrls([text]))(undefined);
    },
  ),
  jsonTarget(
    'NIP-11 documents',
    [
      {
        name: 'x',
        supported_nips: [1, 77],
        limitation: { max_message_length: 9, auth_required: true },
      },
    ],
    (json) => void parseRelayInfo(json),
  ),
  textTarget('JSON of Python', [outcome, '{"a": 1.5e-7, "b": [NaN, -0.0]}'], (text) => {
    parseJson(text);
    canonicalize(text);
    orTyped(parseStateJson)(text);
  }),
  textTarget('NSTR payloads', [nstr.payload], (text) => void readNstr(text, limits)),
  bytesTarget(
    'NSTR containers',
    [nstr.container],
    (bytes) => void readNstr(Buffer.from(bytes).toString('base64'), limits),
  ),
  bytesTarget('zip and npz', [npz], (bytes) => {
    decodeZip(bytes);
    decodeNpz(bytes, 'nostrain-model-state');
  }),
  bytesTarget(
    'npy',
    [encodeNpy({ shape: [3], values: Float64Array.of(1, 2, 3) })],
    (bytes) => void decodeNpy(bytes),
  ),
  bytesTarget('torch pickles', [encodeTorchState(params)], (bytes) => void decodeTorchState(bytes)),
];
