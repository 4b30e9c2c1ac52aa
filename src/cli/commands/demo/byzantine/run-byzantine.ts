/**
 * `nostrain demo byzantine`: the attack lab. One attack against one rule, or tables of them: what each costs, as the final loss minus that of a
 * run in which everybody is honest.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, TrainingError } from '../../../../base/errors.ts';
import { type Scope, withScope } from '../../../../base/scope.ts';
import { loadCorpus } from '../../../../node/corpus.ts';
import { dataHome } from '../../../../node/data-home.ts';
import { onInterrupt } from '../../../../terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../../../terminal/output.ts';
import type { Adversary } from './adversaries/adversary.ts';
import { adversaries } from './adversaries/table.ts';
import { type BattlePlan, type Fight, fight } from './battle.ts';
import { type GptCamp, openCamp } from './camp.ts';
import { type Defence, defencesFor } from './defences.ts';
import { screenOf } from './screening.ts';
import { describeRows, drawTable, type LabDocument, type LabRow } from './words.ts';

export interface LabFlags {
  readonly attack?: string;
  /** `2/8` */
  readonly hostile?: { readonly index: number; readonly count: number };
  readonly rule?: string;
  readonly table?: boolean;
  readonly skewed?: boolean;
  readonly picture?: string;
  readonly rounds?: number;
  readonly innerSteps?: number;
  readonly seed: number;
  readonly corpus?: string;
  readonly quick?: boolean;
  readonly json?: boolean;
}

/** Where a run is not told how much. */
const USUAL = { rounds: 10, innerSteps: 12 };
const QUICK = { rounds: 3, innerSteps: 5 };
const NORM_BOUND = 1.5;

/** Returns the exit code. */
export const runAttackLab = (flags: LabFlags): Promise<number> =>
  withScope(async (scope) => {
    const startedMs = Date.now();
    const interrupt = onInterrupt();
    scope.defer(interrupt.dispose);
    const { index: hostile, count: workers } = flags.hostile ?? { index: 2, count: 8 };
    const extent = { ...(flags.quick ? QUICK : USUAL), ...given(flags) };
    const plan: BattlePlan = {
      ...{ ...extent, hostile, seed: flags.seed, signal: interrupt.signal },
      ...{ packing: 'int4', normBound: NORM_BOUND },
    };
    const fights = fightsOf(flags, workers, hostile);
    const camp = await openLab(flags, plan, workers, scope);
    const [plain] = defencesFor(workers, hostile).filter(({ name }) => name === 'mean');
    const free = await fight(camp, plan, { adversary: undefined, defence: plain! });
    const screen = screenOf({ trainers: camp.trainers, hostile, seed: flags.seed });
    const table: LabRow[] = [];
    for (const [adversary, defence] of fights) {
      const chosen = { adversary, defence, screen: defence.screens ? screen : undefined };
      const row = await rowOf(camp, plan, chosen, free.loss);
      table.push(row);
      writeNote(
        `${adversary.name} against ${defence.name}: ${row.penalty?.toFixed(3) ?? 'broke off'}`,
      );
    }
    const wallSeconds = (Date.now() - startedMs) / 1000;
    await tell({ attackFree: free.loss, table, wallSeconds }, flags);
    return 0;
  });

const given = ({ rounds, innerSteps }: LabFlags) => ({
  ...(rounds !== undefined && { rounds }),
  ...(innerSteps !== undefined && { innerSteps }),
});

/** What is set against what. Throws a `ConfigError` that names what there is. */
function fightsOf(
  { attack, rule, table }: LabFlags,
  workers: number,
  hostile: number,
): readonly (readonly [Adversary, Defence])[] {
  if (hostile < 1 || 2 * hostile >= workers) {
    throw new ConfigError('lab/hostile', `${hostile} of ${workers} leave no honest majority`, {
      hint: 'give fewer than half, such as --hostile 2/8',
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
  const found = all.find((each) => each.name === name);
  if (found !== undefined) return found;
  throw new ConfigError(
    'lab/unknown',
    `${flag} is ${name}, which there is not with so many workers`,
    {
      hint: `there are ${all.map((each) => each.name).join(', ')}`,
    },
  );
}

async function openLab(
  { corpus: file, seed, skewed }: LabFlags,
  { hostile, rounds, innerSteps, signal }: BattlePlan,
  workers: number,
  scope: Scope,
): Promise<GptCamp> {
  const corpus = await loadCorpus({
    ...(file === undefined ? {} : { file }),
    ...{ cacheDir: join(dataHome(), 'corpora'), allowDownload: true, onNotice: writeNote, signal },
  });
  const form = skewed ? 'contiguous' : 'interleaved';
  return openCamp(
    { corpus: corpus.bytes, workers, hostile, rounds, innerSteps, seed, form },
    scope,
  );
}

/** A run that ends in no numbers has no loss. */
async function rowOf(
  camp: GptCamp,
  plan: BattlePlan,
  chosen: Fight & { readonly adversary: Adversary },
  free: number,
): Promise<LabRow> {
  const { adversary, defence } = chosen;
  const said = { attack: adversary.name, rule: defence.name };
  const ending = await fight(camp, plan, chosen).catch((error: unknown) => {
    if (error instanceof TrainingError) return undefined;
    throw error;
  });
  if (ending === undefined || !Number.isFinite(ending.loss)) {
    return { ...said, loss: null, penalty: null };
  }
  const { loss, refused, params } = ending;
  const isBackdoor = adversary.name === 'backdoor';
  return {
    ...{ ...said, loss, penalty: loss - free },
    ...(isBackdoor && { answers: await camp.answers(params) }),
    ...(refused > 0 && { refused }),
  };
}

async function tell(document: LabDocument, { json, picture }: LabFlags): Promise<void> {
  if (picture !== undefined) await writeFile(picture, drawTable(document));
  writeOut(json ? asJson(document) : `${describeRows(document).join('\n')}\n`);
}
