/** Reads the golden vectors of outer steps by the Python reference, round by round. */
import { type JsonState, readVectors } from './vectors.ts';

interface Stored {
  readonly order: string[];
  readonly state: JsonState;
  readonly digest: string;
}

interface Case {
  readonly name: string;
  readonly learning_rate: number;
  readonly momentum: number;
  readonly base_state: JsonState;
  readonly rounds: readonly Record<'aggregated_delta' | 'momentum_state' | 'next_state', Stored>[];
}

export const { cases: nesterovCases } = readVectors<{ cases: Case[] }>('nesterov.json');
