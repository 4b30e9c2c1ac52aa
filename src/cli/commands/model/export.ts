/** `nostrain model export`: what a run made of a published model, in the files of other programs. */
import { basename, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { fixedLora } from '../../../model/adapters/lora.ts';
import type { BaseModel } from '../../../node/base-model.ts';
import { isHubReference, parseHubReference } from '../../../node/pretrained/hub.ts';
import { assertFree, writeFile, writeFolder } from '../../../node/pretrained/write-model.ts';
import type { TrainedRun } from '../../../node/text-writer.ts';
import { adapterFiles, modelFiles } from '../../../pretrained/export/folders.ts';
import { ggufFile } from '../../../pretrained/export/gguf.ts';
import type { Learned } from '../../../pretrained/export/learned.ts';
import { addSettingFlags, settingsFromFlags } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { formatBytes } from '../../../terminal/render/numbers.ts';
import { slowly } from '../../shared/archive-source.ts';
import { openTrainedBase, readTrainedRun } from '../../shared/trained-run.ts';

interface Flags {
  readonly peft?: string;
  readonly merged?: string;
  readonly gguf?: string;
  readonly dtype: keyof typeof types;
}

/** What a folder and a GGUF file make of each number format; one of the two may lack it. */
const types = {
  f32: { folder: 'f32', gguf: 'f32' },
  f16: { folder: 'f16', gguf: 'f16' },
  bf16: { folder: 'bf16', gguf: undefined },
  q8_0: { folder: undefined, gguf: 'q8_0' },
} as const;

export const exportModel = (): Command =>
  addSettingFlags(
    new Command('export')
      .description('write what a run made of a published model, for other programs')
      .argument('<run>', 'name of a run (`nostrain runs`), its folder, or a state file')
      .option('--peft <dir>', 'folder to write the adapter to, as PEFT loads it')
      .option('--merged <dir>', 'folder to write the whole model to, as transformers loads it')
      .option('--gguf <file>', 'file to write the whole model to, as llama.cpp loads it')
      .addOption(
        new Option('--dtype <type>', 'number format of the whole model; q8_0 for GGUF only')
          .choices(Object.keys(types))
          .default('f32'),
      ),
    ['base', 'rank', 'alpha', 'targets', 'adapterTrain', 'seed'],
  ).action((named: string, flags: Flags, command: Command) =>
    interruptibly(async (signal) => {
      const targets = [flags.peft, flags.merged, flags.gguf].filter((path) => path !== undefined);
      if (targets.length === 0) {
        throw new ConfigError('flag/export', 'say what to write: --peft, --merged or --gguf', {
          hint: '--peft DIR is the smallest, --gguf FILE goes to llama.cpp',
        });
      }
      const run = await readTrainedRun(named, settingsFromFlags(command));
      const base = await openTrainedBase(run, { onNotice: writeNote, signal });
      const writes = planned(run, base, flags);
      for (const path of targets) await assertFree(path);
      for (const write of writes) await write(signal);
    }),
  );

type Write = (signal: AbortSignal) => Promise<void>;

/** What cannot be written is refused before anything is. */
function planned(run: TrainedRun, base: BaseModel, flags: Flags): readonly Write[] {
  const { peft, merged, gguf, dtype } = flags;
  const learned = learnedOf(run, base);
  const { folder: folderType, gguf: ggufType } = types[dtype];
  const writes: Write[] = [];
  const plan = (
    path: string,
    work: (options: Parameters<typeof writeFile>[2]) => Promise<number>,
  ) =>
    writes.push(async (signal) => {
      const report = slowly();
      const onBytes = (bytes: number) => report(`${path}: ${formatBytes(bytes)}`);
      writeOut(`${path}: ${formatBytes(await work({ onBytes, signal }))}\n`);
    });
  if (peft !== undefined) {
    if (!base.adapter)
      throw unfit(`${run.path} trained all parameters and has no adapter`, '--merged');
    const files = adapterFiles(learned, base.adapter, baseName(run.settings.base));
    plan(peft, (options) => writeFolder(peft, files, options));
  }
  if (merged !== undefined) {
    if (!folderType) throw unfit(`a folder cannot hold ${dtype}`, '--dtype f16');
    const files = modelFiles(learned, folderType);
    plan(merged, (options) => writeFolder(merged, files, options));
  }
  if (gguf !== undefined) {
    if (!ggufType) throw unfit(`a GGUF file of this program cannot hold ${dtype}`, '--dtype f16');
    const file = ggufFile(learned, ggufType, basename(gguf, '.gguf'));
    plan(gguf, (options) => writeFile(gguf, file, options));
  }
  return writes;
}

const unfit = (message: string, instead: string): ConfigError =>
  new ConfigError('export/unfit', message, { hint: `use ${instead}` });

/** The adapter with what of it was never trained, or the whole model. */
function learnedOf({ settings, layout, values }: TrainedRun, base: BaseModel): Learned {
  const { pretrained, adapter, spec } = base;
  const own = new Map(
    layout.slots.map(({ name, offset, size }) => [name, values.subarray(offset, offset + size)]),
  );
  const fixed = adapter ? fixedLora(spec, adapter, settings.seed) : {};
  return { pretrained, adapter, own: (name) => own.get(name) ?? fixed[name]! };
}

/** As other programs find it: its name on the hub, or where it lies. */
const baseName = (base: string): string =>
  isHubReference(base) ? parseHubReference(base).repository : resolve(base);
