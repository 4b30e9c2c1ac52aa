/** `nostrain apply-payload BASE PAYLOAD`: where a state gets to by the delta inside a payload. */
import { Command } from 'commander';
import { moved } from '../../formats/arithmetic.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { readPayload } from './payloads.ts';
import {
  addStateInput,
  addStateOutput,
  assertWritable,
  type StateOutput,
  writeState,
} from './state-formats.ts';

interface Flags extends StateOutput {
  readonly stateFormat: Parameters<typeof readStateFile>[1];
}

export const applyPayload = (): Command =>
  addStateOutput(
    addStateInput(
      new Command('apply-payload')
        .description('add the delta inside a payload to a state')
        .argument('<base>', 'state to add to')
        .argument('<payload>', 'file with base64 text, or JSON with a "payload" member'),
    ),
  ).action(async (base: string, payload: string, flags: Flags) => {
    assertWritable(flags);
    const state = await readStateFile(base, flags.stateFormat);
    await writeState(moved(state, await readPayload(payload), payload), flags);
  });
