/**
 * Runs whose members hold checkpoint chunks: each stores what placement assigns to it, newcomers download from them,
 * and everything is verified.
 */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { sha256Hex, systemClock } from 'nostrain/base';
import { type CheckpointChunks, packBytes } from 'nostrain/certified/parts';
import {
  buildHolder,
  createRelaySet,
  type HolderOffer,
  manifestDigest,
  type RelaySet,
} from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createNativeSha256, createRunChunks, readManifest } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { canonicalSpec, type PlacementPolicy, type RunSpec } from 'nostrain/run';
import { createLayout } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';
import { afterEach, describe, expect, it } from 'vitest';
import type { SourceReport } from '../../src/network/chunks/source.ts';
import { type RunHolder, startRunHolder } from '../../src/node/checkpoint/run-holder.ts';
import { readPlacementField } from '../../src/run/placement-policy.ts';
import { startBlossomServer } from '../support/blossom-server.ts';
import { certifiedSpec, keyOf, noticesOf, startCertified } from '../support/certified-swarm.ts';
import { runCommand } from '../support/command-line.ts';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { signerOf } from '../support/swarm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const at = temporaryFolder();
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

const ROUNDS = 2;
/** A state of three chunks of 1 MiB, the last one shorter. */
const layout = createLayout([{ name: 'weights', shape: [270_000] }]);
const CHUNKS = 3;

/** Trains trivially: these tests do not check the training. */
const lightTrainer = (index: number): Trainer => ({
  device: { device: 'cpu', threads: 1 },
  layout,
  train: async ({ params, steps }) => ({
    ...{ params: params.map((value, i) => value + ((i * 7 + index) % 512) / 512), moments: [] },
    ...{ losses: new Float32Array(steps).fill(1), examples: 8, seconds: 0 },
  }),
  evaluate: async () => 1,
  sample: async () => new Uint8Array(),
  close: async () => undefined,
});

interface Played {
  readonly spec: RunSpec;
  readonly relay: string;
  readonly holders: readonly RunHolder[];
  readonly told: string[];
  /** A newcomer to the run, and the source of its checkpoint. */
  join(index: number): Promise<{ round: number; notices: readonly string[]; from: readonly SourceReport[] }>; // biome-ignore format: one line
}

interface Play {
  readonly placement: object;
  readonly places?: readonly string[];
}

async function openHolder(
  index: number,
  policy: PlacementPolicy,
  onNotice: (message: string) => void,
  mostBytes = 2 ** 30,
): Promise<RunHolder> {
  const holder = await startRunHolder({
    ...{ policy, signer: signerOf(index), folder: at(`held${index}`), mostBytes, keep: 2 },
    ...{ port: 0, host: '127.0.0.1', allowPrivate: true, onNotice },
    offer: { region: `region-${index}`, tier: 'open', weight: 1 },
  });
  opened.push(holder);
  return holder;
}

async function openRelays(url: string): Promise<RelaySet> {
  const relays = createRelaySet([url], { openSocket, clock: systemClock });
  opened.push(relays);
  await relays.ready();
  return relays;
}

/** Founders that play a run to its end; each holds what placement assigns to it, and then serves it. */
async function play({ placement, places = [] }: Play): Promise<Played> {
  const relay = await createRelay();
  opened.push(relay);
  const founders = [0, 1, 2];
  const document = { checkpoint: { every: ROUNDS, keep: 2 }, placement, ...(places.length > 0 && { places }) }; // biome-ignore format: one line
  const spec = certifiedSpec({ founders, rounds: ROUNDS, document });
  const told: string[] = [];
  const onNotice = (message: string) => void told.push(message);
  const holders: RunHolder[] = [];
  for (const index of founders) holders.push(await openHolder(index, spec.placement!, onNotice));
  const chunksOf = (
    index: number,
    more: Partial<Parameters<typeof createRunChunks>[0]>,
  ): CheckpointChunks =>
    // biome-ignore format: one line
    createRunChunks({
      ...{ servers: places, policy: spec.placement, signer: signerOf(index), folder: at(`worker${index}`) },
      ...{ allowPrivate: true, onNotice, ...more },
    });
  const shared = { spec, relays: [relay.url], layout };
  const members = founders.map((index) =>
    startCertified({
      ...{ ...shared, index, trainer: lightTrainer(index) },
      chunks: chunksOf(index, { holder: holders[index] }),
      disk: { state: undefined, entry: undefined },
    }),
  );
  await Promise.all(members.map(({ finished }) => finished));
  await Promise.all(holders.map((holder) => holder.settled()));
  return {
    ...{ spec, relay: relay.url, holders, told },
    async join(index) {
      let from: readonly SourceReport[] = [];
      const onFetched = (reports: readonly SourceReport[]) => {
        from = reports;
      };
      const heard: string[] = [];
      const chunks = chunksOf(index, {
        onFetched,
        onNotice: (message) => void heard.push(message),
      });
      const newcomer = startCertified({
        ...shared,
        index,
        trainer: lightTrainer(index),
        chunks,
        fetchesCheckpoint: true,
      });
      const { round } = await newcomer.finished;
      return { round, notices: [...noticesOf(newcomer), ...heard], from };
    },
  };
}

const bytesFrom = (reports: readonly SourceReport[], name: RegExp): number =>
  reports.filter((each) => name.test(each.name)).reduce((sum, { bytes }) => sum + bytes, 0);

const twice = { objects: { checkpoint: { replicas: 2, min_distinct: { regions: 2 } } } };
const BYTES = 8 * layout.size;
const HOLDER = /127\.0\.0\.1/;
const troubles = (notices: readonly string[]) => notices.filter((words) => /mirror|checkpoint|asking|skipped/.test(words)); // biome-ignore format: one line

const newestOf = (holder: RunHolder): ReadonlySet<string> => [...holder.storedChunks().values()].at(-1) ?? new Set(); // biome-ignore format: one line

/** Counts the holders of each chunk of the newest checkpoint. */
function copiesIn(holders: readonly RunHolder[]): readonly number[] {
  const counts = new Map<string, number>();
  for (const chunk of holders.flatMap((each) => [...newestOf(each)])) counts.set(chunk, (counts.get(chunk) ?? 0) + 1); // biome-ignore format: one line
  return [...counts.values()];
}

/** Announces, under the key of this index, a holder at an address. */
async function announceAt(
  relay: string,
  index: number,
  offer: Partial<HolderOffer>,
): Promise<void> {
  const now = Math.floor(Date.now() / 1000) + 2;
  const usual = { region: 'liars', tier: 'open', weight: 1, classes: [], freeBytes: 2 ** 30 };
  const draft = buildHolder({ ...usual, contacts: [], held: [], ...offer }, now, 3600);
  await publishRaw(relay, [signerOf(index).sign(draft)]);
}

/** A server that answers every request the same way. */
async function serve(answer: (response: ServerResponse) => void) {
  const asked = { count: 0 };
  const server = createServer((_, response) => {
    asked.count++;
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  opened.push({ close });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

/** Deletes all chunks of checkpoints on a relay, each under the key of its author. */
async function forgetChunks(url: string, indices: readonly number[]): Promise<number> {
  const relays = createRelaySet([url], { openSocket, clock: systemClock });
  await relays.ready();
  const { events } = await relays.query([{ kinds: [7811] }], { waitMs: 5000 });
  await relays.close();
  for (const index of indices) {
    const own = events.filter(({ pubkey }) => pubkey === keyOf(index));
    const tags = own.map(({ id }) => ['e', id]);
    const draft = { kind: 5, content: '', tags, created_at: Math.floor(Date.now() / 1000) };
    await publishRaw(url, [signerOf(index).sign(draft)]);
  }
  return events.length;
}

describe('a run with a placement', () => {
  it('has each chunk of its checkpoint at two members in two regions, nothing more; newcomers get them there, past liars, after kills, and of who leaves', {
    timeout: 300_000,
  }, async () => {
    const { spec, relay, holders, told, join: joinRun } = await play({ placement: twice });
    expect(told).toEqual([]);
    expect(copiesIn(holders)).toEqual([2, 2, 2]);
    await writeFile(at('spec.json'), canonicalSpec(spec));
    const check = await runCommand('placement', 'check', '--run', at('spec.json'), '--relay', relay, '--count', '3', '--json'); // biome-ignore format: one line
    const { classes } = JSON.parse(check.stdout) as { classes: { holders: { region: string }[] }[] }; // biome-ignore format: one line
    expect(classes[0]!.holders.map(({ region }) => region).sort()).toEqual(['region-0', 'region-1', 'region-2']); // biome-ignore format: one line

    const first = await joinRun(3);
    expect(first.round).toBe(ROUNDS);
    expect([bytesFrom(first.from, /./), bytesFrom(first.from, HOLDER)]).toEqual([BYTES, BYTES]);
    expect(first.from.filter(({ chunks }) => chunks > 0).length).toBeGreaterThan(1);
    expect(troubles(first.notices)).toEqual([]);

    const digest = [...holders[0]!.storedChunks().keys()].at(-1)!;
    await expectResumes({ relay, holders, digest, policy: spec.placement! });
    await expectMended(relay, holders);
    await expectOthersThanLiars({ relay, digest, join: joinRun });

    for (const holder of holders) await holder.close();
    const last = await joinRun(4);
    expect(last.round).toBe(ROUNDS);
    expect(troubles(last.notices).join()).toContain('; asking relays');
  });

  it('serves its checkpoint from Blossom and holders together, and after relays deleted every chunk', {
    timeout: 120_000,
  }, async () => {
    const server = await startBlossomServer();
    opened.push(server);
    const placement = { objects: { checkpoint: { replicas: 1 } } };
    const { relay, holders, join: joinRun } = await play({ placement, places: [server.url] });
    expect(await forgetChunks(relay, [0, 1, 2])).toBeGreaterThan(0);
    const gone = holders.find((holder) => newestOf(holder).size > 0)!;
    const lost = newestOf(gone).size;
    await gone.close();
    const { round, from, notices } = await joinRun(3);
    expect(round).toBe(ROUNDS);
    const blossom = from.find(({ name }) => name === server.url)!;
    expect(blossom.chunks).toBeGreaterThanOrEqual(lost);
    expect(from.reduce((sum, { chunks }) => sum + chunks, 0)).toBe(CHUNKS);
    expect(bytesFrom(from, HOLDER)).toBe(BYTES);
    expect(notices.join()).not.toContain('; asking relays');
  });
});

/** A joining worker that is killed repeatedly continues and downloads no chunk twice. */
async function expectResumes({
  relay,
  holders,
  digest,
  policy,
}: {
  readonly relay: string;
  readonly holders: readonly RunHolder[];
  readonly digest: string;
  readonly policy: PlacementPolicy;
}) {
  // biome-ignore format: one line
  const manifest = await readManifest(at('held0', digest.slice(0, 32)));
  const relays = await openRelays(relay);
  const members = [0, 1, 2].map(keyOf);
  const sent = () => holders.reduce((sum, { sentBytes }) => sum + sentBytes, 0);
  const fetchUntil = async (most: number) => {
    const kill = new AbortController();
    const before = sent();
    const timer = setInterval(() => sent() - before >= most && kill.abort(new Error('killed')), 1);
    const chunks = createRunChunks({
      ...{ servers: [], policy, signer: signerOf(3), folder: at('killed') },
      ...{ allowPrivate: true, onNotice: () => undefined },
    });
    const payload = { root: manifest.root!, bytes: manifest.bytes };
    const wanted = { digest, payload, members, relays, clock: systemClock, signal: kill.signal };
    return chunks.fetch(wanted).finally(() => clearInterval(timer));
  };
  const whole = async () => {
    const [folder] = await readdir(at('killed')).catch(() => []);
    const names = folder === undefined ? [] : await readdir(at('killed', folder));
    return manifest.chunks.filter(({ sha256 }) => names.includes(sha256)).length;
  };
  let kept = 0;
  for (let most = 1; kept === 0 && most < 1.2 * BYTES; most += 2e5) {
    const model = await fetchUntil(most).catch((error: Error) =>
      expect(error.message).toBe('killed'),
    );
    if (model) return;
    kept = await whole();
  }
  const before = sent();
  const model = await fetchUntil(Number.POSITIVE_INFINITY);
  expect(sha256Hex(model)).toBe(manifest.sha256);
  if (kept > 0) expect(sent() - before).toBeLessThan(manifest.bytes);
}

/** Holders that lie in the directory, serve garbage, stop half way, or are extremely slow. */
async function expectOthersThanLiars({
  relay,
  digest,
  join: joinRun,
}: Pick<Played, 'relay' | 'join'> & { readonly digest: string }) {
  // biome-ignore format: one line
  const garbage = await serve((response) => response.end(Buffer.alloc(2 ** 20, 7)));
  const dying = await serve((response) => {
    response.writeHead(200, { 'content-length': String(2 ** 20) }).write(Buffer.alloc(1000));
    setTimeout(() => response.destroy(), 20);
  });
  const slow = await serve((response) => {
    response.writeHead(200, { 'content-length': String(2 ** 20) });
    const timer = setInterval(() => response.write('x'), 200);
    response.on('close', () => clearInterval(timer));
  });
  const held = [digest];
  for (const [i, { url }] of [garbage, dying, slow].entries()) await announceAt(relay, 10 + i, { contacts: [url], held }); // biome-ignore format: one line
  await announceAt(relay, 13, { contacts: ['http://127.0.0.1:9'], held });
  const { round, from, notices } = await joinRun(5);
  expect(round).toBe(ROUNDS);
  expect(bytesFrom(from, /./)).toBe(BYTES);
  expect(Math.min(garbage.asked.count, dying.asked.count, slow.asked.count)).toBeGreaterThan(0);
  for (const { url } of [garbage, dying, slow]) expect(from.find(({ name }) => name === url)).toMatchObject({ chunks: 0 }); // biome-ignore format: one line
  expect(notices.join('\n')).not.toContain('; asking relays');
}

/** The others fetch the chunks of a leaving holder from each other. */
async function expectMended(relay: string, [leaver, ...others]: readonly RunHolder[]) {
  expect(newestOf(leaver!).size).toBeGreaterThan(0);
  await announceAt(relay, 0, { contacts: [leaver!.url], weight: 0, region: 'region-0' });
  await leaver!.close();
  const relays = await openRelays(relay);
  const stop = new AbortController();
  for (const holder of others) holder.announce(relays, stop.signal);
  await Promise.all(others.map((holder) => holder.settled()));
  stop.abort();
  expect(copiesIn(others)).toEqual([2, 2, 2]);
}

/** Three holders of a synthetic state. */
async function hold(placement: object, freeBytes: (index: number) => number = () => 2 ** 30) {
  const relay = await createRelay();
  opened.push(relay);
  const policy = readPlacementField({ placement });
  const told: string[] = [];
  const holders: RunHolder[] = [];
  const relays = await openRelays(relay.url);
  const stop = new AbortController();
  for (const index of [0, 1, 2]) {
    const holder = await openHolder(
      index,
      policy,
      (message) => told.push(message),
      freeBytes(index),
    );
    holder.announce(relays, stop.signal);
    await holder.settled();
    holders.push(holder);
  }
  const packed = await packBytes(drawnBytes(BYTES), createNativeSha256);
  await Promise.all(holders.map((holder) => holder.hold(packed, [0, 1, 2].map(keyOf))));
  const { events } = await relays.query([{ kinds: [37812] }], { waitMs: 5000 });
  stop.abort();
  const free = new Map(events.map(({ pubkey, content }) => [pubkey, (JSON.parse(content) as { free: number }).free])); // biome-ignore format: one line
  return { holders, told, free, policy };
}

describe('holders of a run', () => {
  it('R-11 hold nothing and report it if the placement rule cannot be met', async () => {
    const { holders, told } = await hold({ objects: { checkpoint: { replicas: 5 } } });
    expect(copiesIn(holders)).toEqual([]);
    expect(told[0]).toContain('ALERT: no member holds checkpoints: objects.checkpoint.replicas needs 5, 3 available; try objects.checkpoint.replicas = 3 (is 5), or more holders'); // biome-ignore format: one line
  });

  it('hold fewer replicas, with an alert, if the policy says so', async () => {
    const rule = { objects: { checkpoint: { replicas: 5 } } };
    const { holders, told } = await hold({ on_unsatisfiable: 'degrade-with-alert', ...rule });
    expect(copiesIn(holders)).toEqual([3, 3, 3]);
    expect(told[0]).toContain('ALERT: fewer members hold checkpoints');
  });

  it('with little space report it and get no more than fits; others hold the rest', async () => {
    const rule = { objects: { checkpoint: { replicas: 2 } } };
    const { holders, free } = await hold(rule, (index) => (index === 0 ? 1.25 * 2 ** 20 : 2 ** 30));
    expect(newestOf(holders[0]!).size).toBeLessThanOrEqual(1);
    expect(copiesIn(holders)).toEqual([2, 2, 2]);
    expect(free.get(keyOf(0))).toBeLessThanOrEqual(1.25 * 2 ** 20);
  });

  it('whose disk refuses a chunk serve what they have, report that they are full, and verify everything on restart', async () => {
    const packed = await packBytes(drawnBytes(BYTES), createNativeSha256);
    const folder = at('held0', manifestDigest(packed.manifest).slice(0, 32));
    const refused = packed.manifest.chunks[1]!.sha256;
    await mkdir(join(folder, refused), { recursive: true });
    const { holders, told, free, policy } = await hold({
      objects: { checkpoint: { replicas: 3 } },
    });
    expect(told[0]).toContain('no more chunks are stored, stored ones are still served');
    expect([newestOf(holders[0]!).size, newestOf(holders[1]!).size]).toEqual([1, CHUNKS]);
    expect(free.get(keyOf(0))).toBe(2 ** 20);
    await writeFile(join(folder, packed.manifest.chunks[0]!.sha256), 'spoiled');
    await holders[0]!.close();
    expect(newestOf(await openHolder(0, policy, () => undefined)).size).toBe(0);
    await holders[1]!.close();
    expect(newestOf(await openHolder(1, policy, () => undefined)).size).toBe(CHUNKS);
  });
});
