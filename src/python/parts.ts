/**
 * The building blocks of `nostrain/python`: its payload format, messages and wire profile.
 *
 * @module nostrain/python/parts
 */
export { inflateAtMost } from './codec/container.ts';
export { decodeNstr, encodeNstr } from './codec/nstr.ts';
export { readNstr } from './codec/payload.ts';
export { meanByReciprocal } from './outer-step.ts';
export { buildCheckpoint } from './wire/checkpoints.ts';
export { buildGradient, buildHeartbeat, toContribution, toHeartbeat } from './wire/messages.ts';
export { createPythonWire } from './wire/profile.ts';
export { openReferenceEvent } from './wire/reference-event.ts';
