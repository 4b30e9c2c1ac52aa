/** Refuses an event dated too far from the relay's own clock. */
import type { Policy } from './policy.ts';

export const createdAtWindow: Policy = ({ created_at }, session) => {
  const { createdAtPastSeconds: past, createdAtFutureSeconds: future } = session.limits;
  const ahead = created_at - session.nowSeconds();
  if (future !== undefined && ahead > future) {
    return { prefix: 'invalid', message: `created_at is ${ahead} s in the future` };
  }
  if (past !== undefined && -ahead > past) {
    return { prefix: 'invalid', message: `created_at is ${-ahead} s in the past` };
  }
  return undefined;
};
