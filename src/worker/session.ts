/** What every part of the loop works with: the plan, the machine, and the signal that ends it. */
import type { Plan } from './plan.ts';
import type { Ports } from './ports.ts';

export interface Session {
  readonly plan: Plan;
  readonly ports: Ports;
  readonly signal: AbortSignal;
}
