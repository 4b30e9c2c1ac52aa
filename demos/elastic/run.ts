/** `nostrain demo elastic`: workers of several tiers train one model; control runs without tiers follow. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunSpec } from 'nostrain';
import { createRelay } from 'nostrain/relay';
import type { FaultSettings } from '../../relay/faults/settings.ts';
import type { Untyped } from '../../src/base/shape.ts';
import { settingsFromFile } from '../../src/terminal/options.ts';
import { patientRules, replayKept } from '../shared/certified.ts';
import { demoText } from '../shared/data.ts';
import { playRun } from '../shared/play.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import type { Exit } from '../shared/swarm.ts';
import { controlOf, type ElasticDocument, elasticRunOf } from './document.ts';
import { lineFaults } from './flags.ts';

const TIERS = [0, 0, 1, 2];
const TIER_NAMES = ['whole', 'half', 'quarter', 'eighth'];
const USUAL = { rounds: 8, innerSteps: 25 };
const QUICK = { rounds: 3, innerSteps: 10 };

/** Runs the demo. Returns exit code 0 if every worker finished and all agree on the slices they share. */
export async function runElasticDemo(flags: DemoFlags): Promise<number> {
  const { tiers = TIERS } = flags;
  const workers = tiers.map((tier, i) => `${TIER_NAMES[tier] ?? `tier-${tier}`}-${i + 1}`);
  return await onStage(flags, { name: 'elastic', workers }, async (stage) => {
    const data = await demoText(stage);
    const faults = lineFaults(flags);
    const relays = await startRelays(faults, stage);
    const settings = await settingsFor(flags, Math.max(...tiers));
    const play = async (run: string, chosen: readonly number[], rules?: Untyped) => {
      const startedMs = Date.now();
      const dir = join(stage.dir, run);
      await mkdir(dir, { recursive: true });
      const names = workers.slice(0, chosen.length);
      const cut = { tiers: chosen, shards: tiers.length };
      const plan = { name: 'elastic', run, dir, names, settings, relays, corpus: data.file };
      const report = run === 'tiers' ? stage.report : () => undefined;
      const ended = await playRun(stage, { ...plan, rules, ...cut }, report);
      const wallSeconds = (Date.now() - startedMs) / 1000;
      const end = { names, wallSeconds, corpus: data, rounds: settings.rounds };
      return { ...ended, played: elasticRunOf(ended.log, chosen, settings.innerSteps, end) };
    };
    const rules = flags.certified ? rulesFor(tiers) : undefined;
    const { log, exits, spec, played } = await play('tiers', tiers, rules);
    const compare = async (name: string, count: number) => {
      const isOver = exits.some(({ code }) => code !== 0) || stage.signal.aborted;
      if (flags.controls === false || isOver) return null;
      const who = count === 1 ? 'one worker' : `${count} workers`;
      stage.onNotice(`control run: ${who} of the full model`);
      return controlOf((await play(name, Array(count).fill(0))).played);
    };
    const alone = await compare('alone', 1);
    const full = await compare('whole', tiers.length);
    const [end] = log.rounds.get(settings.rounds - 1)?.values() ?? [];
    const last = controlOf(played).validationLoss;
    const base = alone?.validationLoss ?? null;
    const document = {
      ...played,
      alone,
      whole: full,
      aboveAlone: last === null || base === null ? null : last / base,
      replay: spec && played.agreed ? await replayed(spec, relays, stage, end!.digest) : null,
      faults: faults ?? null,
    };
    return printVerdict(document, exits, stage);
  });
}

async function settingsFor(flags: DemoFlags, tiers: number) {
  const { rounds, innerSteps } = flags.quick ? QUICK : USUAL;
  return {
    ...(flags.settings === undefined ? {} : await settingsFromFile(flags.settings)),
    model: 'char-gpt',
    heartbeatInterval: 10,
    rounds: flags.rounds ?? rounds,
    innerSteps: flags.innerSteps ?? innerSteps,
    seed: flags.seed,
    tiers,
  } as const;
}

/** Starts the relays. A lossy relay gets a second one without loss, since a strict round waits for every event. */
async function startRelays(
  faults: FaultSettings = {},
  { flags, scope }: Stage,
): Promise<readonly string[]> {
  const { drop, ...others } = faults;
  const urls: string[] = [];
  for (const each of drop === undefined ? [faults] : [faults, others]) {
    const relay = await createRelay({ seed: flags.seed, faults: each });
    scope.defer(() => relay.close());
    urls.push(relay.url);
  }
  return urls;
}

const rulesFor = (tiers: readonly number[]): Untyped => ({
  ...patientRules,
  tiers: Math.max(...tiers),
  joinsPerRound: tiers.length,
  data: { shards: tiers.length },
});

/** Recomputes the run from its events on the relays. */
async function replayed(
  spec: RunSpec,
  relays: readonly string[],
  stage: Stage,
  modelRoot: string,
): Promise<ElasticDocument['replay']> {
  const { report, eventsFile } = await replayKept(spec, relays, stage);
  const isFull = report.lines.every(({ checked }) => checked === 'full');
  const { ok, rounds, modelRoot: recomputed } = report;
  return {
    ok: ok && isFull && recomputed === modelRoot,
    rounds,
    modelRoot: recomputed,
    eventsFile,
  };
}

const fixed = (value: number | null | undefined, digits: number): string =>
  value === null || value === undefined || Number.isNaN(value) ? '–' : value.toFixed(digits);

type Cost = Pick<ElasticDocument['workers'][number], 'secondsPerStep' | 'peakBytes'>;

const costWords = ({ secondsPerStep, peakBytes }: Cost): string => {
  const memory = peakBytes === null ? '–' : `${Math.round(peakBytes / 2 ** 20)} MiB`;
  return `${fixed(secondsPerStep, 3)} s a step, ${memory}`;
};

function printVerdict(document: ElasticDocument, exits: readonly Exit[], stage: Stage): number {
  const { say } = stage;
  const failed = stage.end(document, exits);
  const { workers, alone, whole: full, aboveAlone, replay, agreed } = document;
  for (const { tier, validationLosses } of document.tiers) {
    const members = workers.filter((worker) => worker.tier === tier);
    const { width, share } = members[0]!;
    const losses = `${fixed(validationLosses[0], 3)} -> ${fixed(validationLosses.at(-1), 3)}`;
    const size = `width ${width}, ${fixed(100 * share, 1)} % of the parameters`;
    const who = `tier ${tier}, ${members.length} of ${workers.length} workers`;
    say(`${who}: ${size}; loss ${losses}; ${costWords(members[0]!)}`);
  }
  const controls = [
    ['one worker with the full model', alone],
    ['the same number of workers with the full model', full],
  ] as const;
  for (const [who, control] of controls) {
    if (control) say(`${who}: loss ${fixed(control.validationLoss, 3)}, ${costWords(control)}`);
  }
  if (aboveAlone !== null) {
    const percent = 100 * (aboveAlone - 1);
    const where = percent > 0 ? 'above' : 'below';
    const distance = fixed(Math.abs(percent), 1);
    say(`full model trained with tiers: ${distance} % ${where} the loss of the single worker`);
  }
  if (replay?.ok) {
    const root = `${replay.modelRoot.slice(0, 16)}…`;
    const replayCommand = `nostrain replay --events ${replay.eventsFile}`;
    say(`a replay of ${replay.rounds} rounds gives the same model root, ${root}: ${replayCommand}`);
  } else if (replay) {
    say(`the run does NOT replay from ${replay.eventsFile}`);
  }
  const isStopped = exits.some(({ stopped }) => stopped);
  if (!agreed || failed || isStopped || replay?.ok === false) {
    return stage.endWithoutAgreement(exits);
  }
  say('all workers have the same bits in the slices that they share');
  return 0;
}
