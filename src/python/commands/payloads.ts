/** Commands on payloads of the Python reference: pack the difference of two states, unpack, apply, average. */
import { difference, moved } from '../../formats/arithmetic.ts';
import { indentedJson } from '../../formats/python-json.ts';
import { formatStateJson } from '../../formats/state-json.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { choice, toggle, withDefault } from '../../terminal/flag-table.ts';
import { writeResult } from '../../terminal/output.ts';
import {
  assertWritable,
  outputFlag,
  stateFormatFlag,
  stateOutputFlags,
  writeState,
} from '../../terminal/state-flags.ts';
import { encodeNstr } from '../codec/nstr.ts';
import { openZstd } from '../node/zstd.ts';
import { aggregateWeightedDeltas, type WeightedDelta } from '../outer-step.ts';
import { PAYLOAD_WORDS, payloadJson, readDelta, readPayload } from './files.ts';
import { decimal, pythonCommand, share } from './flags.ts';

export const encodeDelta = pythonCommand({
  name: 'encode-delta',
  description: 'pack what was learned between two states, its largest values, as int8',
  words: { initial: 'state before training', current: 'state after training' },
  flags: {
    topk: withDefault(decimal('<share>', 'share of the values that is sent', share), 0.01),
    codec: withDefault(
      choice('<name>', 'compression; zstd only where every worker reads it', ['zlib', 'zstd']),
      'zlib',
    ),
    raw: toggle('print the base64 text alone'),
    stateFormat: stateFormatFlag,
    output: outputFlag,
  },
  async run({ topk: ratio, codec, raw, stateFormat, output }, { initial, current }) {
    const before = await readStateFile(initial, stateFormat);
    const after = await readStateFile(current, stateFormat);
    const zstd = codec === 'zstd' ? await openZstd() : undefined;
    const encoded = encodeNstr(difference(before, after, current), { ratio, zstd });
    const written = raw ? encoded.payload : indentedJson(payloadJson(encoded));
    await writeResult(`${written}\n`, output);
  },
});

export const decodePayload = pythonCommand({
  name: 'decode-payload',
  description: 'print the delta (after - before) inside a payload',
  words: { payload: PAYLOAD_WORDS },
  flags: { output: outputFlag },
  async run({ output }, { payload }) {
    await writeResult(formatStateJson(await readPayload(payload)), output);
  },
});

export const applyPayload = pythonCommand({
  name: 'apply-payload',
  description: 'add the delta inside a payload to a state',
  words: { base: 'state to add to', payload: PAYLOAD_WORDS },
  flags: { stateFormat: stateFormatFlag, ...stateOutputFlags },
  async run(flags, { base, payload }) {
    assertWritable(flags);
    const state = await readStateFile(base, flags.stateFormat);
    await writeState(moved(state, await readPayload(payload), payload), flags);
  },
});

export const aggregatePayloads = pythonCommand({
  name: 'aggregate-payloads',
  description: 'print the mean of deltas; events weigh their examples, everything else weighs 1',
  words: { 'inputs...': 'deltas (JSON states), payloads or gradient events' },
  flags: { output: outputFlag },
  async run({ output }, { 'inputs...': inputs }) {
    const deltas: WeightedDelta[] = [];
    for (const input of inputs) deltas.push(await readDelta(input));
    await writeResult(formatStateJson(aggregateWeightedDeltas(deltas)), output);
  },
});
