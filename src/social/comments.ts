/** Comments on a run (NIP-22): reads those of strangers within limits, for pages that show them as text. */
import { isHex32 } from '../base/bytes.ts';
import { safe } from '../base/errors.ts';
import type { SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';

const COMMENT = 1111;
/** Maximum comments requested and shown. */
const MOST = 100;
/** Maximum comments of one author: more is a flood. */
const MOST_OF_AUTHOR = 10;
/** Maximum characters shown of a comment. */
const LONGEST = 2000;

export interface Comment {
  readonly id: string;
  readonly author: string;
  /** Unix seconds, as signed. */
  readonly at: number;
  /** Without control characters, cut to a maximum length. */
  readonly text: string;
  /** Id of the comment that it answers. */
  readonly answers?: string | undefined;
}

/** Returns a filter for the comments on an addressable event. */
export const commentsFilter = (address: string): Filter => ({
  kinds: [COMMENT],
  '#A': [address],
  limit: MOST,
});

/** Returns the comments on this address among verified events, oldest first, and few of each author. */
export function readComments(address: string, events: readonly SignedEvent[]): readonly Comment[] {
  const perAuthor = new Map<string, number>();
  const newestFirst = [...events].sort((a, b) => b.created_at - a.created_at);
  return newestFirst
    .flatMap((event) => {
      const comment = readComment(address, event);
      const count = perAuthor.get(event.pubkey) ?? 0;
      if (comment === undefined || count >= MOST_OF_AUTHOR) return [];
      perAuthor.set(event.pubkey, count + 1);
      return [comment];
    })
    .slice(0, MOST)
    .reverse();
}

/** Returns the comment, or undefined for an event that does not follow NIP-22 or is about something else. */
function readComment(address: string, event: SignedEvent): Comment | undefined {
  const { id, kind, pubkey: author, created_at: at, tags, content } = event;
  const tagOf = (name: string) => tags.find(([first]) => first === name)?.[1];
  const [rootKind] = address.split(':');
  const parent = tagOf('e');
  const isAbout = tagOf('A') === address && tagOf('K') === rootKind;
  const hasParent = tagOf('k') !== undefined && (parent ?? tagOf('a')) !== undefined;
  if (kind !== COMMENT || !isAbout || !hasParent || content.trim() === '') return undefined;
  const cut = [...content.slice(0, LONGEST + 1)];
  const text = safe(cut.length > LONGEST ? `${cut.slice(0, LONGEST).join('')}…` : content);
  const isReply = tagOf('k') === String(COMMENT) && parent !== undefined && isHex32(parent);
  return { id, author, at, text, answers: isReply ? parent : undefined };
}
