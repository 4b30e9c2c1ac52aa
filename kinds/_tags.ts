/** The NIP-01 envelope of an event, the text forms of values, and parsers and writers for the tags of a kind. */

/** An event before its author signs it. */
export interface Draft {
  readonly kind: number;
  readonly created_at: number;
  readonly tags: readonly (readonly string[])[];
  readonly content: string;
}

/** Why an event is refused: a stable code, the path of the field, a sentence. */
export interface Issue {
  readonly code: string;
  readonly at: string;
  readonly message: string;
}

/** The result of `Kind.parse`: the value, or why the event is refused. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly issue: Issue };

export const refuse = (code: string, at: string, message: string): { ok: false; issue: Issue } => ({
  ok: false,
  issue: { code, at, message },
});

/** Maximum number of tags of an event. */
const MAX_TAGS = 512;

/** The parts of a NIP-01 event that a kind parses. */
export interface Envelope {
  readonly content: string;
  /** Returns the values of every tag with that name, in order. */
  rowsOf(tag: string): Rows;
}

/** Parses any JSON value as an event of one kind. */
export function openEnvelope(event: unknown, kind: number): Parsed<Envelope> {
  if (!isRecord(event)) return refuse('not-an-event', 'event', 'an event is a JSON object');
  if (event.kind !== kind) return refuse('wrong-kind', 'kind', `the kind is not ${kind}`);
  const { created_at: createdAt, content, tags } = event;
  if (typeof createdAt !== 'number' || !Number.isSafeInteger(createdAt) || createdAt < 0) {
    return refuse('bad-created-at', 'created_at', 'created_at is not a count of seconds');
  }
  if (typeof content !== 'string') return refuse('bad-content', 'content', 'content is not text');
  if (!Array.isArray(tags) || tags.length > MAX_TAGS) {
    return refuse('bad-tags', 'tags', `tags are not a list of at most ${MAX_TAGS}`);
  }
  const rows: readonly unknown[] = tags;
  const bad = rows.findIndex((row) => !isRow(row));
  if (bad >= 0) return refuse('bad-tags', `tags.${bad}`, 'a tag is a list of non-empty texts');
  const byName = new Map<string, string[][]>();
  for (const [tag, ...values] of rows.filter(isRow)) {
    byName.set(tag, [...(byName.get(tag) ?? []), values]);
  }
  return { ok: true, value: { content, rowsOf: (tag) => byName.get(tag) ?? [] } };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isRow = (row: unknown): row is readonly [string, ...string[]] =>
  Array.isArray(row) &&
  row.length > 0 &&
  row.every((item) => typeof item === 'string' && item !== '');

/** The text form of a value in a tag or a JSON member. */
export interface Text<T> {
  /** Description for the generated page and for messages. */
  readonly says: string;
  /** Returns the value, or undefined if the text is not in canonical form. */
  read(text: string): T | undefined;
  write(value: T): string;
}

/** Largest integer in a tag by default: 2^32 - 1. */
const LARGEST = 4_294_967_295;

/** Reports whether all programs hash a text alike: no lone surrogates, only the control characters NIP-01 lists. */
const isHashable = (text: string): boolean =>
  !/\p{Surrogate}/u.test(text) &&
  [...text].every((char) => char >= ' ' || '\b\t\n\f\r'.includes(char));

/** A canonical decimal integer: no sign, no space, no leading zero. */
export const integer = (least: number, most: number = LARGEST): Text<number> => ({
  says: most === LARGEST ? `integer >= ${least}` : `integer ${least}..${most}`,
  read: (text) => {
    if (!/^(?:0|[1-9]\d{0,15})$/.test(text)) return undefined;
    const value = Number(text);
    return value >= least && value <= most ? value : undefined;
  },
  write: (value) => String(value),
});

/** 0 to 2^32 - 1. */
export const index = integer(0);
/** 1 to 2^32 - 1. */
export const count = integer(1);

/** A time in Unix seconds. */
export const seconds: Text<number> = {
  ...integer(1, Number.MAX_SAFE_INTEGER),
  says: 'unix seconds',
};

/** Text of limited length that every JSON writer escapes the same way. */
const text = (longest: number): Text<string> => ({
  says: `text, 1..${longest} characters`,
  read: (value) =>
    value !== '' && value.length <= longest && isHashable(value) ? value : undefined,
  write: (value) => value,
});

/** A name of a run or worker, or a URL. */
export const name = text(256);

/** Free text without leading or trailing spaces; the parser trims it. */
export const word: Text<string> = {
  says: 'text, trimmed',
  read: (value) => name.read(value.trim()),
  write: (value) => value.trim(),
};

/** Text that matches a regular expression; `says` describes it. */
export const pattern = (form: RegExp, says: string): Text<string> => ({
  says,
  read: (value) => (form.test(value) ? value : undefined),
  write: (value) => value,
});

/** What people call a person or a thing: one line that starts and ends with a visible character. */
export const displayName = pattern(
  /^[^\p{C}\p{Z}](?:[^\p{C}]{0,62}[^\p{C}\p{Z}])?$/u,
  'text, 1..64 characters, on one line and trimmed',
);

/** 32 bytes in hex: a digest, a hash or a key. */
export const hex32 = pattern(/^[0-9a-f]{64}$/, '64 lowercase hex digits');

/** Standard base64 with padding. */
export const base64Text: Text<string> = {
  says: 'padded base64',
  read: (value) => (isBase64(value) ? value : undefined),
  write: (value) => value,
};

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** By character code: 0 if it is a letter of base64. */
const FOREIGN = new Uint8Array(128).fill(1);
for (const letter of ALPHABET) FOREIGN[letter.charCodeAt(0)] = 0;

/** Reports whether a text is padded base64. Chunks are large: a regular expression takes three times as long. */
function isBase64(value: string): boolean {
  if (value.length === 0 || value.length % 4 !== 0) return false;
  const end = value.endsWith('==') ? value.length - 2 : value.length - +value.endsWith('=');
  let foreign = 0;
  for (let i = 0; i < end; i++) foreign |= FOREIGN[value.charCodeAt(i)] ?? 1;
  return foreign === 0;
}

/** Returns the number of bytes that a padded base64 text encodes. */
export const base64Bytes = (value: string): number =>
  (value.length / 4) * 3 - (value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0);

export type Presence = 'required' | 'optional' | 'derived';

/** The result of a parser: a value, undefined if the tag is absent, or why the tag is refused. */
export type Read<T> = { readonly value: T | undefined } | { readonly problem: string };

/** Returns the text of another tag of the same event. */
export type Sibling = (tag: string) => string | undefined;

/** One row of values per tag with that name, without the name. */
export type Rows = readonly (readonly string[])[];

/** A tag of a kind: its name, description, parser and writer. */
export interface Tag<T = unknown, P extends Presence = Presence> {
  readonly tag: string;
  readonly presence: P;
  /** Description of the values, for the generated page. */
  readonly form: string;
  readonly doc: string;
  /** Texts with `<tag>` placeholders, the most specific last; only for derived tags and scopes. */
  readonly templates?: readonly string[];
  /** The fixed value of a mark; only for marks. */
  readonly mark?: string;
  read(rows: Rows, sibling: Sibling): Read<T>;
  write(value: T, sibling: Sibling): Rows;
}

/** A tag that must occur once, with one value. */
export const one = <T>(tag: string, text: Text<T>, doc: string): Tag<T, 'required'> => ({
  ...single(tag, text, doc),
  presence: 'required',
});

/** A tag that may occur once, with one value. */
export const optional = <T>(tag: string, text: Text<T>, doc: string): Tag<T, 'optional'> => ({
  ...single(tag, text, doc),
  presence: 'optional',
});

function single<T>(tag: string, text: Text<T>, doc: string): Omit<Tag<T>, 'presence'> {
  return {
    tag,
    form: text.says,
    doc,
    read: (rows) => {
      if (rows.length === 0) return { value: undefined };
      if (rows.length > 1) return { problem: 'occurs more than once' };
      const [row] = rows;
      const value = row?.length === 1 ? text.read(row[0]!) : undefined;
      return value === undefined ? { problem: `is not ${text.says}` } : { value };
    },
    write: (value) => [[text.write(value)]],
  };
}

/** A tag that may occur several times with one value each; repeated values are dropped, the order is kept. */
export const many = <T>(
  tag: string,
  text: Text<T>,
  doc: string,
  most = 64,
): Tag<readonly T[], 'optional'> => ({
  tag,
  presence: 'optional',
  form: `${text.says}; repeatable`,
  doc,
  read: (rows) => {
    if (rows.length === 0) return { value: undefined };
    if (rows.length > most) return { problem: `occurs more than ${most} times` };
    const values = rows.map((row) => (row.length === 1 ? text.read(row[0]!) : undefined));
    const read = values.filter((value) => value !== undefined);
    return read.length < rows.length
      ? { problem: `is not ${text.says}` }
      : { value: [...new Set(read)] };
  },
  write: (values) => [...new Set(values.map((value) => text.write(value)))].map((value) => [value]),
});

/** A tag that may occur once, with any number of values; they must be distinct unless `mayRepeat` is set. */
export const list = <T>(
  tag: string,
  text: Text<T>,
  doc: string,
  most = 1024,
  mayRepeat = false,
): Tag<readonly T[], 'optional'> => ({
  tag,
  presence: 'optional',
  form: `any number of: ${text.says}`,
  doc,
  read: (rows) => {
    const [row] = rows;
    if (row === undefined) return { value: undefined };
    if (rows.length > 1) return { problem: 'occurs more than once' };
    const read = row.map((value) => text.read(value)).filter((value) => value !== undefined);
    const distinct = mayRepeat ? read.length : new Set(read).size;
    if (row.length > most || distinct < row.length) {
      const words = mayRepeat ? '' : ', without repeats';
      return { problem: `is not a list of at most ${most}, each ${text.says}${words}` };
    }
    return { value: read };
  },
  write: (values) => [values.map((value) => text.write(value))],
});

/** A tag that has one fixed value or is absent. */
export const flag = (tag: string, mark: string, doc: string): Tag<true, 'optional'> => ({
  tag,
  presence: 'optional',
  form: `\`${mark}\``,
  doc,
  read: (rows) => {
    if (rows.length === 0) return { value: undefined };
    return rows.length === 1 && rows[0]!.join() === mark
      ? { value: true }
      : { problem: `is not "${mark}"` };
  },
  write: () => [[mark]],
});

/** The mark of this application; of several tags with that name the last one counts. */
const marker = (tag: string, mark: string, doc: string): Tag<true, 'derived'> => ({
  tag,
  presence: 'derived',
  form: `\`${mark}\``,
  doc,
  mark,
  read: (rows) => (rows.at(-1)?.[0] === mark ? { value: true } : { problem: `is not "${mark}"` }),
  write: () => [[mark]],
});

/** A tag derived from other tags: the last template whose placeholders can all be filled. */
export const derived = (
  tag: string,
  doc: string,
  ...templates: readonly string[]
): Tag<true, 'derived'> => ({
  tag,
  presence: 'derived',
  form: templates.map((template) => `\`${template}\``).join(' or '),
  doc,
  templates,
  read: (rows, sibling) => {
    const expected = lastFilled(templates, sibling);
    return rows.length === 1 && rows[0]!.length === 1 && rows[0]![0] === expected
      ? { value: true }
      : { problem: `is not "${expected}"` };
  },
  write: (_, sibling) => [[lastFilled(templates, sibling)]],
});

/** The address of an event. */
export const address = (doc: string, ...templates: readonly string[]): Tag<true, 'derived'> =>
  derived('d', doc, ...templates);

const lastFilled = (templates: readonly string[], sibling: Sibling): string =>
  templates.map((template) => fill(template, sibling)).findLast((made) => made !== undefined) ?? '';

/** Index tags that name what the event belongs to: all of the templates, or none. */
export const scope = (doc: string, ...templates: readonly string[]): Tag<true, 'optional'> => ({
  tag: 's',
  presence: 'optional',
  form: templates.map((template) => `\`${template}\``).join(' and '),
  doc,
  templates,
  read: (rows, sibling) => {
    if (rows.length === 0) return { value: undefined };
    const expected = templates.map((template) => fill(template, sibling));
    return rows.length === expected.length && rows.every((row, i) => sole(row) === expected[i])
      ? { value: true }
      : { problem: `is not ${expected.join(' and ')}` };
  },
  write: (_, sibling) => templates.map((template) => [fill(template, sibling) ?? '']),
});

/** A tag that repeats part of the content, for relays to index; a rule compares them. Filters use the first value. */
export const repeats = (
  tag: string,
  form: string,
  doc: string,
): Tag<readonly string[], 'required'> => ({
  tag,
  presence: 'required',
  form,
  doc,
  templates: [`<${tag}>`],
  read: (rows) => {
    const values = rows.map(sole).filter((value) => value !== undefined);
    return values.length < rows.length
      ? { problem: 'must have one value each' }
      : { value: values };
  },
  write: (values) => values.map((value) => [value]),
});

const sole = (row: readonly string[]): string | undefined =>
  row.length === 1 ? row[0] : undefined;

/** Fills the placeholders of a template; undefined if one is unknown. `<x:16>` stands for 16 characters of x. */
export function fill(template: string, sibling: Sibling): string | undefined {
  let known = true;
  const made = template.replace(/<([a-z-]+)(?::(\d+))?>/g, (_, tag: string, most?: string) => {
    const value = sibling(tag);
    if (value === undefined) known = false;
    return value?.slice(0, most === undefined ? undefined : Number(most)) ?? '';
  });
  return known ? made : undefined;
}

/** Tags that most kinds declare. */
export const run = one('run', name, 'name of the run');
export const worker = one('worker', name, 'the sender: the public key that signs the event');
export const nostrain = marker('t', 'nostrain', 'mark of this protocol; the last `t` counts');
export const expiration = one('expiration', seconds, 'when relays may delete the event (NIP-40)');
