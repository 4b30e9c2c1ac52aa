/**
 * A run with session keys: a session key is admitted under its principal's name, has its stake, and a replay agrees.
 */

import { runIdOf } from 'nostrain/run';
import { expect, it } from 'vitest';
import {
  certifiedRounds,
  certifiedSpec,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { delegatedBy } from '../support/delegated.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { signerOf } from '../support/signers.ts';
import { smallLayout as layout } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;
/** The invited principal, which never takes part itself. */
const OWNER = signerOf(40);

it('N-25: an invited key takes part with a session key that no one else may use, and the run replays', async () => {
  const { url } = relay();
  const admission = { kind: 'list', keys: [OWNER.publicKey] };
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2], rounds: 6 },
    document: { sessions: true, admission },
  });
  expect(spec.features).toEqual(['sessions']);
  const of = { run: runIdOf(spec), session: keyOf(3) };
  const by = delegatedBy(OWNER, of, 5);
  const shown = (one: typeof by | null) => ({
    evidence: '',
    features: { sessions: { by: one } },
  });
  const members = [0, 1, 2].map((index) =>
    start({ index, relays: [url], spec, admission: shown(null) }),
  );
  const session = start({ index: 3, relays: [url], spec, admission: shown(by) });
  // it presents the delegation to another key
  const thief = start({ index: 4, relays: [url], spec, admission: shown(by) });
  const ends = await Promise.all([...members, session].map(({ finished }) => finished));
  expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
  const counted = certifiedRounds(members[0]!).flatMap(({ accepted }) => accepted);
  expect(counted).toContain(keyOf(3));
  expect(counted).not.toContain(keyOf(4));
  const row = ends[0]!.head.ledger.members.find(({ key }) => key === keyOf(3));
  thief.stop();
  const { rounds, ...found } = replayed(
    spec,
    layout,
    await historyOf(url, spec, layout, undefined, stage),
  );
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(6).fill('full'));
  expect(Object.keys(found).length).toBeGreaterThan(0);
  const joins = rounds.flatMap(({ decided }) => decided!.outcome.joins);
  expect(joins.find(({ key }) => key === keyOf(3))?.features?.sessions?.by).toEqual(by);
  // delegated until the last round, so not for the round of the ledger after it
  expect(row).toBeUndefined();
});
