/**
 * Parts that several kinds share: tags of a round, fields of votes and proposals, and bodies that are in the content
 * or, if too large, in chunks (7811).
 */
import { member, optionalMember } from './_content.ts';
import type { Rule } from './_define.ts';
import {
  base64Bytes,
  expiration,
  hex32,
  index,
  integer,
  nostrain,
  one,
  optional,
  repeats,
  type Text,
} from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** A view, or -1 for none. */
const viewOrNone: Text<number> = {
  says: 'integer >= -1',
  read: (text) => (text === '-1' ? -1 : index.read(text)),
  write: (value) => String(value),
};

/** Fields of votes and proposals of one view in a recovery epoch of a round. */
export const castMembers = {
  run: member(hex32, 'id of the run'),
  round: member(index, 'round index, from 0'),
  attempt: member(index, '0, or the number of the recovery epoch'),
  parent: member(hex32, 'digest of the previous outcome; the run id in round 0'),
  ctx: member(hex32, 'digest of the committee in which the author votes, see docs/committee.md'),
  view: member(index, 'view, from 0'),
  digest: member(hex32, 'digest of the outcome'),
  justify: member(viewOrNone, 'the earlier view in which the outcome was prepared; -1 for none'),
};

/** Tags of an event of a round. Relays index it by run, by run and round, and by `x`, a copy of one content member. */
export const roundTags = (x: string) => ({
  nostrain,
  scope: repeats('s', '`<run>` and `<run>/<round>`', 'run and round of the content'),
  x: one('x', hex32, x),
  expiration,
});

interface Scoped {
  readonly scope: readonly string[];
  readonly run: string;
}

interface OfRound extends Scoped {
  readonly round: number;
  readonly x: string;
}

/** Rules that these tags repeat the content; `x` repeats the member of this name. */
export const roundRules = <K extends string>(
  member: K,
  says: string,
): readonly Rule<OfRound & { readonly [P in K]: string }>[] => [
  {
    says: '`s` is there twice: the run of the content, then its run and round',
    holds: ({ scope, run, round }) =>
      scope.length === 2 && scope[0] === run && scope[1] === `${run}/${round}`,
  },
  { says, holds: (value) => value.x === value[member] },
];

export const runScopeRule: Rule<Scoped> = {
  says: '`s` is the run of the content',
  holds: ({ scope, run }) => scope.length === 1 && scope[0] === run,
};

/** Reports whether a list is strictly ascending. */
export const isAscending = <T extends string | number>(list: readonly T[] = []): boolean =>
  list.every((item, i) => i === 0 || list[i - 1]! < item);

/** Maximum bytes of a content as JSON text; with tags, id and signature the event stays under 64 KiB. */
export const MOST_CONTENT_BYTES = 61_440;

/** The members of a content that hold or name its body. */
export interface Carried {
  readonly body?: string | undefined;
  readonly bytes?: number | undefined;
  readonly root?: string | undefined;
}

const inside = `with it, as a JSON string, is at most ${MOST_CONTENT_BYTES} bytes`;

/** Members for a body of at most `most` bytes. */
export const bodyMembers = (text: Text<string>, doc: string, most: number) => ({
  body: optionalMember(text, `${doc}; present if the content ${inside}`),
  bytes: optionalMember(integer(1, most), 'length of the body in UTF-8; present if `body` is not'),
  root: optionalMember(hex32, "root of the body's chunks (kind 7811); present if `body` is not"),
});

/** Tags that name the chunks of data that does not fit into the content; `most` is its maximum in bytes. */
export const chunkTags = (most: number, isOne: boolean) => ({
  root: optional(
    'root',
    hex32,
    isOne
      ? 'root of its chunks (kind 7811), if it is not the content'
      : 'root of their chunks (kind 7811), if they are not the content',
  ),
  bytes: optional('bytes', integer(CHUNK_BYTES + 1, most), 'total length of the chunks'),
});

interface InlineOrChunks {
  readonly data?: string | undefined;
  readonly root?: string | undefined;
  readonly bytes?: number | undefined;
}

/** Rule that the bytes are either in the content or in chunks that the tags name. */
export const inlineOrChunksRule = (says: string): Rule<InlineOrChunks> => ({
  says,
  holds: ({ data, root, bytes }) =>
    data === undefined
      ? root !== undefined && bytes !== undefined
      : root === undefined && bytes === undefined && base64Bytes(data) <= CHUNK_BYTES,
});

/** Reports whether a content leaves enough of the event's 64 KiB for the rest of the event. */
export const fitsInside = (content: string): boolean =>
  new TextEncoder().encode(JSON.stringify(content)).length <= MOST_CONTENT_BYTES;

/** Rules of a content with a body. Whether a body in chunks was too large for the content is checked after download. */
export const bodyRules = <T extends Carried>(
  write: (value: T) => string,
): readonly [Rule<T>, Rule<T>] => [
  {
    says: 'either `body` is present, or `bytes` and `root` are',
    holds: ({ body, bytes, root }) =>
      (body === undefined) === (root !== undefined) &&
      (root === undefined) === (bytes === undefined),
  },
  {
    says: `the content, as a JSON string, is at most ${MOST_CONTENT_BYTES} bytes`,
    holds: (value) => fitsInside(write(value)),
  },
];
