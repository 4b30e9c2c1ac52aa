/** `nostrain checkpoint push`: the chunks of a folder and their manifest to relays, Blossom servers and other folders. */
import { Command } from 'commander';
import { addConnectionFlags } from '../../../terminal/connection.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { addPushFlags, type PushFlags, pushFolders } from '../../shared/push-chunks.ts';

/** The command. */
export const push = (): Command =>
  addPushFlags(
    addConnectionFlags(
      new Command('push')
        .description(
          'store the chunks of a folder and their manifest on relays, on Blossom servers or in folders',
        )
        .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
        .addOption(
          repeatable(
            '--to <place>',
            'wss://… of a relay, https://… of a Blossom server, or a folder, repeatable',
          ).makeOptionMandatory(),
        )
        .option('--mirror <url>', 'let servers fetch from there what they have not got (BUD-04)'),
    ),
  ).action(async (folder: string, flags: PushFlags & { readonly mirror?: string }) => {
    await interruptibly((signal) => pushFolders([folder], flags, signal));
  });
