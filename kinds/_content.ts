/** Content formats of events: empty, base64, JSON. Checks form and size only; decoders validate the payloads. */
import type { Read } from './_tags.ts';
import { base64Text, type Text } from './_tags.ts';

/** Maximum length of a content, 16 Mi characters: more than any relay carries, and cheap enough to check. */
const MAX_CHARS = 16 * 1024 * 1024;

/** A content format: its description, parser and writer. */
export interface Content<T extends object = object> {
  readonly says: string;
  /** For a JSON object: the list of its members, which replaces `<members>` in the notes on the generated page. */
  readonly members?: string;
  /** Returns the members of the kind's value, or why the content is refused. */
  read(content: string): Read<T>;
  write(value: T): string;
}

/** An empty content. */
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

/** Canonical base64 under `key`, or the empty string if the value has none. */
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

/** A JSON object, kept as text under `key` because its hash depends on the exact text. */
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

/** A member of a JSON object: a text or integer in the same form as in a tag, or a list of them. */
export interface Member<T = unknown, P = 'required' | 'optional'> {
  readonly presence: P;
  readonly says: string;
  readonly doc: string;
  /** Returns the value, or undefined if the JSON value is not valid. */
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

/** A list of 1 to `most` values; an empty list is omitted. */
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

/** Values by feature name, then field. */
export type Features = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Maximum nesting depth of a value, so that reading it cannot exhaust the stack. */
const MOST_DEPTH = 8;

/** Fields that features of the run add: kept as JSON; code that knows the run spec validates them. */
export const featuresMember: Member<Features, 'optional'> = {
  presence: 'optional',
  says: 'object of objects',
  doc: 'fields that features of the run add, by the name of the feature; absent if empty',
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
      ([key, item]) => isShallow(key, depth) && isShallow(item, depth - 1),
    )
  );
}

/** Returns JSON by RFC 8785; undefined members are omitted. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`);
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

/** Reports whether a content leaves a value out: it is undefined, an empty list or an object without members. */
const isAbsent = (value: unknown): boolean =>
  value === undefined ||
  (typeof value === 'object' && value !== null && Object.keys(value).length === 0);

/** A JSON object with exactly these members in canonical form (RFC 8785): keys sorted, no spaces. */
export function canonicalObject<const M extends Members>(
  members: M,
  longest: number,
): Content<Needed<M> & Allowed<M>> {
  const fields = Object.entries<Member>(members).sort(([a], [b]) => (a < b ? -1 : 1));
  const heads = fields.map(([key]) => [key, `${JSON.stringify(key)}:`] as const);
  const write = (value: Readonly<Record<string, unknown>>): string =>
    `{${heads
      .filter(([key]) => !isAbsent(value[key]))
      .map(([key, head]) => head + canonical(value[key]))
      .join(',')}}`;
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
        if (value[key] === undefined) return { problem: `has a ${key} that is not: ${says}` };
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

/** Returns one line for each member, in the order of declaration. */
const describeMembers = (members: Members): string =>
  Object.entries(members)
    .map(([key, { presence, says, doc }]) => {
      const needed = presence === 'optional' ? ', optional' : '';
      return `- \`${key}\` (${says}${needed}): ${doc}`;
    })
    .join('\n');
