/** Hex as Ethereum's JSON-RPC writes it: `0x` before it, quantities without leading zeros, everything else at full length. */
import { fromHex, toHex } from '../../base/bytes.ts';

/** Bytes of `0x…`, of exactly `length` where it is given; undefined for anything else. */
export function dataOf(value: unknown, length?: number): Uint8Array | undefined {
  if (typeof value !== 'string' || !value.startsWith('0x')) return undefined;
  const bytes = fromHex(value.slice(2).toLowerCase());
  return length === undefined || bytes?.length === length ? bytes : undefined;
}

/** An unsigned integer of up to 256 bits in its shortest form. */
export function quantityOf(value: unknown): bigint | undefined {
  if (typeof value !== 'string' || !/^0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,63})$/.test(value))
    return undefined;
  return BigInt(value);
}

/** The same where it must fit a number. */
export function numberOf(value: unknown): number | undefined {
  const quantity = quantityOf(value);
  return quantity !== undefined && quantity <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(quantity)
    : undefined;
}

export const toQuantity = (value: number): string => `0x${value.toString(16)}`;

export const toData = (bytes: Uint8Array): string => `0x${toHex(bytes)}`;
