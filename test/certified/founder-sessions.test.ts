/**
 * Founders that take part with session keys: a session key decides the first round in its founder's place, and a replay
 * agrees.
 */
import { type RunSpec, runIdOf } from 'nostrain/run';
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
/** The founder whose key is with a remote signer. */
const OWNER = signerOf(40);
const ROUNDS = 4;

function founded(): RunSpec {
  const founders = [keyOf(0), keyOf(1), OWNER.publicKey].sort();
  return certifiedSpec({
    ...{ founders: [0, 1, 2], rounds: ROUNDS },
    document: { sessions: true, founders, author: founders[0] },
  });
}

const shown = (by: ReturnType<typeof delegatedBy> | null) => ({
  evidence: '',
  features: { sessions: { by } },
});

it('a founder behind a remote signer decides with the others from the first round on', async () => {
  const { url } = relay();
  const spec = founded();
  const by = delegatedBy(OWNER, { run: runIdOf(spec), session: keyOf(3) }, ROUNDS - 1);
  const members = [0, 1].map((index) =>
    start({ index, relays: [url], spec, admission: shown(null) }),
  );
  const session = start({ index: 3, relays: [url], spec, admission: shown(by) });
  const ends = await Promise.all([...members, session].map(({ finished }) => finished));
  expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
  const keys = [keyOf(0), keyOf(1), keyOf(3)].sort();
  for (const member of [...members, session]) {
    for (const round of certifiedRounds(member)) {
      expect(round.accepted).toEqual(keys);
      expect(round.certified?.signers).toEqual(keys);
    }
  }
  const history = await historyOf(url, spec, layout, undefined, stage);
  const { rounds } = replayed(spec, layout, history);
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(ROUNDS).fill('full'));
  const [first] = rounds;
  expect(first!.decided!.outcome.joins.map(({ key }) => key)).toEqual(keys);
});
