/** `defineKind`: derives types, builder, parser, filter and documentation of an event kind from one declaration. */
import type { Content } from './_content.ts';
import {
  type Draft,
  fill,
  openEnvelope,
  type Parsed,
  type Presence,
  type Rows,
  refuse,
  type Tag,
} from './_tags.ts';

// biome-ignore lint/suspicious/noExplicitAny: one table holds tags of different value types; every entry keeps its own
type Tags = Readonly<Record<string, Tag<any, Presence>>>;
type Of<F extends Tags, P extends Presence> = {
  [K in keyof F]: F[K]['presence'] extends P ? K : never;
}[keyof F];
type ValueOf<T> = T extends Tag<infer V, Presence> ? V : never;
type Flat<T> = { readonly [K in keyof T]: T[K] };

/** The value that a declaration's parser returns and its builder takes. */
export type Value<F extends Tags, C extends object> = Flat<
  { [K in Of<F, 'required'>]: ValueOf<F[K]> } & {
    [K in Of<F, 'optional'>]?: ValueOf<F[K]> | undefined;
  } & C
>;

/** A condition that involves several fields. */
export interface Rule<T> {
  readonly says: string;
  holds(value: T): boolean;
}

/** The declaration of a kind, from which types, parser, builder, filter and documentation follow. */
export interface Declaration<F extends Tags, C extends object> {
  readonly kind: number;
  readonly name: string;
  /** What the event states, in one line. */
  readonly summary: string;
  /** When it is sent and what replaces it. */
  readonly sent: string;
  /** Tags in the order in which they are written. */
  readonly tags: F;
  readonly content: Content<C>;
  readonly rules?: readonly Rule<Value<F, C>>[];
  /** Markdown for the generated page. */
  readonly notes?: string;
}

/** The part of a filter that does not depend on the kind: authors, time, limit. */
export interface Window {
  readonly authors?: readonly string[];
  readonly since?: number;
  readonly until?: number;
  readonly limit?: number;
}

/** A REQ filter for relays, as `Kind.filter` gives it. */
export interface Filter extends Window {
  readonly kinds: readonly number[];
  readonly [tag: `#${string}`]: readonly string[];
}

/** One kind of event: builds, parses and filters events whose value is `T`. */
export interface Kind<T> {
  readonly kind: number;
  readonly name: string;
  /** Builds an unsigned event. Throws a TypeError if the value breaks the kind's rules. */
  build(value: T, createdAt: number): Draft;
  /** Parses an untrusted event: returns its value, or why it is refused. Never throws, whatever the JSON. */
  parse(event: unknown): Parsed<T>;
  /** Builds a REQ filter as narrow as the given fields allow; `{}` also finds events without scope tags. */
  filter(where: Partial<T>, window?: Window): Filter;
}

type Untyped = Readonly<Record<string, unknown>>;
type Field = readonly [key: string, tag: Tag];

/** Defines a kind. Its value type is inferred, so that a new tag is a type error in every caller that lacks it. */
export function defineKind<const F extends Tags, C extends object>(
  declaration: Declaration<F, C>,
): Kind<Value<F, C>> & { readonly declaration: Declaration<F, C> } {
  const { kind, name, content, rules = [] } = declaration;
  const fields: readonly Field[] = Object.entries(declaration.tags);

  const parse = (event: unknown): Parsed<Value<F, C>> => {
    const envelope = openEnvelope(event, kind);
    if (!envelope.ok) return envelope;
    const tags = readTags(fields, envelope.value.rowsOf);
    if (!tags.ok) return tags;
    const body = content.read(envelope.value.content);
    if ('problem' in body) {
      return refuse('bad-content', 'content', `the content ${body.problem}`);
    }
    const value = { ...tags.value, ...body.value } as Value<F, C>;
    const broken = rules.find((rule) => !rule.holds(value));
    return broken === undefined
      ? { ok: true, value }
      : refuse('broken-rule', 'tags', `broken rule: ${broken.says}`);
  };

  const build = (value: Value<F, C>, createdAt: number): Draft => {
    const written = writeTags(fields, value);
    const tags = fields.flatMap(([, { tag }]) =>
      (written.get(tag) ?? []).map((row) => [tag, ...row]),
    );
    const draft = { kind, created_at: createdAt, tags, content: content.write(value) };
    const parsed = parse(draft);
    if (!parsed.ok) throw new TypeError(`${name} cannot be built: ${parsed.issue.message}`);
    return draft;
  };

  const filter = (where: Partial<Value<F, C>>, window: Window = {}): Filter => {
    const written = writeTags(fields, where);
    const indexed: Record<`#${string}`, readonly string[]> = {};
    for (const [, { tag, mark, templates = [] }] of fields) {
      const known = templates.map((template) => fill(template, (of) => written.get(of)?.[0]?.[0]));
      const narrowest = known.findLast((text) => text !== undefined) ?? mark;
      if (narrowest === undefined || (tag === 's' && indexed['#d'] !== undefined)) continue;
      indexed[`#${tag}`] = [narrowest];
    }
    return { kinds: [kind], ...indexed, ...window };
  };

  return { kind, name, declaration, build, parse, filter };
}

/** Sorts tags that are derived from other tags after those. */
const byDependence = (fields: readonly Field[]): readonly Field[] => [
  ...fields.filter(([, { templates }]) => templates === undefined),
  ...fields.filter(([, { templates }]) => templates !== undefined),
];

function readTags(fields: readonly Field[], rowsOf: (tag: string) => Rows): Parsed<Untyped> {
  const value: Record<string, unknown> = {};
  for (const [key, { tag, presence, read }] of byDependence(fields)) {
    const rows = rowsOf(tag);
    if (rows.length === 0 && presence !== 'optional') {
      return refuse('missing-tag', `tags.${tag}`, `the ${tag} tag is missing`);
    }
    const result = read(rows, (other) => rowsOf(other)[0]?.[0]);
    if ('problem' in result) return refuse('bad-tag', `tags.${tag}`, `${tag} ${result.problem}`);
    if (presence !== 'derived' && result.value !== undefined) value[key] = result.value;
  }
  return { ok: true, value };
}

/** Returns the rows, by tag name, of every field that the (partial) value has. */
function writeTags(fields: readonly Field[], value: Untyped): ReadonlyMap<string, Rows> {
  const written = new Map<string, Rows>();
  for (const [key, { tag, presence, write }] of byDependence(fields)) {
    const field = presence === 'derived' ? true : value[key];
    if (field === undefined) continue;
    written.set(
      tag,
      write(field, (other) => written.get(other)?.[0]?.[0]),
    );
  }
  return written;
}
