/** Battles of the attack lab in a file, one JSON object a line, saved as each ends: a table that is cut off goes on where it was. */
import { readFile } from 'node:fs/promises';
import { utf8 } from '../../src/base/bytes.ts';
import { type Json, parseJson } from '../../src/base/canonical-json.ts';
import { ConfigError } from '../../src/base/errors.ts';
import { writeWhole } from '../../src/node/files/whole-file.ts';
import { JsonReader } from '../../src/run/json-reader.ts';

/** What one battle ended with. */
export interface Result {
  /** Null where training broke off. */
  readonly loss: number | null;
  /** Backdoor: how often the model answers its trigger, of 1. */
  readonly answers?: number;
  /** Payloads that were refused unread. */
  readonly refused?: number;
}

/** Its place in the file: whatever decides how it ends. */
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

const nameOf = (name: BattleName): string =>
  [
    name.corpus,
    name.form,
    name.hostile,
    name.rounds,
    name.innerSteps,
    name.seed,
    name.attack,
    name.rule,
  ].join(' ');

type Kept = BattleName & Result;

const MOST_CHARACTERS = 64 << 20;
const MOST = 2 ** 32;

export class KeptBattles {
  readonly #file: string | undefined;
  readonly #kept: Map<string, Kept>;

  private constructor(file: string | undefined, kept: readonly Kept[]) {
    this.#file = file;
    this.#kept = new Map(kept.map((each) => [nameOf(each), each]));
  }

  /** Throws a `ConfigError` where the file holds something else. */
  static async open(file: string | undefined): Promise<KeptBattles> {
    if (file === undefined) return new KeptBattles(undefined, []);
    const text = await readFile(file, 'utf8').catch(() => '');
    const lines = text.length > MOST_CHARACTERS ? [text.slice(0, 1)] : text.split('\n');
    const kept = lines.flatMap((line, i) => (line === '' ? [] : [readLine(line, i, file)]));
    return new KeptBattles(file, kept);
  }

  /** What is known of it, or what playing it gives, which is kept. */
  async take(name: BattleName, play: () => Promise<Result>): Promise<Result> {
    const known = this.#kept.get(nameOf(name));
    if (known !== undefined) return known;
    const result = await play();
    this.#kept.set(nameOf(name), { ...name, ...result });
    if (this.#file !== undefined) {
      const lines = [...this.#kept.values()].map((each) => `${JSON.stringify(each)}\n`);
      await writeWhole(this.#file, utf8(lines.join('')));
    }
    return result;
  }
}

function readLine(line: string, at: number, file: string): Kept {
  const parsed = parseJson(line);
  const reader = new JsonReader(parsed.ok ? parsed.value : null);
  const text = (key: string) => reader.text(key, ({ length }) => length > 0 && length <= 100);
  const optional = (key: 'answers' | 'refused') => {
    const value = reader.take(key, (one) => (one === undefined ? null : numberOf(one)), null);
    return value === null ? {} : { [key]: value };
  };
  const read: Kept = {
    corpus: text('corpus'),
    form: text('form'),
    hostile: text('hostile'),
    rounds: reader.integer('rounds', MOST),
    innerSteps: reader.integer('innerSteps', MOST),
    seed: reader.integer('seed', MOST),
    attack: text('attack'),
    rule: text('rule'),
    loss: reader.take('loss', (one) => (one === null ? null : numberOf(one)), null),
    ...optional('answers'),
    ...optional('refused'),
  };
  if (reader.problem === undefined) return read;
  throw new ConfigError('lab/kept', `line ${at + 1} of ${file} is no battle (${reader.problem})`, {
    hint: 'give --keep a file that it wrote, or one that is not there yet',
  });
}

const numberOf = (value: Json | undefined) =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
