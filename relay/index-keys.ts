/** The names events are filed under: id, author, kind and each single-letter tag. */
import type { Entry } from './event.ts';

export const idKey = (id: string): string => `i${id}`;
export const authorKey = (pubkey: string): string => `a${pubkey}`;
export const kindKey = (kind: number): string => `k${kind}`;
export const tagKey = (letter: string, value: string): string => `#${letter}${value}`;

/** Names of a kind together with a tag, for every two of these names that are one. */
export const pairsOf = (kinds: Iterable<string>, names: Iterable<string>): readonly string[] => {
  const tags = [...names].filter((name) => name.startsWith('#'));
  return [...kinds].flatMap((kind) => tags.map((tag) => `${kind}${tag}`));
};

const LETTER = /^[a-zA-Z]$/;

/** All names of one event but its id, each once. */
export function keysOf({ pubkey, kind, tags }: Entry): ReadonlySet<string> {
  const keys = new Set([authorKey(pubkey), kindKey(kind)]);
  for (const [name, value = ''] of tags) if (LETTER.test(name!)) keys.add(tagKey(name!, value));
  return keys;
}
