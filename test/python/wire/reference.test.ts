/** Events of the Python reference: built with the same ids and judged alike, with the exceptions listed here. */

import { fromHex } from 'nostrain/base';
import { checkpoint, gradient, heartbeat } from 'nostrain/kinds';
import { createSigner, parseEvent, verifyEvent } from 'nostrain/network';
import { parseStateJson } from 'nostrain/python';
import { toContribution, toHeartbeat } from 'nostrain/python/parts';
import { describe, expect, test } from 'vitest';
import { stateText } from '../../support/state-text.ts';
import events from '../../vectors/events.json' with { type: 'json' };
import validation from '../../vectors/validation.json' with { type: 'json' };
import { judgeCheckpoint } from '../support/judge-checkpoint.ts';

/** The numbers in the reference's tags, as our builder takes them. */
const tagsOf = (event: { tags: string[][] }) => Object.fromEntries(event.tags);

describe('ids and signatures of built events', () => {
  // without a key there is no id; with auxiliary randomness only the id is reproducible
  const signed = events.gradient.filter(({ sk }) => sk !== null);

  test.each(signed)('gradient $name', ({ metadata, sk, event, ...rest }) => {
    const tags = tagsOf(event);
    const draft = gradient.build(
      {
        run: metadata.run_name,
        round: metadata.round_index,
        worker: metadata.worker_id,
        model: metadata.model_hash,
        steps: metadata.inner_steps,
        examples: metadata.example_count,
        compression: tags.compression!,
        params: Number(tags.params),
        values: Number(tags.values),
        selected: Number(tags.selected),
        payload: event.content,
      },
      metadata.created_at,
    );
    const made = createSigner(fromHex(sk ?? '')!).sign(draft);
    expect(made.id).toBe(event.id);
    if (!('aux_rand' in rest)) expect(made.sig).toBe(event.sig);
  });

  test.each(events.heartbeat)('heartbeat $name', ({ metadata, sk, event }) => {
    const draft = heartbeat.build(
      {
        run: metadata.run_name,
        worker: metadata.worker_id,
        round: metadata.current_round,
        interval: metadata.heartbeat_interval ?? 60,
        examples: metadata.example_count,
        capabilities: metadata.capabilities,
        relays: metadata.advertised_relays,
      },
      metadata.created_at,
    );
    expect(createSigner(fromHex(sk)!).sign(draft)).toEqual(event);
  });

  test.each(events.checkpoint)('checkpoint $name', ({ metadata, sk, event, content_sha256 }) => {
    const draft = checkpoint.build(
      {
        run: metadata.run_name,
        worker: metadata.worker_id,
        round: metadata.round_index,
        nextRound: metadata.next_round,
        slot: metadata.history_slot ?? undefined,
        model: metadata.model_hash,
        roundsCompleted: metadata.rounds_completed,
        checkpoint: content_sha256,
        body: event.content,
      },
      metadata.created_at,
    );
    expect(createSigner(fromHex(sk)!).sign(draft)).toEqual(event);
  });
});

const delta = events.gradient[0]?.delta as object;
const layout = parseStateJson(stateText(delta)).layout;

/** Runs all checks of an event from a relay: form, signature, kind, worker, payload. */
function judge(json: unknown): string {
  const parsed = parseEvent(json);
  if (!parsed.ok) return parsed.issue.code;
  const verified = verifyEvent(parsed.value);
  if (!verified.ok) return verified.issue.code;
  const event = verified.value;
  const context = { run: 'demo-run', nowSeconds: 1_700_000_300 };
  if (event.kind === checkpoint.kind) {
    const judgedCheckpoint = judgeCheckpoint(event, context);
    return judgedCheckpoint.ok ? 'accepted' : judgedCheckpoint.reason;
  }
  const judged =
    event.kind === heartbeat.kind
      ? toHeartbeat(event, context)
      : toContribution(event, {
          ...context,
          layout,
          maxContainerBytes: 1 << 16,
        });
  return judged.ok ? 'accepted' : judged.rejection.reason;
}

describe('single events', () => {
  /** Accepted by the reference, refused here, and why. */
  const hardened: Record<string, string> = {
    'missing-sig-accepted': 'unsigned', // anyone could have written it
    'no-pubkey-accepted': 'unsigned', // likewise
    'worker-tag-not-signer-accepted': 'worker-key-mismatch', // one key could speak for every worker
    'uppercase-pubkey-accepted': 'malformed', // hex on the wire is lowercase (NIP-01)
    'kind-as-string-accepted': 'malformed', // a kind is a number (NIP-01)
    'gradient-examples-python-int-underscore': 'malformed', // one spelling per number
  };

  test.each(validation.cases)('$name', ({ name, event, accepted }) => {
    if (name in hardened) expect(accepted).toBe(true);
    const expected = hardened[name] ?? (accepted ? 'accepted' : undefined);
    if (expected !== undefined) expect(judge(event)).toBe(expected);
    else expect(judge(event)).not.toBe('accepted');
  });

  test('what crashes a collector of the reference is an ordinary rejection', () => {
    const crashes = validation.cases.filter((each) => each.counted_as_invalid === false);
    expect(crashes.map(({ event }) => judge(event))).toEqual(crashes.map(() => 'malformed'));
  });
});
