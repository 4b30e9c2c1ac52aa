/** A wire of profile `nostrain/0`: the core's wire over the Python reference's events, and what only that profile sends. */
import { createWire } from '../../network/wire/create-wire.ts';
import type { Wire } from '../../network/wire/wire.ts';
import type { PythonEvents, PythonWireOptions } from './python-events.ts';
import { createReferenceProfile } from './reference-profile.ts';

export function createPythonWire(options: PythonWireOptions): {
  readonly wire: Wire;
  readonly events: PythonEvents;
} {
  const { reference, codec, zstd } = options;
  let events: PythonEvents | undefined;
  const wire = createWire(options, (wired) => {
    const { profile, ...own } = createReferenceProfile({ ...wired, reference, codec, zstd });
    events = own;
    return profile;
  });
  return { wire, events: events! };
}
