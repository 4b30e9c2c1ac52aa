/** One process of `bench:join`, as its argument says. */
import { createCipheriv } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { systemClock } from 'nostrain/base';
import {
  type CertifiedState,
  type CheckpointChunks,
  fromCheckpoint,
  genesisOf,
  packBytes,
} from 'nostrain/certified/parts';
import { Attachments, createRelaySet, type RelaySet } from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createNativeSha256, createRunChunks } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import type { RunSpec } from 'nostrain/run';
import { createLayout } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';
import { type RunHolder, startRunHolder } from '../../../src/node/checkpoint/run-holder.ts';
import { certifiedSpec, keyOf, startCertified } from '../../support/certified-swarm.ts';
import { signerOf } from '../../support/swarm.ts';
import type { Ready, Step } from './processes.ts';

const FOUNDERS = [0, 1, 2];
const ROUNDS = 3;
/** The checkpoint is of the round before the last, which goes on until relays have it. */
const CHECKPOINT = 2;
const PUBLISHING_MS = 30_000;
const step = JSON.parse(process.argv[2]!) as Step;
const say = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`);
const never = new AbortController().signal;
const counted = { bytes: 0, requests: 0 };

/** Counts what relays send here and what they are asked. */
const countingSocket: typeof openSocket = (url) => {
  const socket = openSocket(url);
  return new Proxy(socket, {
    get(target, name) {
      if (name !== 'send') return Reflect.get(target, name, target);
      return (text: string) => {
        if (text.startsWith('["REQ"')) counted.requests++;
        target.send(text);
      };
    },
    set(target, name, value: unknown) {
      if (name !== 'onmessage' || typeof value !== 'function') return Reflect.set(target, name, value, target); // biome-ignore format: one line
      target.onmessage = (text, bytes) => {
        counted.bytes += bytes;
        (value as NonNullable<typeof target.onmessage>)(text, bytes);
      };
      return true;
    },
  });
};

async function connect(): Promise<RelaySet> {
  const relays = createRelaySet(step.relays!, { openSocket: countingSocket, clock: systemClock, crypto: nativeCrypto }); // biome-ignore format: one line
  await relays.ready();
  return relays;
}

const layoutOf = (parameters: number) => createLayout([{ name: 'weights', shape: [parameters] }]);

const specOf = (): RunSpec =>
  certifiedSpec({
    ...{ founders: FOUNDERS, rounds: ROUNDS },
    timing: { graceMinMs: 1000, graceMaxMs: 600_000, viewMs: 20_000 },
    document: {
      checkpoint: { every: CHECKPOINT, keep: 3 },
      placement: { objects: { checkpoint: { replicas: 2 } } },
      places: step.places,
      limits: { payloadBytes: 16_000_000 },
    },
  });

const trainer = (index: number): Trainer => ({
  ...{ device: { device: 'cpu', threads: 1 }, layout: layoutOf(step.parameters!) },
  async train({ params, steps, round }) {
    if (round >= CHECKPOINT) await systemClock.sleep(PUBLISHING_MS);
    return {
      ...{ params: params.map((value, i) => value + (((i * 2_654_435_761) ^ index) % 512) / 512), moments: [] }, // biome-ignore format: one line
      ...{ losses: new Float32Array(steps).fill(1), examples: 8, seconds: 0 },
    };
  },
  evaluate: async () => 1,
  sample: async () => new Uint8Array(),
  close: async () => undefined,
});

const chunksOf = (spec: RunSpec, holder?: RunHolder): CheckpointChunks =>
  createRunChunks({
    ...{ servers: step.places!, policy: spec.placement, signer: signerOf(step.index), holder },
    ...{ folder: join(step.home, `worker${step.index}`), allowPrivate: true },
    onNotice: (message) => process.stderr.write(`${step.op} ${step.index}: ${message}\n`),
  });

async function member(): Promise<Ready> {
  const spec = specOf();
  const { index } = step;
  const holder = await startRunHolder({
    ...{
      policy: spec.placement!,
      signer: signerOf(index),
      folder: join(step.home, `held${index}`),
    },
    ...{ mostBytes: 2 ** 40, keep: 3, port: 0, host: '127.0.0.1', allowPrivate: true },
    offer: { region: 'here', tier: 'open', weight: 1 },
    onNotice: (message) => process.stderr.write(`member ${index}: ${message}\n`),
  });
  return step.parameters === undefined ? state(spec, holder) : play(spec, holder);
}

/** Plays the run with the others; its holder stays. */
async function play(spec: RunSpec, holder: RunHolder): Promise<Ready> {
  const { index } = step;
  const made = chunksOf(spec, holder);
  const stored: Promise<void>[] = [];
  const chunks: CheckpointChunks = {
    ...made,
    store(packed, signal) {
      stored.push(made.store(packed, signal));
      return stored.at(-1)!;
    },
  };
  let saved: CertifiedState | undefined;
  const disk = { state: undefined, entry: undefined };
  const worker = startCertified({
    ...{ index, spec, chunks, disk, layout: layoutOf(step.parameters!) },
    ...{ relays: step.relays!, trainer: trainer(index) },
    onSave(state) {
      if (state.round === CHECKPOINT) saved = state;
    },
  });
  await worker.finished;
  await Promise.all(stored);
  await holder.settled();
  if (index === 0) await writeState(saved!.params.values, saved!.momentum);
  return { digest: '', root: '' };
}

const writeState = async (params: Float32Array | Float64Array, momentum: Float32Array | Float64Array) => // biome-ignore format: one line
  writeFile(join(step.home, 'state'), Buffer.concat([Buffer.from(params.buffer), Buffer.from(momentum.buffer)])); // biome-ignore format: one line

/** Puts a state of drawn bytes where the members of a run would. */
async function state(spec: RunSpec, holder: RunHolder): Promise<Ready> {
  const { index } = step;
  // the same bytes for everybody, and nothing in them repeats
  const bytes = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(step.bytes!)); // biome-ignore format: one line
  const packed = await packBytes(bytes, createNativeSha256);
  const relays = await connect();
  const members = FOUNDERS.map(keyOf);
  holder.announce(relays, never);
  await holder.settled();
  // until all three are known to each other
  await systemClock.sleep(5000);
  await holder.hold(packed, members);
  if (index === 0) {
    await writeFile(join(step.home, 'state'), bytes);
    await chunksOf(spec).store(packed, never);
  }
  const now = Math.floor(Date.now() / 1000);
  const lifetime = { createdAt: now, expiresAt: now + 86_400 };
  const signer = signerOf(index);
  const attachments = new Attachments({ relays, clock: systemClock, sha256: nativeSha256 });
  const sharing = { me: signer.publicKey, all: members };
  const sign = signer.sign.bind(signer);
  await attachments.publishShare(bytes, sharing, { lifetime, signal: never, sign }).first;
  await relays.close();
  return { digest: [...holder.storedChunks().keys()][0]!, root: packed.manifest.root! };
}

/** A newcomer; what it has in the end is the certified state, or it throws. */
async function joinRun() {
  const spec = specOf();
  const { way, places = [] } = step;
  const folder = join(step.home, `joiner-${way}-${step.index}`);
  const from: Record<string, number> = {};
  const kind = (name: string) => name === 'relays' ? 'relays' : places.includes(name) ? 'Blossom' : 'holders'; // biome-ignore format: one line
  const chunks = createRunChunks({
    servers: way === 'holders' ? [] : places,
    policy: way === 'blossom' ? null : spec.placement,
    ...{ signer: signerOf(step.index), folder, allowPrivate: true },
    onNotice: (message) => process.stderr.write(`${way}: ${message}\n`),
    onFetched(reports) {
      for (const { name, bytes } of reports) if (bytes > 0) from[kind(name)] = (from[kind(name)] ?? 0) + bytes; // biome-ignore format: one line
    },
  });
  const used = way === 'relays' ? undefined : chunks;
  const relays = await connect();
  const startedMs = performance.now();
  const before = process.cpuUsage();
  const came = await (step.parameters === undefined ? fetchState(relays, used) : fetchRun(spec, relays, used)); // biome-ignore format: one line
  const ms = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(before);
  if (way === 'relays') from.relays = came;
  await relays.close();
  await rm(folder, { recursive: true, force: true });
  return { ms, cpuMs: (user + system) / 1000, relayBytes: counted.bytes, requests: counted.requests, from }; // biome-ignore format: one line
}

async function fetchRun(spec: RunSpec, relays: RelaySet, chunks: CheckpointChunks | undefined) {
  const layout = layoutOf(step.parameters!);
  const genesis = genesisOf(spec, { layout, values: new Float32Array(layout.size) }, nativeSha256);
  const later = await fromCheckpoint(spec, { relays, chunks, genesis, signal: never, sha256: nativeSha256, crypto: nativeCrypto, onNotice: (message) => process.stderr.write(`${step.way}: ${message}\n`) }); // biome-ignore format: one line
  if ((later?.state.round ?? 0) < CHECKPOINT) throw new Error(`${step.way}: no checkpoint`);
  return 8 * layout.size;
}

async function fetchState(relays: RelaySet, chunks: CheckpointChunks | undefined) {
  const payload = { root: step.root!, bytes: step.bytes! };
  const members = FOUNDERS.map(keyOf);
  if (chunks) {
    await chunks.fetch({ digest: step.digest!, payload, members, relays, clock: systemClock, signal: never }); // biome-ignore format: one line
    return payload.bytes;
  }
  const limits = { idleMs: 120_000, signal: never };
  const attachments = new Attachments({ relays, clock: systemClock, sha256: nativeSha256 });
  const pulled = await attachments.pullOnce({ ...payload, worker: members[0]! }, limits);
  if (!pulled.ok) throw new Error(pulled.issue.message);
  return payload.bytes;
}

async function web() {
  const server = createServer((_, response) => void pipeline(createReadStream(join(step.home, 'state')), response).catch(() => undefined)); // biome-ignore format: one line
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

async function plain() {
  const out = join(step.home, 'plain');
  const startedMs = performance.now();
  const before = process.cpuUsage();
  await new Promise<void>((resolve, reject) => {
    get(step.url!, (answer) => pipeline(answer, createWriteStream(out)).then(resolve, reject));
  });
  const ms = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(before);
  return { ms, cpuMs: (user + system) / 1000, relayBytes: 0, requests: 0, from: { web: step.bytes ?? 8 * step.parameters! } }; // biome-ignore format: one line
}

const operations: Readonly<Record<Step['op'], () => Promise<unknown>>> = {
  relay: async () => ({ url: (await createRelay({ port: 0 })).url }),
  member,
  web,
  join: joinRun,
  plain,
};

say(await operations[step.op]());
if (step.op === 'join' || step.op === 'plain') process.exit(0);
