/** Our worker in place of one of two recorded reference workers, with the other's events: same hashes and summary. */

import { indentedJson, isJsonObject } from 'nostrain/formats';
import { parseStateJson } from 'nostrain/python';
import { expect, it } from 'vitest';
import { sessionSummary } from '../../../src/python/commands/run-training/artifacts.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { stateText } from '../../support/state-text.ts';
import session from '../../vectors/session.json' with { type: 'json' };
import { startReferenceWorker } from '../support/reference-worker.ts';

const { config, initial_state, datasets, secret_keys, public_keys } = session;
const sessions = { a: session.session_a, b: session.session_b };

/** Event ids, which depend on dates and on our scope tags. */
const masked = (text: string) =>
  text.replaceAll(/"(published_\w+_event_id)": "[0-9a-f]{64}"/g, '"$1": "masked"');

it.each(['a', 'b'] as const)('N-02: worker %s of session.json', async (name) => {
  const theirs = sessions[name];
  const relay = createMemoryRelay(theirs.relays[0]!);
  for (const event of session.events) if (event.pubkey !== public_keys[name]) relay.put(event);
  const clock = createManualClock(1_700_000_000_000);
  const worker = startReferenceWorker({
    clock,
    relays: relay.connect(),
    secretKey: secret_keys[name],
    dataset: datasets[name],
    params: parseStateJson(stateText(initial_state)),
    isCompatible: true,
    plan: {
      ...{ run: config.run_name, rounds: config.rounds, innerSteps: config.inner_steps },
      outer: { learningRate: config.outer_learning_rate, momentum: config.outer_momentum },
      roundTimeoutMs: config.round_timeout * 1000,
      checkpointHistory: config.checkpoint_history,
    },
    learningRate: config.local_learning_rate,
    batchSize: config.batch_size,
    ratio: config.topk_ratio,
  });
  await clock.advance(60_000);
  const state = await worker.finished;
  const summary = sessionSummary(state, {
    ...{ run: theirs.run, worker: worker.id, relays: theirs.relays, runtime: theirs.runtime },
    ...{ backend: theirs.backend, startRound: 0, artifactRetentionRounds: undefined },
    checkpointHistory: config.checkpoint_history,
  });
  const { final_state, final_momentum_state, ...recorded } = theirs;
  expect(isJsonObject(summary)).toBe(true);
  expect(JSON.parse(masked(indentedJson(summary)))).toEqual(
    JSON.parse(masked(JSON.stringify(recorded, null, 2))),
  );
  expect(Object.keys(JSON.parse(indentedJson(summary)))).toEqual(Object.keys(recorded));
});
