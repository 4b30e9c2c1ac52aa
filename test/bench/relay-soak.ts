/**
 * Four workers over our relay, alone and beside ten hostile clients, one attack each: what the relay's process takes and
 * how late its event loop is, and what becomes of the workers' rounds. `npm run bench:relay-soak -- --rounds 40`
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { DemoDocument } from '../../demos/shared/document.ts';
import { startProgram } from '../support/processes.ts';
import { attack, attacks } from './relays/hostile.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '30' },
    /** Seconds that the attacks go on before the workers start: the store is full of them by then. */
    before: { type: 'string', default: '20' },
    /** Seconds after which the workers are given up. */
    most: { type: 'string', default: '110' },
  },
});
const [rounds, beforeMs, mostMs] = [
  Number(values.rounds),
  Number(values.before) * 1000,
  Number(values.most) * 1000,
];
const WORKERS = 4;

/** The relay as anybody starts it, in a process that watches itself. */
const program = `
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createRelay } from 'nostrain/relay';
const relay = await createRelay();
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
let most = 0;
const look = setInterval(() => { most = Math.max(most, process.memoryUsage.rss()); }, 200);
process.on('message', (word) => {
  if (word === 'begin') { delay.reset(); most = 0; return; }
  if (word === 'end') { clearInterval(look); void relay.close().then(() => process.exit(0)); return; }
  const ms = (nanoseconds) => nanoseconds / 1e6 - 5;
  process.send({
    rss: Math.max(most, process.memoryUsage.rss()), median: ms(delay.percentile(50)),
    late: ms(delay.percentile(99)), latest: ms(delay.max), stats: relay.stats(),
  });
});
process.send(relay.url);
`;

interface Report {
  readonly rss: number;
  /** How late the event loop was, in ms: the median, the worst of a hundred, the worst. */
  readonly median: number;
  readonly late: number;
  readonly latest: number;
  readonly stats: Readonly<Record<string, number>>;
}

interface Outcome {
  readonly document: DemoDocument | undefined;
  readonly seconds: number;
  readonly report: Report;
}

async function answer<T>(child: ChildProcess): Promise<T> {
  const [message] = (await once(child, 'message')) as [T];
  return message;
}

async function play(isHostile: boolean): Promise<Outcome> {
  const dir = mkdtempSync(join(tmpdir(), 'nostrain-soak-'));
  const file = join(dir, 'relay.mjs');
  writeFileSync(file, program.replace("'nostrain/relay'", JSON.stringify(relayModule)));
  const relay = fork(file, { execArgv: [], env: { ...process.env, NODE_OPTIONS: '' } });
  const url = await answer<string>(relay);
  const hostile = new AbortController();
  const attacking = isHostile ? attack(url, hostile.signal) : Promise.resolve();
  if (isHostile) await new Promise((resolve) => setTimeout(resolve, beforeMs));
  relay.send('begin');
  const start = performance.now();
  const demo = startProgram([
    ...['demo', 'linear', '--json', '--workers', `${WORKERS}`, '--rounds', `${rounds}`],
    ...['--relay', url, '--dir', join(dir, 'demo')],
  ]);
  const timer = setTimeout(() => demo.child.kill('SIGKILL'), mostMs);
  const code = await demo.exit;
  clearTimeout(timer);
  const seconds = (performance.now() - start) / 1000;
  if (code !== 0) console.error(demo.output.stderr.slice(-2000));
  relay.send('report');
  const report = await answer<Report>(relay);
  hostile.abort();
  await attacking;
  relay.send('end');
  await once(relay, 'exit');
  rmSync(dir, { recursive: true, force: true });
  const document = code === 0 ? (JSON.parse(demo.output.stdout) as DemoDocument) : undefined;
  return { document, seconds, report };
}

/** Rounds in which every worker's contribution counted, of those asked for. */
const whole = ({ document }: Outcome): number =>
  document?.rounds.filter(({ accepted }) => accepted === WORKERS).length ?? 0;

const mib = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;
const ms = (value: number): string => `${Math.max(0, value).toFixed(0)} ms`;
const count = (value = 0): string => value.toLocaleString('en-US');

const rows: readonly (readonly [string, (outcome: Outcome) => string])[] = [
  ['whole rounds', (o) => `${whole(o)} of ${rounds}`],
  ['time of one round', (o) => `${(o.seconds / rounds).toFixed(2)} s`],
  ['resident memory, most', ({ report }) => mib(report.rss)],
  ['event loop late, median', ({ report }) => ms(report.median)],
  ['event loop late, 99 of 100', ({ report }) => ms(report.late)],
  ['event loop late, most', ({ report }) => ms(report.latest)],
  ['most work in one turn', ({ report }) => `${count(report.stats.mostWorkPerTurn)} units`],
  ['messages read', ({ report }) => count(report.stats.framesIn)],
  ['events taken', ({ report }) => count(report.stats.eventsAccepted)],
  ['events kept', ({ report }) => count(report.stats.eventsStored)],
];

const relayModule = new URL('../../dist/relay/server.js', import.meta.url).href;
const begin = performance.now();
const quiet = await play(false);
const hostile = await play(true);
console.log(
  `| ${rounds} rounds of ${WORKERS} workers | alone | beside ${Object.keys(attacks).length} attackers |`,
);
console.log('| --- | --- | --- |');
for (const [name, show] of rows) console.log(`| ${name} | ${show(quiet)} | ${show(hostile)} |`);
const seconds = Math.round((performance.now() - begin) / 1000);
console.log(`\n${seconds} s in all; load of the machine at the end ${loadavg()[0]!.toFixed(1)}`);
process.exitCode = whole(hostile) > 0 ? 0 : 1;
