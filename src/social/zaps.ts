/**
 * Splits a zap among the contributors of a run (NIP-57, appendix G): integer weights that follow from the certified
 * rounds alone, so that any reader recomputes them.
 */
import { isHex32 } from '../base/bytes.ts';
import { isJsonObject, parseJson } from '../base/canonical-json.ts';
import { newestOf, type SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';

/** What the certified rounds say about a worker; `WorkerPicture` is one. */
export interface Contributor {
  readonly worker: string;
  /** Owner of a session key. */
  readonly principal?: string | undefined;
  /** Number of its contributions that outcomes list. */
  readonly counted: number;
  /** Rolling score in millionths, in runs with scores. */
  readonly score?: number | undefined;
}

export interface Share {
  /** The owner of the worker's key. */
  readonly key: string;
  readonly weight: number;
}

/** Maximum receivers: tags of one event must fit every relay. */
const MOST_SHARES = 64;

/**
 * Returns positive integer weights, largest first, ties by key: the sum of positive scores where a worker has one,
 * otherwise the number of counted contributions.
 */
export function zapShares(workers: readonly Contributor[]): readonly Share[] {
  const hasScores = workers.some(({ score = 0 }) => score > 0);
  const weights = new Map<string, number>();
  for (const { worker, principal = worker, counted, score = 0 } of workers) {
    const weight = hasScores ? Math.max(0, score) : counted;
    weights.set(principal, (weights.get(principal) ?? 0) + weight);
  }
  return [...weights]
    .map(([key, weight]) => ({ key, weight }))
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight || (a.key < b.key ? -1 : 1))
    .slice(0, MOST_SHARES);
}

/** Returns the tags; the relay is where clients find the receivers' profiles. */
export const zapTags = (shares: readonly Share[], relay: string): readonly (readonly string[])[] =>
  shares.map(({ key, weight }) => ['zap', key, relay, String(weight)]);

/** Kind of profiles. */
const PROFILE = 0;
/** Maximum characters of a profile that is read. */
const LONGEST_PROFILE = 64 << 10;

/** Reports whether a profile (kind 0) names a Lightning address, `lud16` or `lud06`. */
export function takesZaps({ kind, content }: Pick<SignedEvent, 'kind' | 'content'>): boolean {
  if (kind !== PROFILE || content.length > LONGEST_PROFILE) return false;
  const profile = parseJson(content);
  if (!profile.ok || !isJsonObject(profile.value)) return false;
  const { lud16, lud06 } = profile.value;
  const isAddress = typeof lud16 === 'string' && /^[^\s@]{1,64}@[\w.-]{1,253}$/.test(lud16);
  return isAddress || (typeof lud06 === 'string' && /^lnurl1[0-9a-z]{1,2000}$/i.test(lud06));
}

/** Verdict on the `zap` tags of an event. */
export interface ZapVerdict {
  readonly isRight: boolean;
  /** Contributors that the tags leave out. */
  readonly leftOut: readonly string[];
  /** What is wrong, one line each. */
  readonly problems: readonly string[];
}

/** Maximum problems in a verdict. */
const MOST_PROBLEMS = 8;

/** Compares the tags with the weights of the run. Leaving a contributor out is reported, and is not a wrong weight. */
export function checkZaps(tags: SignedEvent['tags'], shares: readonly Share[]): ZapVerdict {
  const expected = new Map(shares.map(({ key, weight }) => [key, weight]));
  const named = new Set<string>();
  const problems = tags
    .filter(([name]) => name === 'zap')
    .flatMap(([, key = '', , weight = '']) => {
      const isTwice = named.has(key);
      named.add(key);
      if (!isHex32(key)) return ['a zap tag has no key'];
      if (isTwice) return [`${key} is named twice`];
      const right = expected.get(key);
      if (right === undefined) return [`${key} contributed nothing that counts`];
      return weight === String(right)
        ? []
        : [`${key} has weight ${weight.slice(0, 20)}, not ${right}`];
    });
  const leftOut = shares.map(({ key }) => key).filter((key) => !named.has(key));
  const isRight = problems.length === 0 && named.size > 0;
  return { isRight, leftOut, problems: problems.slice(0, MOST_PROBLEMS) };
}

export interface Split {
  readonly shares: readonly Share[];
  /** Contributors without a Lightning address. */
  readonly leftOut: readonly string[];
}

/** Returns a filter for the profiles of contributors. */
export const profilesFilter = (shares: readonly Share[]): Filter => ({
  kinds: [PROFILE],
  authors: shares.map(({ key }) => key),
});

/** Divides contributors by whether their newest profile among verified events names a Lightning address. */
export function splitZaps(shares: readonly Share[], profiles: readonly SignedEvent[]): Split {
  const newest = newestOf(profiles);
  const takes = ({ key }: Share): boolean => {
    const profile = newest.get(key);
    return profile !== undefined && takesZaps(profile);
  };
  const leftOut = shares.filter((share) => !takes(share)).map(({ key }) => key);
  return { shares: shares.filter(takes), leftOut };
}
