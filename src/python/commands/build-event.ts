/** `nostrain build-event PAYLOAD`: a gradient event of the Python reference around a payload. */
import { Command } from 'commander';
import { gradientDraft } from '../wire/build-reference-event.ts';
import {
  type AuthorFlags,
  addAuthorFlags,
  createdAtOf,
  workerOf,
  writeEvent,
} from './events/authorship.ts';
import { integer } from './number-flags.ts';
import { openPayload, readPayloadText } from './payloads.ts';

interface Flags extends AuthorFlags {
  readonly run: string;
  readonly round: number;
  readonly model: string;
  readonly steps: number;
  readonly examples?: number;
}

export const buildEvent = (): Command =>
  addAuthorFlags(
    new Command('build-event')
      .description('wrap a payload into a gradient event (kind 33333), signed or not')
      .argument('<payload>', 'file with base64 text, or JSON with a "payload" member')
      .requiredOption('--run <name>', 'name of the run')
      .addOption(integer('--round <n>', 'round index, from 0', 0).makeOptionMandatory())
      .requiredOption('--model <digest>', 'digest of the state the round started from')
      .addOption(integer('--steps <n>', 'inner steps taken', 1).default(500))
      .addOption(
        integer(
          '--examples <n>',
          'examples seen; the weight of the gradient (default: it weighs 1)',
          1,
        ),
      ),
  ).action(async (path: string, flags: Flags) => {
    const { run, round, model, steps, examples } = flags;
    const payload = await readPayloadText(path);
    const { stats } = await openPayload(payload, path);
    const about = { run, round, model, steps, examples, worker: workerOf(flags) };
    await writeEvent(
      () => gradientDraft({ ...about, createdAt: createdAtOf(flags) }, payload, stats),
      flags,
    );
  });
