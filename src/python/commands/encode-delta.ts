/** `nostrain encode-delta INITIAL CURRENT`: what was learned between two states, as a payload of the Python reference. */
import { Command, Option } from 'commander';
import { difference } from '../../formats/arithmetic.ts';
import { indentedJson } from '../../formats/python-json.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { writeResult } from '../../terminal/output.ts';
import type { BlockCodec } from '../codec/container.ts';
import { encodeNstr } from '../codec/nstr.ts';
import { openZstd } from '../node/zstd.ts';
import { decimal, share } from './number-flags.ts';
import { payloadJson } from './payloads.ts';
import { addStateInput } from './state-formats.ts';

interface Flags {
  readonly topk: number;
  readonly codec: BlockCodec;
  readonly raw?: true;
  readonly stateFormat: Parameters<typeof readStateFile>[1];
  readonly output?: string;
}

export const encodeDelta = (): Command =>
  addStateInput(
    new Command('encode-delta')
      .description('pack what was learned between two states, its largest values, as int8')
      .argument('<initial>', 'state before training')
      .argument('<current>', 'state after training')
      .addOption(decimal('--topk <share>', 'share of the values that is sent', share).default(0.01))
      .addOption(
        new Option('--codec <name>', 'compression; zstd only where every worker reads it')
          .choices(['zlib', 'zstd'])
          .default('zlib'),
      )
      .option('--raw', 'print the base64 text alone'),
  )
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (initial: string, current: string, flags: Flags) => {
      const before = await readStateFile(initial, flags.stateFormat);
      const after = await readStateFile(current, flags.stateFormat);
      const zstd = flags.codec === 'zstd' ? await openZstd() : undefined;
      const encoded = encodeNstr(difference(before, after, current), { ratio: flags.topk, zstd });
      const text = flags.raw ? encoded.payload : indentedJson(payloadJson(encoded));
      await writeResult(`${text}\n`, flags.output);
    });
