/** `nostrain doctor`: tries what training a model needs on this machine, and what the given relays offer. */
import { Command, Option } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { combineSettings, modelAsked, presets } from '../../../run/spec/presets.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { addSettingFlags, settingsFromFlags } from '../../../terminal/options.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { type Check, formatChecks } from './check.ts';
import { fixCuda } from './fix-cuda.ts';
import { checkMachine } from './machine.ts';
import { checkRelays } from './relays.ts';

interface Flags {
  readonly relay: readonly string[];
  readonly fix?: 'cuda';
  readonly from?: string;
  readonly sha256?: string;
  readonly json?: boolean;
}

/** What decides which model devices are tried on. */
const MODEL_FLAGS = [
  'model',
  'base',
  'rank',
  'alpha',
  'targets',
  'basePrecision',
  'width',
  'layers',
  'heads',
  'context',
  'ffn',
  'hidden',
  'tokens',
  'optimizer',
  'batchSize',
  'recompute',
  'precision',
] as const;

const isOfRelay = ({ name }: Check): boolean => name.startsWith('relay ');
const isGoodRelay = (check: Check): boolean => isOfRelay(check) && check.level !== 'broken';

export const doctor = (): Command =>
  addSettingFlags(
    new Command('doctor')
      .description('check whether this machine and the given relays can train a model')
      .addOption(
        repeatable('--relay <url>', 'look at this relay too, repeatable').default([], 'none'),
      )
      .addOption(
        new Option(
          '--fix <part>',
          "put the part of onnxruntime for NVIDIA cards in place, from its package for Python; pip fetches it where --from doesn't say",
        ).choices(['cuda']),
      )
      .option('--from <file>', 'the package: a .whl or .nupkg file')
      .option('--sha256 <hash>', 'what a package that this program does not know must hash to')
      .option('--json', 'print JSON'),
    MODEL_FLAGS,
  ).action(async ({ relay, json, ...flags }: Flags, command: Command) => {
    const fixed = flags.fix === undefined ? [] : [await fixCuda(flags)];
    const given = settingsFromFlags(command);
    const model = modelAsked(given) ?? 'char-gpt';
    const settings = combineSettings(presets[model], { ...given, model, run: 'doctor', relay: [] });
    const [relays, machine] = await Promise.all([checkRelays(relay), checkMachine(settings)]);
    const checks = [...fixed, ...machine, ...relays];
    const broken = checks.filter(({ level }) => level === 'broken');
    writeOut(json ? asJson({ ok: broken.length === 0, checks }) : formatChecks(checks));
    if (broken.length === 0) return;
    const names = broken.map((check) => check.name).join(', ');
    const isHindered = broken.some((check) => !isOfRelay(check)) || !checks.some(isGoodRelay);
    throw new ConfigError(
      'doctor/broken',
      isHindered
        ? `training will not work here: ${names}`
        : `training will work over the other relays only: ${names}`,
    );
  });
