/** `nostrain doctor`: tries what training needs on this machine, and what the given relays offer. */
import { Command } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { type Check, formatChecks } from './check.ts';
import { checkMachine } from './machine.ts';
import { checkRelays } from './relays.ts';

interface Flags {
  readonly relay: readonly string[];
  readonly json?: boolean;
}

const isGoodRelay = ({ name, level }: Check): boolean =>
  name.startsWith('relay ') && level !== 'broken';

export const doctor = (): Command =>
  new Command('doctor')
    .description('check whether this machine and the given relays can train')
    .addOption(
      repeatable('--relay <url>', 'look at this relay too, repeatable').default([], 'none'),
    )
    .option('--json', 'print JSON')
    .action(async ({ relay, json }: Flags) => {
      const [relays, machine] = await Promise.all([checkRelays(relay), checkMachine()]);
      const checks = [...machine, ...relays];
      const broken = checks.filter(({ level }) => level === 'broken');
      writeOut(json ? asJson({ ok: broken.length === 0, checks }) : formatChecks(checks));
      if (broken.length === 0) return;
      const names = broken.map(({ name }) => name).join(', ');
      const isHindered =
        broken.some(({ name }) => !name.startsWith('relay ')) || !checks.some(isGoodRelay);
      throw new ConfigError(
        'doctor/broken',
        isHindered
          ? `training will not work here: ${names}`
          : `training will work over the other relays only: ${names}`,
      );
    });
