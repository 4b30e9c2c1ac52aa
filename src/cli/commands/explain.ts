/** `nostrain explain`: why one worker's contribution to one round was or was not counted. */
import { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { explain as explainRound } from '../../certified/explain.ts';
import { gather } from '../../certified/gather.ts';
import { genesisOf } from '../../certified/history.ts';
import { addSourceFlags, openSource, type SourceFlags } from '../../certified/history-source.ts';
import { type ReplayedRound, replay } from '../../certified/replay.ts';
import { startOf } from '../../certified/start.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import { readKey } from '../../run/spec-fields.ts';
import { wholeFlag } from '../../terminal/flags.ts';
import { onInterrupt } from '../../terminal/interrupt.ts';
import { asJson } from '../../terminal/output.ts';

interface Flags extends SourceFlags {
  readonly round: number;
  readonly worker: string;
  readonly json?: boolean;
}

export const explain = (): Command =>
  addSourceFlags(
    new Command('explain').description(
      "say why a worker's contribution to a round was or was not counted",
    ),
  )
    .requiredOption('--round <n>', 'the round, from 0', wholeFlag('--round', 0))
    .requiredOption('--worker <npub>', 'whose contribution')
    .option('--events <file>', 'read this instead of asking relays')
    .option('--json', 'tell it as JSON')
    .action(async (flags: Flags) => {
      const interrupt = onInterrupt();
      try {
        const worker = readKey(flags.worker);
        if (worker === undefined) {
          throw new ConfigError('flag/worker', `--worker ${flags.worker} is not a public key`, {
            hint: 'give npub1… or 64 hex digits',
          });
        }
        const { run, spec, events, beacons } = await openSource(flags, interrupt.signal);
        const known = { beacons: beacons.values, crypto: nativeCrypto };
        const gathered = gather(events, { run, spec }, known);
        const [asked, after] = rounds(
          replay(genesisOf(spec, startOf(spec)), gathered),
          flags.round,
        );
        if (asked === undefined) {
          throw new ConfigError('flag/round', `the run has no round ${flags.round} that is here`);
        }
        const told = explainRound(worker, asked, after, gathered);
        const text = `${told.why.join('\n')}\n`;
        process.stdout.write(flags.json ? asJson({ worker, round: flags.round, ...told }) : text);
      } finally {
        interrupt.dispose();
      }
    });

/** That round and the next one. */
function rounds(
  playing: Generator<ReplayedRound, unknown>,
  wanted: number,
): readonly (ReplayedRound | undefined)[] {
  const found: ReplayedRound[] = [];
  for (const round of playing) {
    if (round.round >= wanted) found.push(round);
    if (found.length === 2) break;
  }
  return found;
}
