/** What an event's content may be. Sizes are bounded here; what is inside a payload is judged by whoever decodes it. */
import type { Read } from './_tags.ts';

/** 16 Mi characters: above what any relay carries, below what a string costs to refuse. */
const MAX_CHARS = 16 * 1024 * 1024;

export interface Content<T extends object = object> {
  readonly says: string;
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
    return content.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(content);
  });

/** A JSON object, kept as text under `key` because its hash is over its spelling. */
export const jsonObject = <K extends string>(key: K, doc: string): Content<Record<K, string>> =>
  under(key, `JSON object: ${doc}`, 'is not a JSON object', (content) => {
    try {
      const value: unknown = JSON.parse(content);
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    } catch {
      return false;
    }
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
