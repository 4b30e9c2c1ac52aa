/**
 * What drawing the witnesses costs, next to a coordinator that publishes them.
 *
 *   npm run bench:witness -- [--keys 1000 ...] [--seats 16] [--rtt-ms 50] [--reads-per-second N] [--json]
 */
import { parseArgs } from 'node:util';
import { sha256, systemClock, u32 } from 'nostrain/base';
import {
  bestOf,
  createCandidates,
  DRAWS_PER_SEED,
  drawLots,
  type Weighted,
} from 'nostrain/consensus';
import { createSigner, type SignedEvent, type Socket } from 'nostrain/network';
import { createSecretKey, nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { formatBytes, formatCount } from '../../src/base/numbers.ts';
import { alignColumns } from '../../src/terminal/render/text.ts';

const { values: flags } = parseArgs({
  options: {
    keys: {
      type: 'string',
      multiple: true,
      default: ['100', '1000', '10000', '100000', '1000000'],
    },
    seats: { type: 'string', short: 'k', default: '16' },
    'rtt-ms': { type: 'string', default: '50' },
    'reads-per-second': { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

interface BenchInput {
  readonly keys: readonly number[];
  readonly seats: number;
  /** Of the modelled coordinator. */
  readonly rttMs: number;
  /** Reads a relay answers; undefined takes what the largest measurement shows. */
  readonly readsPerSecond: number | undefined;
}

interface BenchRow extends DrawCosts {
  readonly keys: number;
  readonly coordinatorMs: number;
  readonly isMeasured: boolean;
  /** Of one rotation with a coordinator; the draw needs none. */
  readonly messages: number;
}

interface Bench {
  readonly seats: number;
  readonly rttMs: number;
  readonly readsPerSecond: number;
  readonly rows: readonly BenchRow[];
}

/** Members in draws that nobody counts, until the engine has compiled everything. */
const WARM_UP = 2000;

/** Takes the sizes in ascending order, so that the memory of a row holds nothing of a larger one. */
async function runBench(
  { keys, seats, rttMs, readsPerSecond }: BenchInput,
  tell: (words: string) => void,
): Promise<Bench> {
  const sizes = keys.toSorted((a, b) => a - b);
  costOfDraws(WARM_UP, seats);
  const drawn: (DrawCosts & { readonly keys: number })[] = [];
  for (const size of sizes) {
    tell(`drawing ${seats} of ${formatCount(size)}`);
    drawn.push({ keys: size, ...costOfDraws(size, seats) });
  }
  const measured = new Map<number, number>();
  const few = sizes.filter((size) => size <= MOST_MEASURED);
  for (const size of new Set(readsPerSecond === undefined ? [...few, MOST_MEASURED] : few)) {
    tell(`coordinator: 1 write and ${formatCount(size)} reads over a relay here`);
    measured.set(size, await measureCoordinator(size, seats));
  }
  const rate = readsPerSecond ?? (1000 * MOST_MEASURED) / measured.get(MOST_MEASURED)!;
  const rows = drawn.map((row) => {
    const ms = measured.get(row.keys);
    const model = modelCoordinator(row.keys, { rttMs, readsPerSecond: rate });
    return {
      ...row,
      coordinatorMs: ms ?? model,
      isMeasured: ms !== undefined,
      messages: 1 + row.keys,
    };
  });
  return { seats, rttMs, readsPerSecond: rate, rows };
}

function formatBench({ seats, rttMs, readsPerSecond, rows }: Bench): string {
  const heads = ['members', 'cold', 'new round', 'cached', 'memory', 'coordinator', 'its messages'];
  const cells = rows.map((row) => [
    formatCount(row.keys),
    ...[row.coldMs, row.roundMs, row.cachedMs].map(wordMs),
    formatBytes(row.memoryBytes),
    `${wordMs(row.coordinatorMs)} ${row.isMeasured ? 'measured' : 'modelled'}`,
    formatCount(row.messages),
  ]);
  const lines = [
    `${seats} witnesses, drawn by everybody alone (no message) or told by a coordinator`,
    '',
    ...alignColumns([heads, ...cells], 110),
    '',
    'Processor time. cold: from members as text. new round: members read. cached: one more of its draws.',
    'memory: the most this process held above its start, garbage included.',
    `measured: a relay of ours and its readers on loopback. modelled: 2 x ${rttMs} ms and ${formatCount(readsPerSecond)} reads/s.`,
  ];
  return `${lines.join('\n')}\n`;
}

const wordMs = (ms: number): string => `${ms < 10 ? ms.toFixed(2) : formatCount(ms)} ms`;

/** Measured up to here. */
const MOST_MEASURED = 1000;
const CONNECTIONS = 50;
/** A regular kind that nothing of ours uses. */
const KIND = 1573;

/** Milliseconds of processor time of one write and N reads over loopback: the relay's and the readers' together. */
async function measureCoordinator(members: number, seats: number): Promise<number> {
  const relay = await createRelay();
  const sockets = await Promise.all(
    Array.from({ length: Math.min(members, CONNECTIONS) }, () => connect(relay.url)),
  );
  try {
    const event = announce(seats);
    const start = processorMs();
    await ask(sockets[0]!, ['EVENT', event], 'OK');
    await Promise.all(
      sockets.map(async (socket, i) => {
        for (let reader = i; reader < members; reader += sockets.length) {
          await ask(socket, ['REQ', `${reader}`, { ids: [event.id] }], 'EOSE');
          socket.send(JSON.stringify(['CLOSE', `${reader}`]));
        }
      }),
    );
    return processorMs() - start;
  } finally {
    for (const socket of sockets) socket.close();
    await relay.close();
  }
}

/** Milliseconds by the model: a round trip to write, one to read, and the relay's time for N reads. */
const modelCoordinator = (
  members: number,
  { rttMs, readsPerSecond }: { readonly rttMs: number; readonly readsPerSecond: number },
): number => 2 * rttMs + (1000 * members) / readsPerSecond;

/** The witnesses of a rotation as a coordinator would state them. */
function announce(seats: number): SignedEvent {
  const signer = createSigner(createSecretKey(), nativeCrypto);
  const content = Array.from({ length: seats }, () => signer.publicKey).join(' ');
  const created_at = Math.floor(systemClock.now() / 1000);
  return signer.sign({ kind: KIND, created_at, tags: [], content });
}

const connect = (url: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = openSocket(url);
    socket.onopen = () => resolve(socket);
    socket.onclose = () => reject(new Error('the relay hung up'));
  });

/** Sends a frame and waits for the answer of this verb. */
const ask = (socket: Socket, frame: readonly unknown[], verb: string): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.onclose = () => reject(new Error('the relay hung up'));
    socket.onmessage = (text) => {
      if (text?.startsWith(`["${verb}"`)) resolve();
    };
    socket.send(JSON.stringify(frame));
  });

/** Milliseconds of processor time; other programs on the machine do not count. */
interface DrawCosts {
  /** From members as text to the seats. */
  readonly coldMs: number;
  /** With members read: a round nobody has drawn for yet. */
  readonly roundMs: number;
  /** With the round's lots there: one more of its eight draws. */
  readonly cachedMs: number;
  /** The most this process held above what it held before there were members, its garbage included. */
  readonly memoryBytes: number;
}

const REPEATS = 5;

/** Costs of one draw; the times are medians of a few more. */
function costOfDraws(keys: number, seats: number): DrawCosts {
  const before = process.memoryUsage().rss;
  const members = makeMembers(keys);
  timeOnce(members, seats, 0);
  const memoryBytes = Math.max(0, 1024 * process.resourceUsage().maxRSS - before);
  const times = Array.from({ length: REPEATS }, (_, i) => timeOnce(members, seats, 1 + i));
  const median = (pick: (time: (typeof times)[number]) => number) =>
    times.map(pick).toSorted((a, b) => a - b)[Math.floor(REPEATS / 2)]!;
  return {
    coldMs: median(({ cold }) => cold),
    roundMs: median(({ round }) => round),
    cachedMs: median(({ cached }) => cached),
    memoryBytes,
  };
}

function timeOnce(members: readonly Weighted[], seats: number, seed: number) {
  const start = processorMs();
  const pool = createCandidates(members);
  const read = processorMs();
  const lots = drawLots(pool, sha256(u32(seed)));
  bestOf(lots, 0, seats);
  const drawn = processorMs();
  for (let drawIndex = 1; drawIndex < DRAWS_PER_SEED; drawIndex++) bestOf(lots, drawIndex, seats);
  const end = processorMs();
  return { cold: drawn - start, round: drawn - read, cached: (end - drawn) / (DRAWS_PER_SEED - 1) };
}

/** Keys that are no keys, with stakes over three orders of magnitude. */
const makeMembers = (count: number): readonly Weighted[] =>
  Array.from({ length: count }, (_, i) => ({
    key: Buffer.from(nativeSha256(u32(i))).toString('hex'),
    weight: BigInt(1 + ((i * 7919) % 1000)) * 10n ** 18n,
  }));

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const reads = flags['reads-per-second'];
const found = await runBench(
  {
    keys: flags.keys.map(Number),
    seats: Number(flags.seats),
    rttMs: Number(flags['rtt-ms']),
    readsPerSecond: reads === undefined ? undefined : Number(reads),
  },
  (words) => console.error(words),
);
console.log(flags.json ? JSON.stringify(found, null, 2) : formatBench(found));
