/** Checkpoint (33335, addressable): the complete training state of a worker after a round, to resume from. */
import { jsonObject } from './_content.ts';
import { defineKind } from './_define.ts';
import {
  address,
  count,
  hex32,
  index,
  nostrain,
  one,
  optional,
  run,
  scope,
  worker,
} from './_tags.ts';

const notes = `
The content is canonical JSON: keys sorted by code point at every level, no spaces, non-ASCII
verbatim, integers as integers, floats as Python prints them (shortest digits that round-trip;
\`1.0\`, \`1e-05\`, \`1e+16\`). Its members:

- \`format\` and \`version\`: \`nostrain-training-checkpoint\` and 2
- \`run\`, \`worker\`, \`relays\` (list), \`runtime\`: the author, and the kind of model
- \`next_round\`, \`rounds_completed\`: integers, equal to the tags
- \`current_state\`, \`current_model_hash\`: parameters and their digest
- \`momentum_state\`: outer momentum, in the direction of improvement; absent without momentum
- \`rounds\`, \`late_gradients\`, \`late_reconciliations\`: history, lists of objects
- \`late_gradient_since\`, \`updated_at\`: unix seconds

A state is \`{"parameters": {"<name>": {"shape": [...], "values": [...]}}}\`, values in row-major
order. A reader needs only \`run\`, \`next_round\`, \`rounds_completed\` (or \`rounds\`) and
\`current_state\` to accept a checkpoint.
`;

/** 33335: the complete training state of a worker after a round. */
export const checkpoint = defineKind({
  kind: 33335,
  name: 'checkpoint',
  summary: 'the complete training state of a worker after a round',
  sent: 'after a round, for workers that resume or join late; slots are reused in turn',
  tags: {
    place: address(
      'one checkpoint per worker and slot, or per round without a slot',
      'run:<run>:worker:<worker>:checkpoint:round:<round>',
      'run:<run>:worker:<worker>:checkpoint:slot:<slot>',
    ),
    nostrain,
    run,
    worker,
    round: one('round', index, 'last completed round'),
    slot: optional('slot', index, 'slot of the checkpoint that this one replaces'),
    nextRound: one('next-round', count, 'round to continue with'),
    model: one('model', hex32, "digest of the content's `current_state`"),
    roundsCompleted: one('rounds-completed', count, 'number of completed rounds'),
    checkpoint: one('checkpoint', hex32, 'SHA-256 of the canonical content'),
    scope: scope('for relays to index', '<run>'),
  },
  content: jsonObject('body', 'the training state below'),
  rules: [
    { says: 'next-round is after round', holds: ({ round, nextRound }) => nextRound > round },
  ],
  notes,
});
