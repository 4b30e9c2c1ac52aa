/** Single events of the reference: the same JSON members and the same refusals, with the listed exceptions. */

import { indentedJson } from 'nostrain/formats';
import { parseNostrainEvent as readReferenceEvent, signingState } from 'nostrain/python';
import { describe, expect, test } from 'vitest';
import { collectedWhole, inspectedEvent } from '../../../src/python/wire/reference-event.ts';
import { readVectors } from '../../support/vectors.ts';
import validation from '../../vectors/validation.json' with { type: 'json' };

const limits = { maxContainerBytes: 1 << 16, maxValues: 1 << 16 };
const read = (json: unknown) => {
  const result = readReferenceEvent(json, { limits });
  if (!result.ok) throw new Error(result.issue.message);
  return result.value;
};

interface Invocation {
  readonly argv: readonly string[];
  readonly stdout: string;
  readonly files?: Readonly<Record<string, string>>;
}
const { invocations } = readVectors<{ invocations: Invocation[] }>('cli.json');
const printedBy = (command: string) =>
  invocations
    .filter(({ argv }) => argv[0] === command && argv.includes('--json'))
    .flatMap(({ stdout }): readonly { event: unknown }[] => JSON.parse(stdout).events ?? []);

describe('members of a collected event', () => {
  const collected = [...printedBy('collect-events'), ...printedBy('discover-workers')];

  test.each(collected.map((each) => ({ each })))('$each.event_id', ({ each }) => {
    const json = indentedJson(collectedWhole(read(each.event)));
    expect(json).toBe(JSON.stringify(each, null, 2).replace('"density": 1,', '"density": 1.0,'));
  });

  test('of a checkpoint', () => {
    const { event } = validation.cases.find(({ name }) => name === 'checkpoint-valid')!;
    const members = collectedWhole(read(event));
    expect(Object.keys(members)).toEqual([
      'event_id',
      'kind',
      'created_at',
      'signed',
      'pubkey',
      'run',
      'worker',
      'round',
      'history_slot',
      'next_round',
      'model',
      'rounds_completed',
      'checkpoint_updated_at',
      'event',
      'checkpoint',
    ]);
    expect(members.checkpoint).toHaveProperty('current_state');
    expect(inspectedEvent(read(event)).type).toBe('checkpoint');
  });
});

describe('single events', () => {
  /** Accepted by the reference, refused here, and why. */
  const hardened: Record<string, string> = {
    'uppercase-pubkey-accepted': 'malformed', // hex on the wire is lowercase (NIP-01)
    'kind-as-string-accepted': 'malformed', // a kind is a number (NIP-01)
    'gradient-examples-python-int-underscore': 'bad-tag', // one spelling per number
  };

  test.each(validation.cases)('$name', ({ name, event, accepted, ...rest }) => {
    const result = readReferenceEvent(event, { limits });
    if (name in hardened) {
      expect(result).toMatchObject({ ok: false, issue: { code: hardened[name] } });
      return;
    }
    expect(result.ok).toBe(accepted);
    if (result.ok) expect(signingState(result.value.event)).toBe(rest.signing_state);
  });
});
