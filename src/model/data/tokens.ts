/**
 * Token ids in memory: one byte each while the vocabulary allows it, else 32 bits, from the corpus to the training graph.
 */
import { ConfigError } from '../../base/errors.ts';

/** Token ids: one byte each while the vocabulary allows it, else 32 bits. */
export type Tokens = Uint8Array | Int32Array;

/** The largest vocabulary whose ids fit a byte. */
const BYTE_VOCABULARY = 256;

/** How the ids of a vocabulary are stored, which is also the type of the graph's `corpus` input. */
export const tokenType = (vocabulary: number): 'u8' | 'i32' =>
  vocabulary <= BYTE_VOCABULARY ? 'u8' : 'i32';

/** The ids as a vocabulary stores them: the same array where it fits already. */
export function storeTokens(tokens: ArrayLike<number>, vocabulary: number): Tokens {
  if (tokenType(vocabulary) === 'u8') {
    return tokens instanceof Uint8Array ? tokens : Uint8Array.from(tokens);
  }
  return tokens instanceof Int32Array ? tokens : Int32Array.from(tokens);
}

/** Throws a ConfigError (`training/data`) on an id that the vocabulary lacks. */
export function assertTokens(tokens: Tokens, vocabulary: number): void {
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (token >= 0 && token < vocabulary) continue;
    throw new ConfigError(
      'training/data',
      `token ${token} is outside the vocabulary of ${vocabulary}`,
      { hint: 'use the tokenizer that belongs to the model', data: { token, at: i } },
    );
  }
}
