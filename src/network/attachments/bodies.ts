/**
 * Bodies of events, in their content or in chunks beside them: which of the two, and the text again. Who sends and pulls the chunks is
 * elsewhere.
 */
import { type Carried, fitsInside } from '../../../kinds/_body.ts';
import { fault } from '../../../kinds/fault.ts';
import { MOST_OUTCOME_BYTES, proposal } from '../../../kinds/proposal.ts';
import { utf8 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { chunkTree, type PayloadRoot } from '../chunks/payload.ts';
import type { EventDraft } from '../event.ts';

/** The bytes of a root, checked against it, where they are at hand. */
export type BodyOf = (apart: PayloadRoot) => Uint8Array | undefined;

/** The largest body there can be. */
export const MOST_BODY_BYTES = MOST_OUTCOME_BYTES;

/** Nothing is at hand. */
export const noBodies: BodyOf = () => undefined;

/** How a content is written with what it says of its body. */
type Write = (carried: Carried) => string;

/** What a content says of this body: the body itself where there is room, else where its chunks are. */
export function carryBody(body: string, write: Write): Carried {
  if (fitsInside(write({ body }))) return { body };
  const { root, bytes } = chunkTree(utf8(body));
  return { root, bytes };
}

/** The body of a content; undefined while its chunks are not here. Refuses what is no text, and what had room inside. */
export function openBody(
  { body, root, bytes }: Carried,
  write: Write,
  bodyOf: BodyOf,
): Result<string> | undefined {
  if (body !== undefined) return ok(body);
  // a rule of the kind: without a body both are there
  const found = bodyOf({ root: root!, bytes: bytes! });
  if (found === undefined) return undefined;
  const text = decode(found);
  if (text === undefined) return refuse('bad-body', 'body', 'the body is not text in UTF-8');
  if (fitsInside(write({ body: text }))) {
    return refuse('bad-body', 'body', `a body of ${found.length} bytes has room in the content`);
  }
  return ok(text);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** A body that an event names, and until when relays are asked to keep both. */
export interface Apart extends PayloadRoot {
  /** Unix seconds. */
  readonly expiresAt: number;
}

/** The body that an event names; undefined for an event that has it inside, or has none. */
export function apartIn(event: EventDraft): Apart | undefined {
  const kind = [proposal, fault].find((each) => each.kind === event.kind);
  const parsed = kind?.parse(event);
  if (!parsed?.ok) return undefined;
  const { root, bytes, expiration: expiresAt } = parsed.value;
  return root === undefined || bytes === undefined ? undefined : { root, bytes, expiresAt };
}
