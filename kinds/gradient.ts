/** Gradient (33333, addressable): one worker's compressed pseudo-gradient for one round. */
import { base64 } from './_content.ts';
import { defineKind } from './_define.ts';
import {
  address,
  count,
  index,
  name,
  nostrain,
  one,
  optional,
  pattern,
  run,
  scope,
  worker,
} from './_tags.ts';

const notes = `
The payload decodes to the pseudo-gradient in the direction of improvement: parameters after the
inner steps minus parameters before. (Papers, and the rest of this code, use before minus after.)

Only the k values of largest magnitude are sent; at equal magnitude the lower index comes first.
k = max(1, ceil(n × ratio)) in double arithmetic. scale = (largest magnitude) / 127, or 1 if all
values are zero. Each value is sent as value / scale, rounded half to even; a receiver multiplies it
by scale and uses 0 for all other values.

\`\`\`text
payload   = base64(container), standard alphabet, padded
container = "NSCP" | u8 version 1 | u8 codec | compressed block
  codec 1 = zlib, 2 = zstd (not supported by every worker)
block     = "NSTR" | u8 version 1 | f64 ratio | u32 n | u32 k | u16 tensors | f64 scale
          | per tensor: u16 name bytes, UTF-8 name, u16 rank, rank × u32 dimensions
          | k × u32 flat indices, ascending | k × i8 values
\`\`\`

Integers and floats are little-endian, without padding and without trailing bytes. \`compression\`
is \`topk-\`, the ratio with four decimals (exact ties to even), \`-int8-\` and the codec's name. A
receiver recomputes \`compression\`, \`params\`, \`values\` and \`selected\` from the block. This
implementation also refuses indices that repeat, descend or are out of range, the value -128, and a
scale that is not a positive finite number.
`;

/** 33333: one worker's compressed pseudo-gradient for one round. */
export const gradient = defineKind({
  kind: 33333,
  name: 'gradient',
  summary: "one worker's compressed pseudo-gradient for one round",
  sent: 'once per round, after the inner steps; a newer one replaces it until the round is decided',
  tags: {
    slot: address('one gradient per worker and round', 'run:<run>:worker:<worker>:round:<round>'),
    nostrain,
    run,
    round: one('round', index, 'round index, from 0'),
    worker,
    model: one('model', name, 'digest of the state the worker started the round from'),
    steps: one('steps', count, 'inner steps taken'),
    compression: one(
      'compression',
      pattern(/^topk-\d{1,3}\.\d{4}-int8-(?:zlib|zstd)$/, '`topk-R.RRRR-int8-CODEC`'),
      'encoding of the payload',
    ),
    params: one('params', count, 'number of tensors'),
    values: one('values', count, 'number of values, n'),
    selected: one('selected', count, 'number of values sent, k'),
    examples: optional('examples', count, 'training examples seen; the weight in a weighted mean'),
    scope: scope('for relays to index', '<run>', '<run>/<round>'),
  },
  content: base64('payload', 'the NSCP container below'),
  notes,
});
