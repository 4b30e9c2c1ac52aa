/** `nostrain decode-payload PAYLOAD`: the delta inside a payload, as a JSON state. */
import { Command } from 'commander';
import { formatStateJson } from '../../formats/state-json.ts';
import { writeResult } from '../../terminal/output.ts';
import { readPayload } from './payloads.ts';

export const decodePayloadCommand = (): Command =>
  new Command('decode-payload')
    .description('print the delta (after - before) inside a payload')
    .argument('<payload>', 'file with base64 text, or JSON with a "payload" member')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (payload: string, { output }: { output?: string }) => {
      await writeResult(formatStateJson(await readPayload(payload)), output);
    });
