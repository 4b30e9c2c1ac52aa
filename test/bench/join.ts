/**
 * Cold joins by place: how long a newcomer takes to the certified state of a run, from relays, Blossom, holders and all of them, beside a plain HTTP
 * download of the same bytes to the disk, in turns; and what each party gives away for it.
 *
 *   npm run bench:join -- [--runs 3] [--parameters 834048] [--parameters 460800] [--state 300000000]
 *
 * `--parameters` plays a certified run of that many with three members who hold (two copies of each chunk), two relays and a Blossom server, each a process
 * of its own; `--state` puts a state of so many bytes at the same places. Blossom is khatru's where `bash test/interop/khatru-blossom/install.sh` was run.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { khatruBlossom } from '../interop/blossom-servers.ts';
import { startBlossomServer } from '../support/blossom-server.ts';
import { type Ready, type StartedStep, type Step, start } from './join/processes.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    parameters: { type: 'string', multiple: true, default: [] },
    state: { type: 'string', multiple: true, default: [] },
    'without-relays': { type: 'boolean', default: false },
  },
});
const MB = 1e6;
const MEMBERS = [0, 1, 2];

interface Cost {
  readonly ms: number;
  readonly cpuMs: number;
  readonly relayBytes: number;
  readonly requests: number;
  readonly from: Readonly<Record<string, number>>;
}

async function blossom(): Promise<{ url: string; name: string; close(): Promise<unknown> }> {
  if (!khatruBlossom.isInstalled()) return { ...(await startBlossomServer()), name: 'in memory, of the tests' }; // biome-ignore format: one line
  const { url, close } = await khatruBlossom.start();
  return { url: url.replace('ws:', 'http:'), name: 'of khatru 0.19.1', close };
}

const median = (costs: readonly Cost[]): Cost =>
  costs.toSorted((a, b) => a.ms - b.ms)[Math.floor(costs.length / 2)]!;

/** A run, or a state, at all places; then joins in turns. */
async function measure(title: string, bytes: number, made: Partial<Step>, runs: number) {
  const home = await mkdtemp(join(tmpdir(), 'nostrain-join-'));
  const started: StartedStep[] = [];
  const begin = (step: Omit<Step, 'home'>) => {
    const one = start({ ...step, home });
    started.push(one);
    return one;
  };
  const server = await blossom();
  try {
    const relays = await Promise.all(
      [0, 1].map((index) => begin({ op: 'relay', index }).ready<{ url: string }>()),
    );
    const base = { ...made, relays: relays.map(({ url }) => url), places: [server.url], runs };
    const members = MEMBERS.map((index) => begin({ ...base, op: 'member', index }));
    const [first] = await Promise.all(members.map((each) => each.ready<Ready>()));
    const web = await begin({ ...base, op: 'web', index: 0 }).ready<{ url: string }>();
    const all = { ...base, ...first, url: web.url };
    const costs = new Map<string, Cost[]>();
    const ways = values['without-relays'] ? WAYS.filter((way) => way !== 'relays') : WAYS;
    for (let turn = 0; turn < runs; turn++) {
      for (const way of ways) {
        const joiner = begin({ ...all, op: way === 'plain' ? 'plain' : 'join', way, index: 10 + turn }); // biome-ignore format: one line
        costs.set(way, [...(costs.get(way) ?? []), await joiner.ready<Cost>()]);
      }
    }
    tell(`${title}, Blossom ${server.name}`, bytes, costs);
  } finally {
    for (const each of started) each.child.kill();
    await server.close();
    await rm(home, { recursive: true, force: true });
  }
}

const WAYS = ['plain', 'relays', 'blossom', 'holders', 'all'] as const;

function tell(title: string, bytes: number, costs: ReadonlyMap<string, readonly Cost[]>): void {
  const plain = median(costs.get('plain')!);
  console.log(`\n${title}: ${(bytes / MB).toFixed(1)} MB\n`);
  console.log('| from | time (all turns) | speed | processor | times plain | relays send | requests | came from |'); // biome-ignore format: one line
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- |');
  for (const [way, each] of costs) {
    const { ms, cpuMs, relayBytes, requests, from } = median(each);
    const turns = each.map((cost) => cost.ms.toFixed(0)).join(', ');
    const where = Object.entries(from).map(([name, came]) => `${name} ${((100 * came) / bytes).toFixed(0)} %`); // biome-ignore format: one line
    console.log(
      `| ${[
        way,
        `${ms.toFixed(0)} ms (${turns})`,
        `${(bytes / MB / (ms / 1000)).toFixed(1)} MB/s`,
        `${cpuMs.toFixed(0)} ms`,
        (ms / plain.ms).toFixed(2),
        `${(relayBytes / MB).toFixed(2)} MB`,
        String(requests),
        where.join(', '),
      ].join(' | ')} |`,
    );
  }
}

const runs = Number(values.runs);
const isUsual = values.parameters.length + values.state.length === 0;
for (const count of isUsual ? ['834048', '460800'] : values.parameters) {
  await measure(
    `run of ${count} parameters`,
    8 * Number(count),
    { parameters: Number(count) },
    runs,
  );
}
for (const bytes of isUsual ? ['300000000'] : values.state) {
  await measure(`state of ${bytes} bytes`, Number(bytes), { bytes: Number(bytes) }, runs);
}
process.exit(0);
