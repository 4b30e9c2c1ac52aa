/** Refuses an event dated too far from the relay's own clock. */
import { isEphemeral } from '../event.ts';
import type { Policy } from './policy.ts';

export const createdAtWindow: Policy = ({ created_at, kind }, session) => {
  const { limits } = session;
  const ahead = created_at - session.nowSeconds();
  if (limits.createdAtFutureSeconds !== undefined && ahead > limits.createdAtFutureSeconds) {
    const message = `created_at is ${ahead} s in the future`;
    return { prefix: 'invalid', code: 'too-late', message };
  }
  const ephemeral = limits.ephemeralPastSeconds !== undefined && isEphemeral(kind);
  const past = ephemeral ? limits.ephemeralPastSeconds : limits.createdAtPastSeconds;
  if (past !== undefined && -ahead > past) {
    const message = `created_at is ${-ahead} s in the past`;
    return { prefix: 'invalid', code: ephemeral ? 'too-early-ephemeral' : 'too-early', message };
  }
  return undefined;
};
