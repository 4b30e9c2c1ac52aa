/** Own events as text: what has to be on disk before it is sent, so that a restart sends the same bytes. */
import { parseEvent, type SignedEvent } from '../event.ts';

/** An event of this worker, signed and not sent yet. */
export interface OwnEvent<N> {
  readonly noun: N;
  /** As JSON text, with its body where that is not inside. */
  readonly event: string;
}

interface WithBody {
  readonly event: SignedEvent;
  /** Where it is not inside. */
  readonly body: string | undefined;
}

export const formatOwn = ({ event, body }: WithBody): string => JSON.stringify({ ...event, body });

/** The same again. Throws a TypeError for what is no event. */
export function readOwn(text: string): WithBody {
  const json: unknown = JSON.parse(text);
  const parsed = parseEvent(json);
  if (!parsed.ok) throw new TypeError(`no event of ours: ${parsed.issue.message}`);
  const { body } = json as { readonly body?: unknown };
  return { event: parsed.value, body: typeof body === 'string' ? body : undefined };
}
