/**
 * Placement documents: how many holders keep an object of each class, in how many regions and trust tiers, and which
 * attestors count. Read from untrusted TOML or JSON; an unknown key is refused with the most similar known key.
 */

import { ConfigError, ok, type Result, refuse } from '../base/errors.ts';
import { isObject, type Untyped } from '../base/shape.ts';
import { distance, readKey } from './field.ts';
import type { WorkerId } from './ids.ts';

/** The rule for one class of objects. */
export interface PlacementRule {
  readonly replicas: number;
  readonly minDistinct: Readonly<Record<'regions' | 'tiers', number>>;
  /** Attributes of a holder that must be attested, not only self-reported. */
  readonly attested: readonly Attribute[];
  /** Only holders of these regions and tiers; empty means any. */
  readonly only: Readonly<Record<'regions' | 'tiers', readonly string[]>>;
}

/** Where the replicas of an object may be stored, and what to do if no placement satisfies the rules. */
export interface PlacementPolicy {
  readonly onUnsatisfiable: 'fail' | 'degrade-with-alert';
  /** Known names; empty means any. */
  readonly regions: readonly string[];
  readonly tiers: readonly string[];
  /** Keys whose attestations count. */
  readonly attestors: readonly WorkerId[];
  /** If there are many objects, no holder keeps more than its weighted share plus this many percent. */
  readonly maxOverShare: number;
  /** Rules by class. */
  readonly objects: Readonly<Record<string, PlacementRule>>;
}

/** Class of the chunks of checkpoints. */
export const CHECKPOINT_CLASS = 'checkpoint';

/** Contents of a placement document. */
export interface PlacementDocument {
  /** Undefined if the document only lists holders. */
  readonly policy: PlacementPolicy | undefined;
  /** Holders whose attestations are not verified yet. */
  readonly holders: readonly (Omit<Holder, 'attested'> & {
    readonly attestations: readonly string[];
  })[];
}

/** Maximum replicas, so that the nearest relaxation is found quickly. */
const MOST_REPLICAS = 32;
const MOST_LISTED = 256;
const MOST_CLASSES = 64;
const MOST_HOLDERS = 65_536;
const MOST_ATTESTATIONS = 8;
const DEFAULT_OVER_SHARE = 15;

/** Reads a placement document; returns the first issue instead of throwing. */
export function readPlacement(document: unknown): Result<PlacementDocument> {
  const reader = new Reader();
  const members = reader.object(document, '', [...POLICY, 'holders']);
  const isPolicy = POLICY.some((name) => members[name] !== undefined);
  const policy = isPolicy ? readPolicy(reader, members) : undefined;
  const names = { regions: policy?.regions ?? [], tiers: policy?.tiers ?? [] };
  const rows = reader.list(members.holders, 'holders', MOST_HOLDERS);
  const holders = rows.map((row, i) => readHolder(reader, row, `holders[${i + 1}]`, names));
  const known = new Set<WorkerId>();
  holders.forEach(({ key }, i) => {
    if (known.has(key)) reader.wrong(`holders[${i + 1}].key`, 'is there twice');
    known.add(key);
  });
  const issue = reader.issue;
  return issue ? refuse(issue.code, issue.at, issue.message) : ok({ policy, holders });
}

/**
 * Reads the section `placement` of a run spec: a document without holders, with a rule for checkpoints. Throws a
 * ConfigError with the issue.
 */
export function readPlacementField({ placement }: Untyped): PlacementPolicy {
  const refused = (words: string) =>
    new ConfigError('spec/value', `placement: ${words}`, {
      hint: 'docs/placement.md has an example; `nostrain placement check FILE` reads one',
      data: { at: 'placement' },
    });
  const read = readPlacement(placement);
  if (!read.ok) throw refused(read.issue.message);
  const { policy, holders } = read.value;
  if (holders.length > 0) throw refused('a spec may not list holders: they announce themselves');
  if (policy === undefined || !Object.hasOwn(policy.objects, CHECKPOINT_CLASS)) {
    throw refused(`it has no [objects.${CHECKPOINT_CLASS}]`);
  }
  return policy;
}

/** Returns a policy as a document, with all defaults written out. */
export function writePlacement(policy: PlacementPolicy): Untyped {
  const { onUnsatisfiable, regions, tiers, attestors, maxOverShare, objects } = policy;
  const rules = Object.entries(objects).map(([name, rule]) => {
    const { replicas, minDistinct, attested, only } = rule;
    return [name, { replicas, min_distinct: minDistinct, attested, only }];
  });
  return {
    on_unsatisfiable: onUnsatisfiable,
    regions,
    tiers,
    attestors,
    max_over_share: maxOverShare,
    objects: Object.fromEntries(rules),
  };
}

const POLICY = ['on_unsatisfiable', 'regions', 'tiers', 'attestors', 'max_over_share', 'objects'];
const RULE = ['replicas', 'min_distinct', 'attested', 'only'];
const HOLDER = ['key', 'region', 'tier', 'weight', 'classes', 'attestations'];
const ATTRIBUTES = ['regions', 'tiers'];
const WAYS = ['fail', 'degrade-with-alert'] as const;

type Names = Readonly<Record<'regions' | 'tiers', readonly string[]>>;

function readPolicy(reader: Reader, members: Untyped): PlacementPolicy {
  const regions = reader.words(members.regions, 'regions', []);
  const tiers = reader.words(members.tiers, 'tiers', []);
  const classes = reader.object(members.objects, 'objects', undefined);
  const objects = Object.entries(classes).map(([name, rule]) => {
    if (!isPolicyName(name)) reader.wrong(`objects.${name}`, 'is not a valid class name');
    return [name, readRule(reader, rule, `objects.${name}`, { regions, tiers })] as const;
  });
  if (objects.length > MOST_CLASSES)
    reader.wrong('objects', `has more than ${MOST_CLASSES} classes`);
  if (objects.length === 0) reader.wrong('objects', 'has no class, such as [objects.checkpoint]');
  return {
    regions,
    tiers,
    onUnsatisfiable: reader.choice(members.on_unsatisfiable, 'on_unsatisfiable', WAYS, 'fail'),
    attestors: reader.keys(members.attestors, 'attestors'),
    maxOverShare: reader.whole(
      members.max_over_share,
      'max_over_share',
      [0, 1000],
      DEFAULT_OVER_SHARE,
    ),
    objects: Object.fromEntries(objects),
  };
}

function readRule(reader: Reader, rule: unknown, at: string, names: Names): PlacementRule {
  const members = reader.object(rule, at, RULE);
  const distinct = reader.object(members.min_distinct ?? {}, `${at}.min_distinct`, ATTRIBUTES);
  const only = reader.object(members.only ?? {}, `${at}.only`, ATTRIBUTES);
  const replicas = reader.whole(members.replicas, `${at}.replicas`, [1, MOST_REPLICAS]);
  const least = (name: 'regions' | 'tiers'): number => {
    const path = `${at}.min_distinct.${name}`;
    const value = reader.whole(distinct[name], path, [1, MOST_REPLICAS], 1);
    if (value > replicas)
      reader.wrong(path, `is ${value}, more than ${replicas} replicas can be in`);
    const list = only[name] ?? names[name];
    const listed = Array.isArray(list) && list.length > 0 ? list.length : MOST_REPLICAS;
    if (value > listed) reader.wrong(path, `is ${value}, but only ${listed} are named`);
    return value;
  };
  return {
    replicas,
    minDistinct: { regions: least('regions'), tiers: least('tiers') },
    attested: reader.words(members.attested, `${at}.attested`, attributes) as readonly Attribute[],
    only: {
      regions: reader.words(only.regions, `${at}.only.regions`, names.regions),
      tiers: reader.words(only.tiers, `${at}.only.tiers`, names.tiers),
    },
  };
}

function readHolder(
  reader: Reader,
  row: unknown,
  at: string,
  names: Names,
): PlacementDocument['holders'][number] {
  const members = reader.object(row, at, HOLDER);
  const attestations = reader.list(members.attestations, `${at}.attestations`, MOST_ATTESTATIONS);
  if (!attestations.every((each) => typeof each === 'string')) {
    reader.wrong(`${at}.attestations`, 'is not a list of events as JSON texts');
  }
  return {
    key: reader.keys([members.key], `${at}.key`)[0] ?? '',
    region: reader.words([members.region], `${at}.region`, names.regions)[0] ?? '',
    tier: reader.words([members.tier], `${at}.tier`, names.tiers)[0] ?? '',
    weight: reader.whole(members.weight, `${at}.weight`, [0, MOST_WEIGHT], 1),
    classes: reader.words(members.classes, `${at}.classes`, []),
    attestations: attestations.map(String),
  };
}

/** Reads values of a document and keeps the first issue. */
class Reader {
  issue: { readonly code: string; readonly at: string; readonly message: string } | undefined;

  wrong(at: string, what: string, code = 'bad-value'): void {
    this.issue ??= { code, at, message: `${at === '' ? 'the document' : at} ${what}` };
  }

  /** Reads an object with only these members, or with any. */
  object(value: unknown, at: string, known: readonly string[] | undefined): Untyped {
    if (!isObject(value)) {
      this.wrong(at, value === undefined ? 'is missing' : 'is not a table');
      return {};
    }
    const stranger = known && Object.keys(value).find((name) => !known.includes(name));
    if (known !== undefined && stranger !== undefined) {
      const path = at === '' ? stranger : `${at}.${stranger}`;
      this.wrong(path, `is unknown${meant(stranger, known)}`, 'unknown-key');
    }
    return value;
  }

  list(value: unknown, at: string, most: number): readonly unknown[] {
    if (value === undefined) return [];
    if (Array.isArray(value) && value.length <= most) return value;
    this.wrong(at, `is not a list of at most ${most}`);
    return [];
  }

  /** Reads different names, only known ones if there are any. */
  words(value: unknown, at: string, known: readonly string[]): readonly string[] {
    const words = this.list(value, at, MOST_LISTED).filter((word, i, all) => {
      const isGood = isPolicyName(word) && all.indexOf(word) === i;
      if (!isGood)
        this.wrong(
          at,
          word === undefined
            ? 'is missing'
            : `has ${named(word)}, which is not a name or is listed twice`,
        );
      else if (known.length > 0 && !known.includes(word))
        this.wrong(at, `has ${named(word)}, which is not known${meant(word, known)}`);
      return isGood;
    });
    return words as readonly string[];
  }

  /** Reads public keys, npub or hex. */
  keys(value: unknown, at: string): readonly WorkerId[] {
    return this.list(value, at, MOST_LISTED).flatMap((item) => {
      const key = typeof item === 'string' ? readKey(item) : undefined;
      if (key !== undefined) return [key];
      this.wrong(
        at,
        item === undefined ? 'is missing' : `has ${named(item)}, which is not a public key`,
      );
      return [];
    });
  }

  whole(
    value: unknown,
    at: string,
    [least, most]: readonly [number, number],
    usual?: number,
  ): number {
    if (value === undefined && usual !== undefined) return usual;
    const number = typeof value === 'bigint' ? Number(value) : value;
    const isGood = typeof number === 'number' && Number.isSafeInteger(number);
    if (isGood && number >= least && number <= most) return number;
    this.wrong(
      at,
      value === undefined
        ? 'is missing'
        : `is ${named(value)}, not a whole number from ${least} to ${most}`,
    );
    return least;
  }

  choice<T extends string>(value: unknown, at: string, words: readonly T[], usual: T): T {
    if (value === undefined) return usual;
    const chosen = words.find((word) => word === value);
    if (chosen === undefined) this.wrong(at, `is ${named(value)}, not one of ${words.join(', ')}`);
    return chosen ?? usual;
  }
}

const named = (value: unknown): string =>
  `"${String(typeof value === 'object' ? 'a table' : value).slice(0, 64)}"`;

/** Returns a suggestion with the most similar known word. */
function meant(word: string, known: readonly string[]): string {
  const near = known
    .map((each) => ({ each, far: distance(word.slice(0, 64), each) }))
    .sort((a, b) => a.far - b.far)[0];
  return near === undefined ? '' : `; the nearest is "${near.each}"`;
}

/** Attributes of a holder that an attestor can confirm. */
export type Attribute = 'region' | 'tier';

export const attributes: readonly Attribute[] = ['region', 'tier'];

/** A worker that can store objects, as the placement rules see it. */
export interface Holder {
  readonly key: WorkerId;
  readonly region: string;
  /** Trust tier. */
  readonly tier: string;
  /** Relative share of the placed objects; 0 means no more objects. */
  readonly weight: number;
  /** Classes of objects it accepts; empty means all. */
  readonly classes: readonly string[];
  /** The attestor that confirms its region or tier exactly as announced; other attributes are self-reported. */
  readonly attested: Readonly<Partial<Record<Attribute, WorkerId>>>;
  /** How many more objects it can store; absent if it has them already, or if unknown. */
  readonly capacity?: number | undefined;
}

export const MOST_WEIGHT = 1_000_000;
/** Names of regions, tiers and classes: short enough for a tag, and safe in a terminal or a path. */
export const isPolicyName = (text: unknown): text is string =>
  typeof text === 'string' && /^[a-z0-9][a-z0-9._-]{0,31}$/.test(text);
