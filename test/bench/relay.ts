/**
 * Our relay beside others, in turns in one run: events taken per second, deliveries per second, memory.
 * `npm run bench:relay -- --peer nostr-rs-relay=ws://127.0.0.1:8080 --peer "other=path/to/relay --port {port} --data {dir}"`
 */
import { parseArgs } from 'node:util';
import { type Contender, startContender } from './relays/contender.ts';
import { kinds, makeEvents, refusesForgery, timeFanOut, timeIngest } from './relays/load.ts';

const { values } = parseArgs({
  options: {
    peer: { type: 'string', multiple: true, default: [] },
    runs: { type: 'string', default: '3' },
    publishers: { type: 'string', default: '8' },
    subscribers: { type: 'string', default: '64' },
    only: { type: 'string' },
  },
});
const [publishers, subscribers] = [Number(values.publishers), Number(values.subscribers)];

const sizes = [
  { name: '300 B of content', bytes: 300, ingest: 6000, fanOut: 600 },
  { name: '64 KiB events', bytes: 65_536 - 1024, ingest: 1200, fanOut: 40 },
] as const;

/** Our own in a process of its own, as a stranger would start it: what `nostrain/relay` exports, and nothing else. */
const program = (options: string): string =>
  `import{createRelay}from'nostrain/relay';await(createRelay({port:{port},${options}}))`;

const contenders: readonly Contender[] = [
  { name: 'ours, in memory', how: `node --input-type=module --eval ${program('')}` },
  { name: 'ours, --store', how: `node --input-type=module --eval ${program("store:'{dir}'")}` },
  ...values.peer.map((text) => {
    const at = text.indexOf('=');
    if (at < 1) throw new Error(`--peer takes name=url or name=command, not ${text}`);
    return { name: text.slice(0, at), how: text.slice(at + 1) };
  }),
].filter(({ name }) => values.only === undefined || name.includes(values.only));

type Size = (typeof sizes)[number];

interface Measured {
  readonly ingest: number;
  readonly fanOut: number;
  /** MiB of a relay that has taken nothing, and of one that has taken all events to ingest. */
  readonly idle: number;
  readonly full: number;
}

async function measure(contender: Contender, size: Size): Promise<Measured> {
  const relay = await startContender(contender);
  try {
    if (!(await refusesForgery(relay.url))) console.log(`${contender.name} takes forged events`);
    const idle = relay.memory();
    const taken = await timeIngest(
      relay.url,
      makeEvents(size.ingest, size.bytes, kinds.ingest),
      publishers,
    );
    warn(contender, size, taken, size.ingest);
    const full = relay.memory();
    const passed = await timeFanOut(
      relay.url,
      makeEvents(size.fanOut, size.bytes, kinds.fanOut),
      subscribers,
    );
    warn(contender, size, passed, size.fanOut);
    return {
      ingest: size.ingest / taken.seconds,
      fanOut: (size.fanOut * subscribers) / passed.seconds,
      idle,
      full,
    };
  } finally {
    await relay.close();
  }
}

function warn(
  { name }: Contender,
  size: Size,
  { accepted, refusal }: { readonly accepted: number; readonly refusal: string | undefined },
  sent: number,
): void {
  if (accepted !== sent) {
    console.log(`${name}, ${size.name}: took ${accepted} of ${sent}: ${refusal?.slice(0, 200)}`);
  }
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

const range = (numbers: readonly number[]): string =>
  `${Math.min(...numbers).toFixed(0)}–${Math.max(...numbers).toFixed(0)}`;

for (const size of sizes) {
  const found = new Map<string, Measured[]>(contenders.map(({ name }) => [name, []]));
  for (let run = 0; run < Number(values.runs); run++) {
    for (const contender of contenders) {
      found.get(contender.name)!.push(await measure(contender, size));
    }
  }
  console.log(
    `\n${size.name}: ${size.ingest} events from ${publishers} publishers; then ${size.fanOut} from one to ${subscribers} subscribers. Median of ${values.runs} (least–most)`,
  );
  for (const [name, runs] of found) {
    const [ingest, fanOut] = [runs.map((run) => run.ingest), runs.map((run) => run.fanOut)];
    const [idle, full] = [median(runs.map((r) => r.idle)), median(runs.map((r) => r.full))];
    console.log(
      `  ${name.padEnd(20)} ingest ${median(ingest).toFixed(0)}/s (${range(ingest)})  fan-out ${median(fanOut).toFixed(0)}/s (${range(fanOut)})  memory ${idle.toFixed(0)} MiB, after ingest ${full.toFixed(0)} MiB`,
    );
  }
}
