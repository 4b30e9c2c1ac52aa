/** Flags of `nostrain stake snapshot`: where the numbers come from, and what each source must be told. */
import { type Command, Option } from 'commander';
import { repeatable, whole } from '../../../terminal/flags.ts';
import { addAccessFlags } from '../../shared/endpoints.ts';
import { STAKE_SOURCES } from './derive.ts';

/** Adds all of them. */
export const addSnapshotFlags = (command: Command): Command =>
  addPsycheFlags(addTokenFlags(addAccessFlags(addDocumentFlags(command))));

const addDocumentFlags = (command: Command): Command =>
  command
    .addOption(
      new Option('--from <source>', 'where the numbers come from')
        .choices(STAKE_SOURCES)
        .makeOptionMandatory(),
    )
    .option('-o, --output <file>', 'document to write; without it to stdout')
    .option('--list <file>', 'of --from file: lines like npub1… 100')
    .option('--unit <word>', 'of --from file: what is counted', 'stake')
    .option('--id <hex>', 'of --from event: which snapshot')
    .addOption(
      repeatable(
        '--relay <url>',
        'where to look for the event, and to --publish; repeatable',
      ).default([]),
    )
    .option('--publish', 'send the snapshot to the relays as an event');

const addTokenFlags = (command: Command): Command =>
  command
    .option('--contract <0x…>', 'the registry, or the token')
    .addOption(whole('--from-block <n>', 'block that created the registry', 0).default(0))
    .addOption(whole('--height <n>', 'block of the snapshot (default: the newest final one)', 0))
    .option('--keys <file>', 'of tokens: whose balances count, one npub per line')
    .addOption(
      whole('--balance-slot <n>', 'of erc20: storage slot of its balances, to prove them', 0),
    );

/** Solana's main network. */
export const MAINNET = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';

const addPsycheFlags = (command: Command): Command =>
  command
    .option('--chain <caip2>', 'of psyche: the Solana cluster', MAINNET)
    .option('--account <base58>', 'of psyche: the coordinator account')
    .option('--run <name>', 'of psyche: the run that the account is of')
    .addOption(whole('--epoch <n>', 'of psyche: the epoch whose clients count', 0))
    .addOption(
      new Option('--weights <how>', 'of psyche: one each, or points earned')
        .choices(['equal', 'earned'])
        .default('equal'),
    )
    .option('--links <file>', 'of psyche: signed links from accounts to Nostr keys')
    .addOption(whole('--cutoff <s>', 'of psyche: unix seconds at which links are judged', 0));
