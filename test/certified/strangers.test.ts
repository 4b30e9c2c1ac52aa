/** Five strangers, who may have earned seats, next to the four founders of an open run. */

import { replayRun } from 'nostrain/certified';
import {
  assignmentOf,
  createEvidenceStore,
  roundParametersOf,
  unwrapRuling,
} from 'nostrain/certified/parts';
import { CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { certifiedSpec, generateRun, type Round, signerOf } from '../support/certified-run.ts';

const strangers = [5, 6, 7, 8, 9];
const keyOf = (number: number) => signerOf(number).publicKey;
const ROUNDS = 6;
const open = (foundersDecide: boolean) =>
  certifiedSpec({
    admission: { kind: 'open' },
    ...{ foundersDecide, joinsPerRound: 5, training: { rounds: ROUNDS } },
  });
const roundsOf = (round: Round): readonly Round[] => [
  {},
  { joins: strangers },
  ...new Array<Round>(ROUNDS - 2).fill(round),
];
const valuesOf = (foundersDecide: boolean, round: Round) =>
  Float64Array.from(generateRun(roundsOf(round), open(foundersDecide)).state.params.values);
const norm = (values: Float64Array) => Math.hypot(...values);

describe('attack: five strangers send harm in every round, from the first that counts them', () => {
  it('the model goes where the founders take it', async () => {
    const alone = valuesOf(true, { absent: strangers });
    const away = (values: Float64Array) => norm(values.map((value, i) => value - alone[i]!));
    expect(away(valuesOf(true, { hostile: strangers }))).toBeLessThan(0.5 * norm(alone));
    expect(away(valuesOf(false, { hostile: strangers }))).toBeGreaterThan(norm(alone));
  });

  it('a replay computes the same, and the history of sizes is that of the founders', async () => {
    const spec = open(true);
    const { events, state } = generateRun(roundsOf({ hostile: strangers }), spec);
    const honest = generateRun(roundsOf({ absent: strangers }), spec);
    expect(state.ledger.rowSizes).toEqual(honest.state.ledger.rowSizes);
    expect(await replayRun({ events, beacons: [] }, { spec })).toMatchObject({
      ...{ ok: true, rounds: ROUNDS },
    });
  });
});

it('strangers own no chunk, though they have earned seats: they send in addition', () => {
  const CHUNKS = 40;
  const layout = createLayout([{ name: 'w', shape: [CHUNKS * CHUNK_LENGTH] }]);
  const { state } = generateRun(roundsOf({}), open(true));
  const parameters = unwrapRuling(roundParametersOf(state, createEvidenceStore()));
  const training = { ...state.spec.training, owners: 2 };
  const assignment = assignmentOf({ ...parameters, layout, spec: { ...state.spec, training } });
  const owners = new Array<number>(CHUNKS).fill(0);
  for (const number of [1, 2, 3, 4]) {
    for (const chunk of assignment.chunksOf(keyOf(number))) owners[chunk]! += 1;
  }
  expect(owners).toEqual(new Array<number>(CHUNKS).fill(2));
  for (const number of strangers) {
    expect(assignment.chunksOf(keyOf(number)).length).toBeGreaterThan(0);
  }
});
