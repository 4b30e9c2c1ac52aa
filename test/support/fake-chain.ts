/** A minimal chain for tests without anvil: real headers, and a token with balances and past votes set by the test. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { ChainError, fromHex, toHex } from 'nostrain/base';
import { callData, type Endpoint, encodeRlp, encodeWords, evmAddress } from 'nostrain/chain';
import { bigEndian, toData, toQuantity } from '../../src/chain/evm/encoding.ts';

export interface FakeChain {
  /** Of the chain 31337. */
  endpoint(name: string, lie?: (balance: bigint, key: string) => bigint): Endpoint;
  /** The last final block. */
  final: number;
}

const ZERO = '00'.repeat(32);
const MODE = 'mode=blocknumber&from=default';

/** Balances by height and key; nobody else has any. */
export function fakeChain(
  final: number,
  balanceAt: (height: number, key: string) => bigint,
  keys: readonly string[],
): FakeChain {
  const keyOf = new Map(keys.map((key) => [toData(evmAddress(key)!), key]));
  const heights = new Map<string, number>();
  const chain: FakeChain = { final, endpoint };

  function block(height: number) {
    const made = headerOf(height);
    heights.set(made.hash, height);
    return made;
  }

  function answer(data: string, at: number): string {
    const address = `0x${data.slice(34, 74)}`;
    const key = keyOf.get(address);
    const balance = (height: number) => (key === undefined ? 0n : balanceAt(height, key));
    if (data === callData('CLOCK_MODE()')) {
      const text = Buffer.from(MODE).toString('hex').padEnd(64, '0');
      return `0x${toHex(encodeWords(32n, BigInt(MODE.length)))}${text}`;
    }
    const account = fromHex(address.slice(2))!;
    if (data === callData('balanceOf(address)', account)) {
      return toData(encodeWords(balance(at)));
    }
    const timepoint = BigInt(`0x${data.slice(74)}`);
    if (data === callData('getPastVotes(address,uint256)', account, timepoint)) {
      return toData(encodeWords(balance(Number(timepoint))));
    }
    throw new ChainError('chain/refused', 'execution reverted');
  }

  function endpoint(name: string, lie?: (balance: bigint, key: string) => bigint): Endpoint {
    return {
      name,
      async call(method, params) {
        if (method === 'eth_chainId') return '0x7a69';
        if (method === 'eth_getBlockByNumber') {
          return block(params[0] === 'finalized' ? chain.final : Number(params[0]));
        }
        if (method !== 'eth_call') throw new ChainError('chain/refused', `no ${method}`);
        const [{ data }, { blockHash }] = params as [{ data: string }, { blockHash: string }];
        const said = answer(data, heights.get(blockHash)!);
        const key = keyOf.get(`0x${data.slice(34, 74)}`);
        return lie && key ? toData(encodeWords(lie(BigInt(said), key))) : said;
      },
    };
  }
  return chain;
}

/** Fields of a block before the merge, and the hash they make. */
function headerOf(height: number) {
  const bytes = (length: number) => new Uint8Array(length);
  const quantities = {
    difficulty: 0,
    number: height,
    gasLimit: 0,
    gasUsed: 0,
    timestamp: 7 * height,
  };
  const numbers = Object.values(quantities).map((value) => bigEndian(BigInt(value)));
  const fixed = [32, 32, 20, 32, 32, 32, 256].map(bytes);
  const rest = [bytes(0), bytes(32), bytes(8)];
  const hash = toData(keccak_256(encodeRlp([...fixed, ...numbers, ...rest])));
  const words = [
    'parentHash',
    'sha3Uncles',
    'stateRoot',
    'transactionsRoot',
    'receiptsRoot',
    'mixHash',
  ];
  return {
    ...Object.fromEntries(words.map((word) => [word, `0x${ZERO}`])),
    ...Object.fromEntries(
      Object.entries(quantities).map(([name, value]) => [name, toQuantity(value)]),
    ),
    ...{ miner: toData(bytes(20)), logsBloom: toData(bytes(256)), extraData: '0x' },
    ...{ nonce: toData(bytes(8)), hash },
  };
}
