/** What every part of the loop works with: the plan, the machine, and the signal that ends it. */
import type { Member } from '../certified/member.ts';
import type { Reference } from '../python/worker/session.ts';
import type { Plan } from './plan.ts';
import type { Ports } from './ports.ts';

export interface Session {
  readonly plan: Plan;
  readonly ports: Ports;
  /** There in a run whose rounds are certified. */
  readonly member?: Member | undefined;
  /** There in a run of the reference's profile that keeps the reference's summaries. */
  readonly reference?: Reference | undefined;
  readonly signal: AbortSignal;
}
