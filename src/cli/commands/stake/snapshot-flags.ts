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
    .option('--list <file>', '--from file: lines like npub1… 100')
    .option('--unit <word>', '--from file: what is counted', 'stake')
    .option('--id <hex>', '--from event: which snapshot')
    .addOption(
      repeatable(
        '--relay <url>',
        'where to look for the event, and to --publish; repeatable',
      ).default([], 'none'),
    )
    .option('--publish', 'send the snapshot to the relays as an event');

const addTokenFlags = (command: Command): Command =>
  command
    .option('--contract <0x…>', 'the registry, or the token')
    .addOption(whole('--from-block <n>', 'block that created the registry', 0).default(0))
    .addOption(whole('--height <n>', 'block of the snapshot (default: the newest final one)', 0))
    .option('--keys <file>', 'tokens: keys whose balances count, one npub per line')
    .addOption(
      whole('--balance-slot <n>', '--from erc20: storage slot of its balances, to prove them', 0),
    );

/** Solana's main network. */
export const MAINNET = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';

const addPsycheFlags = (command: Command): Command =>
  command
    .option('--chain <caip2>', '--from psyche: the Solana cluster', MAINNET)
    .option('--account <base58>', '--from psyche: the coordinator account')
    .option('--run <name>', '--from psyche: the run that the account is of')
    .addOption(
      whole('--epoch <n>', '--from psyche: the epoch whose clients count', 0).helpGroup('Basic:'),
    )
    .addOption(
      new Option('--weights <how>', '--from psyche: one each, or points earned')
        .choices(['equal', 'earned'])
        .helpGroup('Basic:')
        .default('equal'),
    )
    .option('--links <file>', '--from psyche: signed links from accounts to Nostr keys')
    .addOption(whole('--cutoff <s>', '--from psyche: unix seconds at which links are judged', 0));
