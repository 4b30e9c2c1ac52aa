/** Refuses AUTH events sent as ordinary ones (NIP-42) and requests to vanish from elsewhere (NIP-62). */
import { AUTH_KIND, VANISH_KIND } from '../event.ts';
import type { Policy } from './policy.ts';

export const reservedKinds: Policy = ({ kind, tags }, session) => {
  if (kind === AUTH_KIND) return { prefix: 'invalid', message: 'AUTH events are not published' };
  if (kind !== VANISH_KIND) return undefined;
  const named = tags.some(
    ([name, url = '']) => name === 'relay' && (url === 'ALL_RELAYS' || session.isMine(url)),
  );
  return named
    ? undefined
    : { prefix: 'invalid', message: 'request to vanish does not name this relay' };
};
