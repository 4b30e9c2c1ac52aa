/** `nostrain sample`: text written by the shared parameters of a run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { tokenizers } from '../../model/data/tokenizer.ts';
import { runFolderOf } from '../../node/local-runs.ts';
import { gptSpec, optimizerOf } from '../../node/prepare-task.ts';
import { createTrainer } from '../../node/trainer/trainer.ts';
import { readStateFile } from '../../python/node/state-io.ts';
import { presets } from '../../run/presets.ts';
import { completeSettings, type Settings } from '../../run/settings.ts';
import {
  addSettingFlags,
  numeric,
  settingsFromFile,
  settingsFromFlags,
  whole,
} from '../../terminal/flags.ts';
import { writeResult } from '../../terminal/output.ts';

interface Flags {
  readonly prompt: string;
  readonly length: number;
  readonly temperature: number;
  readonly output?: string;
}

export const sample = (): Command =>
  addSettingFlags(
    new Command('sample')
      .description('write text with the parameters of a run')
      .argument('<state>', 'name of a run (`nostrain runs`), its folder, or a state file')
      .option('--prompt <text>', 'text to continue', '\n')
      .addOption(whole('--length <n>', 'tokens to write', 1, 1_000_000).default(400))
      .addOption(
        numeric('--temperature <x>', 'spread; 0 always takes the likeliest token', 0, 100).default(
          0.8,
        ),
      ),
    ['seed', 'tokens', 'width', 'layers', 'heads', 'context', 'ffn'],
  )
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (named: string, flags: Flags, command: Command) => {
      const { temperature } = flags;
      const state = await runFolderOf(named);
      const { layout, values } = await readStateFile(state);
      const settings = await settingsOf(state, command);
      const tokenizer = tokenizers[settings.tokens];
      const { tokens } = tokenizer.encode(flags.prompt);
      const none = new Uint8Array(settings.context + 1);
      const trainer = await createTrainer({
        model: gptSpec(settings, tokenizer.vocabulary),
        optimizer: optimizerOf(settings),
        batch: 1,
        data: { kind: 'tokens', shard: none, validation: none },
        device: 'cpu',
      });
      try {
        if (trainer.layout.size !== layout.size) {
          throw new ConfigError(
            'sample/model',
            `${state} holds ${layout.size} parameters, the model has ${trainer.layout.size}`,
            {
              hint: 'give the sizes it was trained with: --width, --layers, --heads, --context, --ffn, --tokens',
            },
          );
        }
        const { length } = flags;
        const request = { prompt: tokens, length, temperature, seed: settings.seed };
        const text = tokenizer.decode(await trainer.sample(Float32Array.from(values), request));
        await writeResult(`${flags.prompt.trimStart()}${text}\n`, flags.output);
      } finally {
        await trainer.close();
      }
    });

/** The run's own settings where the folder has them, then flags. */
async function settingsOf(state: string, command: Command): Promise<Settings> {
  const file = join(state, 'settings.json');
  const kept = existsSync(file) ? await settingsFromFile(file) : {};
  const unused = { run: 'sample', relay: [], model: 'char-gpt' } as const;
  return completeSettings(presets['char-gpt'], unused, kept, settingsFromFlags(command));
}
