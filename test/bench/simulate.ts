/**
 * Many workers of a certified run in one process: the real worker, round machine, transport and relays on a virtual clock and a network in
 * memory, training drawn. `npm run simulate -- --workers 1000 --relays 20 --rounds 5 --json`.
 */
import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { replayRun } from 'nostrain/certified';
import { goodputBetween, goodputOf } from './simulate/goodput.ts';
import { type Played, type SimulationOptions, simulate } from './simulate/play.ts';
import { profileParts } from './simulate/profile.ts';
import type { ScaleRow } from './simulate/rows.ts';
import { takeSnapshot, type Weights } from './simulate/weights.ts';

const { values } = parseArgs({
  options: {
    workers: { type: 'string', default: '16' },
    /** Workers that the spec names, at most 1,024; the others join. */
    founders: { type: 'string', default: '1024' },
    relays: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    /** Relays that each worker reads; 0: all. */
    copies: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
    /** Values that each worker sends in a round. */
    params: { type: 'string', default: '2048' },
    /** Seconds of training: of the fastest worker and of the slowest. */
    train: { type: 'string', default: '20,30' },
    /** What relays behave like, in turn: strfry, nostr-rs-relay, nostream, ours. */
    dialects: { type: 'string', default: 'strfry' },
    /** Connections that a relay takes. */
    connections: { type: 'string', default: '1000' },
    /** Share of the packets that are sent again. */
    loss: { type: 'string', default: '0.001' },
    /** What becomes of a contribution that comes one round late: discard, defer. */
    late: { type: 'string', default: 'discard' },
    /** Deviations beyond the median arrival that a round waits. */
    'deadline-c': { type: 'string', default: '4' },
    /** Share of the workers killed in each round. */
    churn: { type: 'string', default: '0' },
    committee: { type: 'string', default: '64' },
    /** Workers drawn to contribute to a round; 0: all. */
    contributors: { type: 'string', default: '0' },
    /** Founders whose joins one outcome lists; 0: all. */
    'founders-per-round': { type: 'string', default: '84' },
    /** Others whose joins one outcome lists: with those of founders they should fit into one event; 0: a quarter of the roster. */
    'joins-per-round': { type: 'string', default: '16' },
    /** Each worker checks every signature itself; else the process checks it once and charges each. */
    'check-all': { type: 'boolean', default: false },
    /** Seconds of the processor and bytes in memory by part, sampled. */
    profile: { type: 'boolean', default: false },
    /** Rounds after which the memory is weighed, numbered from 1. */
    weigh: { type: 'string', default: '' },
    /** Replays the run from what relays hold. */
    replay: { type: 'boolean', default: false },
    /** Appends what was asked and each round to a file that `npm run bench:scale` draws. */
    keep: { type: 'string' },
    json: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});

const parts = values.profile ? await profileParts() : undefined;
const [fastest, slowest] = values.train.split(',').map(Number);
const weighed = new Set(values.weigh.split(',').filter(Boolean).map(Number));
const snapshots = new Map<number, () => Weights>();
const tell = (text: string) => console.error(text);
const options: SimulationOptions = {
  ...{ workers: Number(values.workers), relays: Number(values.relays) },
  ...{
    founders: Number(values.founders),
    copies: Number(values.copies),
    rounds: Number(values.rounds),
    seed: Number(values.seed),
    params: Number(values.params),
  },
  ...{ trainSeconds: [fastest!, slowest ?? fastest!], loss: Number(values.loss) },
  deadlineC: Number(values['deadline-c']),
  ...{ churn: Number(values.churn), sharesChecks: !values['check-all'] },
  dialects: values.dialects.split(',') as SimulationOptions['dialects'],
  limits: { maxConnections: Number(values.connections) },
  document: {
    committee: { size: Number(values.committee) },
    contributors: Number(values.contributors),
    late: values.late,
    foundersPerRound: Number(values['founders-per-round']),
    joinsPerRound: Number(values['joins-per-round']),
  },
  onRound(round) {
    if (values.verbose) tell(JSON.stringify(round));
    if (round.round < Number(values.rounds) - 1) parts?.weigh();
    if (weighed.has(round.round + 1)) snapshots.set(round.round + 1, takeSnapshot());
  },
  onNote: (text) => values.verbose && tell(text),
};

const mean = (list: readonly number[]): number =>
  list.reduce((sum, value) => sum + value, 0) / list.length;

/** What `--json` prints: numbers only. */
const figuresOf = ({ roots, sent, bytesDown, rounds, cpuSeconds }: Played) => ({
  workers: options.workers,
  rounds: options.rounds,
  roots: roots.size,
  bytesSentPerWorkerRound: Math.round(sent.own),
  bytesReceivedPerWorkerRound: Math.round(bytesDown),
  secondsToCertificate: mean(rounds.map(({ secondsToCertificate: [, last] }) => last)),
  cpuSecondsPerRound: cpuSeconds,
  peakRssBytes: process.resourceUsage().maxRSS * 1024,
});

/** What `docs/assets/scale.ndjson` keeps of a run. */
const rowOf = ({ roots, rounds, sent }: Played): ScaleRow => ({
  ...{ workers: options.workers, relays: options.relays, copies: options.copies },
  ...(options.copies > 0 && { reads: true as const }),
  ...{ contributors: Number(values.contributors), seed: options.seed, roots: roots.size },
  ...{ churn: options.churn, ownBytes: Math.round(sent.own) },
  rounds: rounds.map((round) => ({
    accepted: round.accepted,
    bytesDown: Math.round(round.bytesDown),
    toCertificate: round.secondsToCertificate,
    cpuSeconds: round.cpuSeconds,
    heapBytes: round.heapBytes,
  })),
});

const played = await simulate(options);
const profile = await parts?.stop();
for (const failure of played.failures.slice(0, 5)) tell(failure);
if (values.keep) appendFileSync(values.keep, `${JSON.stringify(rowOf(played))}\n`);
if (values.json) console.log(JSON.stringify(figuresOf(played)));
else {
  const { rounds, roots, killed, ...rest } = played;
  if (values.verbose) for (const each of killed) tell(JSON.stringify(each));
  const figures = { ...figuresOf(played), ...rest, root: [...roots] };
  const goodput = { goodput: goodputOf(rounds), goodputBetween: goodputBetween(rounds) };
  console.log(JSON.stringify({ ...figures, ...goodput }, null, 2));
}
if (values.replay) {
  const { ok, lines } = await replayRun({ events: played.events(), beacons: [] });
  const full = lines.filter(({ checked }) => checked === 'full').length;
  tell(`replayed: ${full} of ${lines.length} rounds in full, ${ok ? 'right' : 'wrong'}`);
}
for (const [round, weights] of snapshots) {
  const { byName, ...bytes } = weights();
  tell(JSON.stringify({ round, ...bytes, byName: Object.fromEntries([...byName].slice(0, 20)) }));
}
if (profile) console.error(JSON.stringify(profile, null, 2));
process.exitCode = played.failures.length > 0 || played.roots.size !== 1 ? 1 : 0;
