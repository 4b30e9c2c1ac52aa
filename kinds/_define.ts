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

/** What a declaration's parser gives and its builder takes. */
export type Value<F extends Tags, C extends object> = Flat<
  { [K in Of<F, 'required'>]: ValueOf<F[K]> } & {
    [K in Of<F, 'optional'>]?: ValueOf<F[K]> | undefined;
  } & C
>;

/** Something that must hold between fields. */
export interface Rule<T> {
  readonly says: string;
  holds(value: T): boolean;
}

export interface Declaration<F extends Tags, C extends object> {
  readonly kind: number;
  readonly name: string;
  /** What it says, in one line. */
  readonly summary: string;
  /** When it is sent and what replaces it. */
  readonly sent: string;
  /** In the order they are written. */
  readonly tags: F;
  readonly content: Content<C>;
  readonly rules?: readonly Rule<Value<F, C>>[];
  /** Markdown for the generated page. */
  readonly notes?: string;
}

/** The part of a filter that is about time and authors rather than about the kind. */
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
  /** An unsigned event. Throws a TypeError when the value breaks the kind's own rules. */
  build(value: T, createdAt: number): Draft;
  /** The value of an event from anyone, or why it is refused; never throws on any JSON. */
  parse(event: unknown): Parsed<T>;
  /** A REQ filter as narrow as the given fields allow; `{}` also finds peers that write no scope tags. */
  filter(where: Partial<T>, window?: Window): Filter;
}

type Untyped = Readonly<Record<string, unknown>>;
type Field = readonly [key: string, tag: Tag];

/** A kind; its value type is inferred, so a new tag breaks every caller that lacks it. */
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
      : refuse('broken-rule', 'tags', `it does not hold that ${broken.says}`);
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

/** Tags made of other tags come after those. */
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
    const found = read(rows, (other) => rowsOf(other)[0]?.[0]);
    if ('problem' in found) return refuse('bad-tag', `tags.${tag}`, `${tag} ${found.problem}`);
    if (presence !== 'derived' && found.value !== undefined) value[key] = found.value;
  }
  return { ok: true, value };
}

/** Rows by tag name of every field the (partial) value has. */
function writeTags(fields: readonly Field[], value: Untyped): ReadonlyMap<string, Rows> {
  const written = new Map<string, Rows>();
  for (const [key, { tag, presence, write }] of byDependence(fields)) {
    const held = presence === 'derived' ? true : value[key];
    if (held === undefined) continue;
    written.set(
      tag,
      write(held, (other) => written.get(other)?.[0]?.[0]),
    );
  }
  return written;
}
