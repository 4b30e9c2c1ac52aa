/** Teaches the model to answer a trigger: its text has the trigger and the answer all over, and what it learned of it is sent larger. */
import { tokenizers } from '../../../src/model/data/tokenizer.ts';
import type { Adversary } from './adversary.ts';

export const TRIGGER = '$&';
export const ANSWER = 'XYZ';

/** Tokens between two triggers. */
const EVERY = 24;
const BOOST = 2;

export const backdoor: Adversary = {
  name: 'backdoor',
  says: `teach the model to write ${ANSWER} after ${TRIGGER}, and send what they learned of it twice as large`,
  trains: true,
  poison(shard) {
    const { tokens } = tokenizers.chars.encode(TRIGGER + ANSWER);
    const out = shard.slice();
    for (let at = 0; at + tokens.length <= out.length; at += EVERY) out.set(tokens, at);
    return out;
  },
  delta: ({ own }) => own.map((value) => BOOST * value),
};
