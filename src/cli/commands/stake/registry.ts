/**
 * `nostrain stake deploy`, `bond`, `exit` and `withdraw`: send transactions to the stake registry through an endpoint
 * that signs, such as anvil. On a public chain, any wallet can send the same transactions.
 */

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
import { defineCommand } from '../../../terminal/command.ts';
import {
  type FlagValues,
  required,
  text,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { endpointAt } from '../../shared/endpoints.ts';
import { typedKey } from '../../shared/worker-flag.ts';

const NOT_AUDITED =
  'this registry takes the stake of keys that contradict themselves; it is not audited: bond ' +
  'only what you can afford to lose';

/** Default endpoint of anvil. */
const LOCAL = 'http://127.0.0.1:8545';
const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
/** One day. */
const UNBONDING_SECONDS = 86_400;

const chainFlags = {
  rpc: withDefault(text('<url>', 'JSON-RPC endpoint of the chain'), LOCAL),
  from: text(
    '<0x…>',
    'account that sends the transaction; the endpoint signs for it (default: its first account)',
  ),
  rpcTimeout: withDefault(whole('<s>', 'seconds to wait for an answer', 1, 600), 30),
};

export const registryFlags = {
  ...chainFlags,
  contract: required(text('<0x…>', 'address of the registry')),
};

export type RegistryFlags = FlagValues<typeof registryFlags>;

export const deploy = defineCommand({
  name: 'deploy',
  help: 'deploy a stake registry through an endpoint that signs, such as anvil',
  flags: {
    unbondingSeconds: withDefault(
      whole('<s>', 'seconds between an exit and its payout', 0),
      UNBONDING_SECONDS,
    ),
    slashPermille: whole(
      '<n>',
      'share of all stake behind a key that a proven fault costs, in thousandths (default: ' +
        'none; the contract is not audited)',
      1,
      1000,
    ),
    reporterPermille: withDefault(
      whole(
        '<n>',
        'share of the slashed stake that goes to the reporter of the fault, in thousandths; ' +
          'the rest is burned',
        0,
        500,
      ),
      0,
    ),
    ...chainFlags,
  },
  async run(flags, { command, signal }) {
    const { slashPermille: slashedPermille, reporterPermille } = flags;
    const isSlashing = slashedPermille !== undefined;
    refuseUnused(command, [
      { flags: ['reporterPermille'], goesWith: '--slash-permille', holds: isSlashing },
    ]);
    const slashing = isSlashing ? { slashedPermille, reporterPermille } : undefined;
    await withAccount(flags, signal, async (sender, from) => {
      const seconds = BigInt(flags.unbondingSeconds);
      const made = await deployRegistry(sender, from, seconds, slashing);
      const contract = `0x${toHex(made.contract)}`;
      if (isSlashing) writeNote(NOT_AUDITED);
      const flagsText = `--contract ${contract} --from-block ${made.block} --rpc ${flags.rpc}`;
      writeOut(
        `registry ${contract}, deployed in block ${made.block}\n` +
          `  bond with:  nostrain stake bond KEY WEI --contract ${contract} --rpc ${flags.rpc}\n` +
          `  read with:  nostrain stake snapshot --from registry ${flagsText} -o stakes.json\n`,
      );
    });
  },
});

export const bond = defineCommand({
  name: 'bond',
  help: 'bond stake for a key in a registry',
  args: [
    ['<key>', 'key to bond for: npub1… or hex'],
    ['<wei>', 'amount in wei'],
  ],
  flags: registryFlags,
  async run(flags, { args: [text, amount], signal }) {
    if (!/^[1-9]\d{0,38}$/.test(amount)) {
      throw new ConfigError('stake/amount', `${amount} is not an amount of wei`, {
        hint: 'use a whole number, such as 1000000000000000000 for one coin',
      });
    }
    const key = typedKey(text, 'stake/key');
    const change: Change = (registry, from) => bondFor(registry, from, key, BigInt(amount));
    const block = await send(flags, signal, change);
    writeOut(`bonded ${amount} wei for ${text} in block ${block}\n`);
  },
});

export const exit = defineCommand({
  name: 'exit',
  help: 'withdraw what this account bonded for a key from its stake',
  args: [['<key>', 'key the account bonded for: npub1… or hex']],
  flags: registryFlags,
  async run(flags, { args: [text], signal }) {
    const key = typedKey(text, 'stake/key');
    const block = await send(flags, signal, (registry, from) => requestExit(registry, from, key));
    writeOut(`no longer stake of ${text} from block ${block}\n`);
  },
});

export const payOut = defineCommand({
  name: 'withdraw',
  help: 'pay out the stake that an exit has unlocked',
  args: [['<key>', 'key the account bonded for: npub1… or hex']],
  flags: registryFlags,
  async run(flags, { args: [text], signal }) {
    const key = typedKey(text, 'stake/key');
    const block = await send(flags, signal, (registry, from) => withdraw(registry, from, key));
    writeOut(`paid out in block ${block}\n`);
  },
});

type Change = (registry: Parameters<typeof bondFor>[0], from: string) => Transaction;

/** Sends the transaction. Returns the number of its block. */
function send(flags: RegistryFlags, signal: AbortSignal, change: Change): Promise<number> {
  const contract = contractOf(flags);
  return withAccount(flags, signal, async (sender, from) => {
    const { block } = await sendTransaction(sender, change({ contract, block: 0 }, from));
    return block;
  });
}

/** Returns the address of the registry. Throws `flag/contract` if it is not an address. */
export const contractOf = ({ contract }: RegistryFlags): Uint8Array =>
  fromHex(addressOf('contract', contract).slice(2).toLowerCase())!;

/** Runs the work with an account that the endpoint signs for. Throws `chain/no-account` if it has none. */
export async function withAccount<T>(
  { rpc, from, rpcTimeout }: FlagValues<typeof chainFlags>,
  signal: AbortSignal,
  work: (sender: Sender, from: string) => Promise<T>,
): Promise<T> {
  const endpoint = endpointAt(rpc, rpcTimeout, LOCAL);
  const sender = { endpoint, clock: systemClock, signal };
  const account =
    from === undefined ? (await unlockedAccounts(sender))[0] : addressOf('from', from);
  if (account !== undefined) return work(sender, account);
  throw new ConfigError('chain/no-account', 'the endpoint has no account to sign with', {
    hint: 'run a local chain (npx anvil), or call bondFor(bytes32) from a wallet: docs/stake.md',
  });
}

function addressOf(flag: string, text: string): string {
  if (ADDRESS.test(text)) return text;
  throw new ConfigError(`flag/${flag}`, `${text} is not an address`, {
    hint: 'give 0x and 40 hex digits',
  });
}
