/**
 * A small Nostr relay for demos, tests and friends, and its parts: limits, filters, set reconciliation, faults.
 *
 * @module nostrain/relay
 */
export { type CoreOptions, createCore, limitsOf } from './core.ts';
export type { Entry } from './event.ts';
export { compileFilter } from './filter.ts';
export { defaultLimits } from './limits.ts';
export { IdList, reconcile } from './negentropy.ts';
export { createRelay, type Relay, type RelayOptions, type RelayStats } from './server.ts';
export { Store } from './store.ts';
export { finish } from './turns.ts';
