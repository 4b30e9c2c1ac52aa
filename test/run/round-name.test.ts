import { expect, it } from 'vitest';
import { roundIndex, roundName, roundNumber } from '../../src/run/ids.ts';

it('people count rounds from 1, code from 0', () => {
  expect([roundName(0), roundNumber(4), roundIndex(5)]).toEqual(['round 1', 5, 4]);
});
