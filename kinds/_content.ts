/** Content formats of events: empty, base64, JSON. Checks form and size; payloads are validated by their decoders. */
import type { Read } from './_tags.ts';
import { base64Text, type Text } from './_tags.ts';

/** 16 Mi characters: above what any relay carries, below what a string costs to refuse. */
const MAX_CHARS = 16 * 1024 * 1024;

export interface Content<T extends object = object> {
  readonly says: string;
  /** Of a JSON object, a list of its members: the page has it in place of `<members>` in the notes. */
  readonly members?: string;
  /** Members of the kind's value, or why the content is refused. */
  read(content: string): Read<T>;
  write(value: T): string;
}

/** No content at all. */
export const empty: Content<Record<never, never>> = {
  says: 'the empty string',
  read: (content) => (content === '' ? { value: {} } : { problem: 'is not empty' }),
  write: () => '',
};

/** Canonical base64 with padding, kept as text under `key`. */
export const base64 = <K extends string>(key: K, doc: string): Content<Record<K, string>> =>
  under(key, `base64: ${doc}`, 'is not padded base64', (content) => {
    return base64Text.read(content) !== undefined;
  });

/** The same, or the empty string for nothing. */
export const base64OrNothing = <K extends string>(
  key: K,
  doc: string,
): Content<{ readonly [P in K]?: string | undefined }> => {
  const { says, read } = base64(key, doc);
  return {
    says: `${says}; or the empty string`,
    read: (content) => (content === '' ? { value: {} } : read(content)),
    write: (value) => value[key] ?? '',
  };
};

/** A JSON object, kept as text under `key` because its hash is over its spelling. */
export const jsonObject = <K extends string>(key: K, doc: string): Content<Record<K, string>> =>
  under(key, `JSON object: ${doc}`, 'is not a JSON object', (content) => {
    return parseObject(content) !== undefined;
  });

function under<K extends string>(
  key: K,
  says: string,
  problem: string,
  accepts: (content: string) => boolean,
): Content<Record<K, string>> {
  return {
    says,
    read: (content) => {
      if (content.length > MAX_CHARS) return { problem: `is longer than ${MAX_CHARS} characters` };
      return accepts(content) ? { value: { [key]: content } as Record<K, string> } : { problem };
    },
    write: (value) => value[key],
  };
}

/** A member of a JSON object: texts and integers spelled as they would be in a tag, or a list of them. */
export interface Member<T = unknown, P = 'required' | 'optional'> {
  readonly presence: P;
  readonly says: string;
  readonly doc: string;
  /** The value, or undefined when the JSON value is none. */
  read(raw: unknown): T | undefined;
}

export const member = <T>(text: Text<T>, doc: string): Member<T, 'required'> => ({
  presence: 'required',
  says: text.says,
  doc,
  read: (raw) => readPlain(text, raw),
});

export const optionalMember = <T>(text: Text<T>, doc: string): Member<T, 'optional'> => ({
  ...member(text, doc),
  presence: 'optional',
});

/** A list of 1 to `most` values; an empty one is left out. */
export const listMember = <T>(
  text: Text<T>,
  doc: string,
  most: number,
): Member<readonly T[], 'optional'> => ({
  presence: 'optional',
  says: `list of 1..${most}: ${text.says}`,
  doc,
  read: (raw) => {
    if (!Array.isArray(raw) || raw.length === 0 || raw.length > most) return undefined;
    const values = raw.map((each) => readPlain(text, each)).filter((each) => each !== undefined);
    return values.length === raw.length ? values : undefined;
  },
});

const readPlain = <T>(text: Text<T>, raw: unknown): T | undefined =>
  typeof raw === 'string' || typeof raw === 'number' ? text.read(String(raw)) : undefined;

/** By feature name, then field. */
export type Features = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** A value is nested at most so deep, so that reading one cannot exhaust the stack. */
const MOST_DEPTH = 8;

/** What features of the run add: kept as JSON, judged against the run spec by whoever knows it. */
export const featuresMember: Member<Features, 'optional'> = {
  presence: 'optional',
  says: 'object of objects',
  doc: 'what features of the run add, by the name of the feature; left out where nothing is added',
  read: (raw) => {
    if (!isObject(raw) || Object.keys(raw).length === 0) return undefined;
    const isGood = Object.values(raw).every(isObject) && isShallow(raw, MOST_DEPTH);
    return isGood ? (raw as Features) : undefined;
  },
};

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return !/\p{Surrogate}/u.test(value);
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  return (
    depth > 0 &&
    Object.entries(value).every(
      ([key, held]) => isShallow(key, depth) && isShallow(held, depth - 1),
    )
  );
}

/** JSON by RFC 8785; members that are undefined are left out. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([, held]) => held !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, held]) => `${JSON.stringify(key)}:${canonical(held)}`);
  return `{${members.join(',')}}`;
}

type Members = Readonly<Record<string, Member>>;
type ValueOf<M> = M extends Member<infer T> ? T : never;
type Needed<M extends Members> = {
  readonly [K in keyof M as M[K]['presence'] extends 'required' ? K : never]: ValueOf<M[K]>;
};
type Allowed<M extends Members> = {
  readonly [K in keyof M as M[K]['presence'] extends 'optional' ? K : never]?:
    | ValueOf<M[K]>
    | undefined;
};

/** A JSON object with exactly these members in its one canonical spelling (RFC 8785): keys sorted, no spaces. */
export function canonicalObject<const M extends Members>(
  members: M,
  longest: number,
): Content<Needed<M> & Allowed<M>> {
  const fields = Object.entries<Member>(members).sort(([a], [b]) => (a < b ? -1 : 1));
  const write = (value: Readonly<Record<string, unknown>>): string =>
    canonical(Object.fromEntries(fields.map(([key]) => [key, value[key]])));
  return {
    says: 'canonical JSON object: the members below',
    members: describeMembers(members),
    write,
    read: (content) => {
      if (content.length > longest) return { problem: `is longer than ${longest} characters` };
      const json = parseObject(content);
      if (json === undefined) return { problem: 'is not a JSON object' };
      const value: Record<string, unknown> = {};
      for (const [key, { presence, says, read }] of fields) {
        if (!Object.hasOwn(json, key)) {
          if (presence === 'required') return { problem: `has no ${key}` };
          continue;
        }
        value[key] = read(json[key]);
        if (value[key] === undefined) return { problem: `says a ${key} that is not ${says}` };
      }
      if (write(value) !== content) return { problem: 'is not canonical JSON of these members' };
      return { value: value as Needed<M> & Allowed<M> };
    },
  };
}

function parseObject(content: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(content);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** One line for each member, in the order they are declared. */
const describeMembers = (members: Members): string =>
  Object.entries(members)
    .map(([key, { presence, says, doc }]) => {
      const needed = presence === 'optional' ? ', optional' : '';
      return `- \`${key}\` (${says}${needed}): ${doc}`;
    })
    .join('\n');
