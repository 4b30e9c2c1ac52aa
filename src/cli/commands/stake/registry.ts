/**
 * `nostrain stake deploy`, `bond`, `exit` and `withdraw`: the stake registry on a chain whose endpoint signs, as anvil
 * does. On a real chain any wallet sends the same transactions.
 */
import type { Command } from 'commander';
import { systemClock } from '../../../base/async.ts';
import { fromHex, toHex } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import {
  bondFor,
  deployRegistry,
  requestExit,
  type Sender,
  sendTransaction,
  type Transaction,
  unlockedAccounts,
  withdraw,
} from '../../../chain/registry/registry-calls.ts';
import { readKey } from '../../../run/field.ts';
import type { WorkerId } from '../../../run/ids.ts';
import {
  commandWith,
  type FlagValues,
  required,
  text,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { endpointAt } from '../../shared/endpoints.ts';

const NOT_AUDITED =
  'this registry takes coin from keys that contradict themselves; ' +
  'nobody has audited it: bond what you can lose';

/** Where anvil listens when nobody says otherwise. */
const LOCAL = 'http://127.0.0.1:8545';
const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
/** A day. */
const UNBONDING_SECONDS = 86_400;

const chainFlags = {
  rpc: withDefault(text('<url>', 'JSON-RPC endpoint of the chain'), LOCAL),
  from: text('<0x…>', 'account that pays; the endpoint signs for it (default: its first)'),
  rpcTimeout: withDefault(whole('<s>', 'seconds to wait for an answer', 1, 600), 30),
};

/** How to reach the chain, and its registry. */
export const registryFlags = {
  ...chainFlags,
  contract: required(text('<0x…>', 'the registry')),
};

export type RegistryFlags = FlagValues<typeof registryFlags>;

const deployFlags = {
  unbondingSeconds: withDefault(whole('<s>', 'from an exit to its payment', 0), UNBONDING_SECONDS),
  slashPermille: whole(
    '<n>',
    'thousandths of all coin behind a key that a proven fault of it costs; ' +
      'by default nothing: no outsider has audited that contract',
    1,
    1000,
  ),
  reporterPermille: withDefault(
    whole(
      '<n>',
      'thousandths of what is taken that go to whoever proves the fault; the rest is burned',
      0,
      500,
    ),
    0,
  ),
  ...chainFlags,
};

export const deploy = (): Command =>
  commandWith(
    'deploy',
    'make a stake registry on a chain whose endpoint signs, as anvil does',
    deployFlags,
  ).action(async (flags: FlagValues<typeof deployFlags>, command: Command) => {
    const { slashPermille: slashedPermille, reporterPermille } = flags;
    const isSlashing = slashedPermille !== undefined;
    refuseUnused(command, [
      { flags: ['reporterPermille'], goesWith: '--slash-permille', holds: isSlashing },
    ]);
    const slashing = isSlashing ? { slashedPermille, reporterPermille } : undefined;
    await withAccount(flags, async (sender, from) => {
      const seconds = BigInt(flags.unbondingSeconds);
      const made = await deployRegistry(sender, from, seconds, slashing);
      const contract = `0x${toHex(made.contract)}`;
      if (isSlashing) writeNote(NOT_AUDITED);
      const flagsText = `--contract ${contract} --from-block ${made.block} --rpc ${flags.rpc}`;
      writeOut(
        `registry ${contract}, made in block ${made.block}\n` +
          `  bond with:  nostrain stake bond KEY WEI --contract ${contract} --rpc ${flags.rpc}\n` +
          `  read with:  nostrain stake snapshot --from registry ${flagsText} -o stakes.json\n`,
      );
    });
  });

export const bond = (): Command =>
  commandWith('bond', 'put stake behind a key in a registry', registryFlags)
    .argument('<key>', 'whose stake it is: npub1… or hex')
    .argument('<wei>', 'how much')
    .action(async (text: string, amount: string, flags: RegistryFlags) => {
      if (!/^[1-9]\d{0,38}$/.test(amount)) {
        throw new ConfigError('stake/amount', `${amount} is no amount of wei`, {
          hint: 'say a whole number, such as 1000000000000000000 for one coin',
        });
      }
      const key = keyOf(text);
      const change: Change = (registry, from) => bondFor(registry, from, key, BigInt(amount));
      await send(flags, change, (block) => `bonded ${amount} wei for ${text} in block ${block}\n`);
    });

export const exit = (): Command =>
  commandWith('exit', 'take what this account bonded for a key out of its stake', registryFlags)
    .argument('<key>', 'whose stake it is: npub1… or hex')
    .action(async (text: string, flags: RegistryFlags) => {
      const key = keyOf(text);
      const change: Change = (registry, from) => requestExit(registry, from, key);
      await send(flags, change, (block) => `out of the stake of ${text} since block ${block}\n`);
    });

export const payOut = (): Command =>
  commandWith('withdraw', 'pay out what an exit has unlocked', registryFlags)
    .argument('<key>', 'whose stake it was: npub1… or hex')
    .action(async (text: string, flags: RegistryFlags) => {
      const key = keyOf(text);
      const change: Change = (registry, from) => withdraw(registry, from, key);
      await send(flags, change, (block) => `paid out in block ${block}\n`);
    });

type Change = (registry: Parameters<typeof bondFor>[0], from: string) => Transaction;

function send(flags: RegistryFlags, change: Change, words: (block: number) => string) {
  const contract = contractOf(flags);
  return withAccount(flags, async (sender, from) => {
    const { block } = await sendTransaction(sender, change({ contract, block: 0 }, from));
    writeOut(words(block));
  });
}

/** The address of the registry. */
export const contractOf = ({ contract }: RegistryFlags): Uint8Array =>
  fromHex(addressOf('contract', contract).slice(2).toLowerCase())!;

/** Works with an account that the endpoint signs for. */
export function withAccount(
  { rpc, from, rpcTimeout }: FlagValues<typeof chainFlags>,
  work: (sender: Sender, from: string) => Promise<void>,
): Promise<void> {
  const endpoint = endpointAt(rpc, rpcTimeout, LOCAL);
  return interruptibly(async (signal) => {
    const sender = { endpoint, clock: systemClock, signal };
    const account =
      from === undefined ? (await unlockedAccounts(sender))[0] : addressOf('from', from);
    if (account === undefined) {
      throw new ConfigError('chain/no-account', 'the endpoint signs for no account', {
        hint:
          'run a local chain (npx anvil), ' +
          'or send bondFor(bytes32) from a wallet, docs/stake.md',
      });
    }
    await work(sender, account);
  });
}

function addressOf(flag: string, text: string): string {
  if (ADDRESS.test(text)) return text;
  throw new ConfigError(`flag/${flag}`, `${text} is no address`, {
    hint: 'give 0x and 40 hex digits',
  });
}

/** A key as it is typed. */
export function keyOf(text: string): WorkerId {
  const key = readKey(text);
  if (key !== undefined) return key;
  throw new ConfigError('stake/key', `${text} is no public key`, {
    hint: 'give npub1… or 64 hex digits',
  });
}
