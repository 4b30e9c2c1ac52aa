/** `nostrain demo byzantine`: measures what attacks cost against aggregation rules, in loss above an honest run. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, TrainingError } from 'nostrain';
import { loadCorpus } from 'nostrain/node';
import { withScope } from '../../src/base/async.ts';
import { toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/hash.ts';
import { whileSlow } from '../../src/base/slow.ts';
import { dataHome } from '../../src/node/files/data-home.ts';
import { interruptibly } from '../../src/terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../src/terminal/output.ts';
import type { DemoFlags } from '../shared/stage.ts';
import { type Adversary, adversaries } from './adversaries.ts';
import { type BattlePlan, type Fight, fight } from './battle.ts';
import { type CampOptions, type GptCamp, openCamp } from './camp.ts';
import { type Defence, defencesFor, plainMean, screenOf } from './defences.ts';
import {
  type BattleResult,
  describeRows,
  drawTable,
  KeptBattles,
  type LabDocument,
  type Pairing,
  type SeedLosses,
  tableOf,
} from './table.ts';

const USUAL = { rounds: 10, innerSteps: 12 };
const QUICK = { rounds: 3, innerSteps: 5 };
const NORM_BOUND = 1.5;

export const runAttackLab = (flags: DemoFlags): Promise<number> =>
  interruptibly(async (signal) => {
    const startedMs = Date.now();
    const { index: hostile, count: workers } = flags.hostile ?? { index: 2, count: 8 };
    const fights = fightsOf(flags, workers, hostile);
    const kept = await KeptBattles.open(flags.keep);
    const { bytes: corpus } = await loadCorpus({
      file: flags.corpus,
      cacheDir: join(dataHome(), 'corpora'),
      allowDownload: true,
      onNotice: writeNote,
      signal,
    });
    const usual = flags.quick ? QUICK : USUAL;
    const { rounds = usual.rounds, innerSteps = usual.innerSteps, seeds = 1 } = flags;
    const form = flags.skewed ? 'contiguous' : 'interleaved';
    const lab = { corpus, workers, hostile, form, rounds, innerSteps } as const;
    const losses: SeedLosses[] = [];
    for (let seed = flags.seed; seed < flags.seed + seeds; seed++) {
      losses.push(await playSeed({ ...lab, seed }, fights, kept, signal));
    }
    const wallSeconds = (Date.now() - startedMs) / 1000;
    const document: LabDocument = { ...tableOf(fights, losses), wallSeconds };
    if (flags.picture !== undefined) await writeFile(flags.picture, drawTable(document));
    writeOut(flags.json ? asJson(document) : `${describeRows(document).join('\n')}\n`);
    return 0;
  });

/** Returns the attacks and rules that the flags choose. Throws a ConfigError (`lab/…`) that lists all of them. */
function fightsOf(
  { attack, rule, table }: DemoFlags,
  workers: number,
  hostile: number,
): readonly Pairing[] {
  if (hostile < 1 || hostile >= workers) {
    throw new ConfigError('lab/hostile', `${hostile} of ${workers} leave no honest worker`, {
      hint: 'use fewer, such as --hostile 2/8, or 5/9 for strangers who outnumber the founders',
    });
  }
  const defences = defencesFor(workers, hostile);
  const attacks =
    attack === undefined && table
      ? adversaries
      : [named(adversaries, attack ?? 'sign-flip', '--attack')];
  const chosen =
    rule === undefined && table ? defences : [named(defences, rule ?? 'clipped-mean', '--rule')];
  return attacks.flatMap((each) => chosen.map((defence) => [each, defence] as const));
}

function named<T extends { readonly name: string }>(
  all: readonly T[],
  name: string,
  flag: string,
): T {
  const match = all.find((each) => each.name === name);
  if (match !== undefined) return match;
  const message = `${flag} is ${name}, which is unknown or needs more workers`;
  const hint = `choose one of ${all.map((each) => each.name).join(', ')}`;
  throw new ConfigError('lab/unknown', message, { hint });
}

/** Plays the run without an attack and every fight with one seed, except those in the --keep file. */
const playSeed = (
  lab: CampOptions,
  fights: readonly Pairing[],
  kept: KeptBattles,
  signal: AbortSignal,
): Promise<SeedLosses> =>
  withScope(async (scope) => {
    const { corpus, workers, hostile, ...extent } = lab;
    const plan: BattlePlan = { ...extent, normBound: NORM_BOUND, hostile, signal };
    let opened: Promise<GptCamp> | undefined;
    const digest = toHex(sha256(corpus));
    const take = (adversary: Adversary | undefined, defence: Defence) => {
      const pairing = { attack: adversary?.name ?? 'none', rule: defence.name };
      const name = { corpus: digest, ...extent, hostile: `${hostile}/${workers}`, ...pairing };
      return kept.take(name, async () => {
        // trainers are opened by the first battle that --keep does not have
        opened ??= whileSlow('opening the trainers', writeNote, () => openCamp(lab, scope));
        const camp = await opened;
        const members = { trainers: camp.trainers, hostile, seed: lab.seed };
        const screen = defence.screens ? screenOf(members) : undefined;
        return whileSlow(`${pairing.attack} against ${pairing.rule}`, writeNote, () =>
          resultOf(camp, plan, { adversary, defence, screen }),
        );
      });
    };
    const { loss: free } = await take(undefined, plainMean);
    if (free === null) {
      throw new TrainingError('lab/free', 'the run without an attack diverges', {
        hint: 'use another --seed, or fewer --inner-steps',
      });
    }
    const results: BattleResult[] = [];
    for (const [adversary, defence] of fights) {
      const result = await take(adversary, defence);
      results.push(result);
      const penalty = result.loss === null ? 'diverged' : (result.loss - free).toFixed(3);
      writeNote(`${adversary.name} against ${defence.name}: ${penalty}`);
    }
    return { free, results };
  });

async function resultOf(camp: GptCamp, plan: BattlePlan, chosen: Fight): Promise<BattleResult> {
  const ending = await fight(camp, plan, chosen).catch((error: unknown) => {
    if (error instanceof TrainingError) return undefined;
    throw error;
  });
  if (ending === undefined || !Number.isFinite(ending.loss)) return { loss: null };
  const { loss, refused, params } = ending;
  return {
    loss,
    ...(chosen.adversary?.name === 'backdoor' && { answers: await camp.answers(params) }),
    ...(refused > 0 && { refused }),
  };
}
