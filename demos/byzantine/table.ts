/**
 * The result table of the attack lab (`nostrain demo byzantine`): one row per attack and defence over all seeds, as
 * text, JSON or SVG. Also stores results in a file, so that a later call reuses them.
 */

import { readFile } from 'node:fs/promises';
import { ConfigError } from 'nostrain';
import { utf8 } from '../../src/base/bytes.ts';
import { jsonIn } from '../../src/base/canonical-json.ts';
import { formatLoss } from '../../src/base/numbers.ts';
import { type Guard, isCount, isNumber, isText, optional, shape } from '../../src/base/shape.ts';
import { writeAtomically } from '../../src/node/files/atomic-file.ts';
import { bar } from '../../src/terminal/render/forecast.ts';
import { alignColumns } from '../../src/terminal/render/text.ts';
import type { Adversary } from './adversaries.ts';
import type { Defence } from './defences.ts';

interface LabRow {
  readonly attack: string;
  readonly rule: string;
  /** Loss of the shared parameters after the last round; null if training diverged. */
  readonly loss: number | null;
  /** Final loss minus that of the run without an attack. */
  readonly penalty: number | null;
  /** Largest minus smallest penalty over several seeds. */
  readonly spread?: number;
  /** Backdoor: share of triggers that the model answers. */
  readonly answers?: number;
  /** Number of payloads that could not be decoded. */
  readonly refused?: number;
}

export interface LabDocument {
  /** Final loss if all workers are honest, with the plain mean. */
  readonly attackFree: number;
  readonly table: readonly LabRow[];
  readonly wallSeconds: number;
}

export type Pairing = readonly [Adversary, Defence];

export interface SeedLosses {
  /** Final loss if all workers are honest. */
  readonly free: number;
  readonly results: readonly BattleResult[];
}

export const tableOf = (
  fights: readonly Pairing[],
  seeds: readonly SeedLosses[],
): Pick<LabDocument, 'attackFree' | 'table'> => ({
  attackFree: mean(seeds.map(({ free }) => free)),
  table: fights.map(([{ name: attack }, { name: rule }], i): LabRow => {
    const results = seeds.map(({ results }) => results[i]!);
    const losses = results.flatMap(({ loss }) => (loss === null ? [] : [loss]));
    if (losses.length < seeds.length) return { attack, rule, loss: null, penalty: null };
    const penalties = losses.map((loss, k) => loss - seeds[k]!.free);
    const answers = results.flatMap((each) => each.answers ?? []);
    const refused = results.reduce((sum, each) => sum + (each.refused ?? 0), 0);
    return {
      attack,
      rule,
      loss: mean(losses),
      penalty: mean(penalties),
      ...(seeds.length > 1 && { spread: Math.max(...penalties) - Math.min(...penalties) }),
      ...(answers.length > 0 && { answers: mean(answers) }),
      ...(refused > 0 && { refused }),
    };
  }),
});

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

const BAR = 24;
/** Penalty at which the bar is full. */
const MUCH = 1;

const signed = (value: number | null): string =>
  value === null ? 'diverged' : `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`;

/** Returns one line per row, with a bar for the penalty. */
export function describeRows({ attackFree, table }: LabDocument): readonly string[] {
  const rows = table.map((row) => [
    row.attack,
    row.rule,
    row.loss === null ? '-' : formatLoss(row.loss),
    signed(row.penalty) + (row.spread === undefined ? '' : ` ± ${(row.spread / 2).toFixed(3)}`),
    bar(row.penalty === null ? 1 : row.penalty / MUCH, BAR),
    [
      ...(row.answers === undefined
        ? []
        : [`answers its trigger in ${Math.round(100 * row.answers)} %`]),
      ...(row.refused ? [`${row.refused} payloads refused`] : []),
    ].join(', '),
  ]);
  const head = ['attack', 'rule', 'loss', 'costs', '', ''];
  return [
    `without an attack: loss ${formatLoss(attackFree)}`,
    ...alignColumns([head, ...rows], 110),
  ];
}

const CELL = { width: 64, height: 22 };
const LEFT = 150;
const TOP = 130;
const FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

/** Returns the table as SVG: attacks in rows, defences in columns; red means a large penalty. */
export function drawTable({ attackFree, table }: LabDocument): string {
  const attacks = [...new Set(table.map(({ attack }) => attack))];
  const rules = [...new Set(table.map(({ rule }) => rule))];
  const width = LEFT + rules.length * CELL.width + 70;
  const height = TOP + attacks.length * CELL.height + 34;
  const cells = table.map((row) => {
    const x = LEFT + rules.indexOf(row.rule) * CELL.width;
    const y = TOP + attacks.indexOf(row.attack) * CELL.height;
    const size = `width="${CELL.width - 2}" height="${CELL.height - 2}"`;
    const box = `<rect x="${x}" y="${y}" ${size} fill="${colorOf(row.penalty)}"/>`;
    const words = row.penalty === null ? '∞' : signed(row.penalty);
    const middle = `x="${x + CELL.width / 2 - 1}" y="${y + 15}" text-anchor="middle"`;
    return `${box}<text ${middle}>${words}</text>`;
  });
  const heads = rules.map((rule, i) => {
    const x = LEFT + i * CELL.width + CELL.width / 2;
    return `<text x="${x}" y="${TOP - 8}" transform="rotate(-40 ${x} ${TOP - 8})">${rule}</text>`;
  });
  const names = attacks.map(
    (attack, i) =>
      `<text x="${LEFT - 8}" y="${TOP + i * CELL.height + 15}" text-anchor="end">${attack}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"`,
    `  viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="12">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    ...heads,
    ...names,
    ...cells,
    `<text x="8" y="${height - 10}">final validation loss minus`,
    `the loss without an attack (${formatLoss(attackFree)})</text>`,
    '</svg>\n',
  ].join('\n');
}

function colorOf(penalty: number | null): string {
  const share = penalty === null ? 1 : Math.min(1, Math.max(0, penalty) / MUCH);
  return `hsl(${Math.round(120 * (1 - Math.sqrt(share)))} 70% 78%)`;
}

export interface BattleResult {
  /** Null if training diverged. */
  readonly loss: number | null;
  /** Backdoor: share of triggers that the model answers. */
  readonly answers?: number;
  /** Number of payloads that could not be decoded. */
  readonly refused?: number;
}

/** Everything that determines the result of a battle. */
export interface BattleName {
  readonly corpus: string;
  readonly form: string;
  readonly hostile: string;
  readonly rounds: number;
  readonly innerSteps: number;
  readonly seed: number;
  readonly attack: string;
  readonly rule: string;
}

const keyOf = ({ corpus, form, hostile, rounds, innerSteps, seed, ...fight }: BattleName) =>
  [corpus, form, hostile, rounds, innerSteps, seed, fight.attack, fight.rule].join(' ');

type Kept = BattleName & BattleResult;

const MOST_CHARACTERS = 64 << 20;

export class KeptBattles {
  readonly #file: string | undefined;
  readonly #kept: Map<string, Kept>;

  private constructor(file: string | undefined, kept: readonly Kept[]) {
    this.#file = file;
    this.#kept = new Map(kept.map((each) => [keyOf(each), each]));
  }

  /** Opens stored results. Throws a ConfigError (`lab/kept`) if the file has other content. */
  static async open(file: string | undefined): Promise<KeptBattles> {
    if (file === undefined) return new KeptBattles(undefined, []);
    const text = await readFile(file, 'utf8').catch(() => '');
    const lines = text.length > MOST_CHARACTERS ? [text.slice(0, 1)] : text.split('\n');
    const kept = lines.flatMap((line, i) => (line === '' ? [] : [readLine(line, i, file)]));
    return new KeptBattles(file, kept);
  }

  /** Returns the stored result, or plays the battle and stores its result. */
  async take(name: BattleName, play: () => Promise<BattleResult>): Promise<BattleResult> {
    const known = this.#kept.get(keyOf(name));
    if (known !== undefined) return known;
    const result = await play();
    this.#kept.set(keyOf(name), { ...name, ...result });
    if (this.#file !== undefined) {
      const lines = [...this.#kept.values()].map((each) => `${JSON.stringify(each)}\n`);
      await writeAtomically(this.#file, utf8(lines.join('')));
    }
    return result;
  }
}

const isKept = shape({
  corpus: isText,
  form: isText,
  hostile: isText,
  rounds: isCount,
  innerSteps: isCount,
  seed: isCount,
  attack: isText,
  rule: isText,
  loss: (value): value is number | null => value === null || isNumber(value),
  answers: optional(isNumber),
  refused: optional(isNumber),
}) as Guard<Kept>;

function readLine(line: string, at: number, file: string): Kept {
  const read = jsonIn(line);
  if (isKept(read)) return read;
  throw new ConfigError('lab/kept', `line ${at + 1} of ${file} is not a battle`, {
    hint: 'name a file that --keep wrote, or a new one',
  });
}
