/** Layout of Intel quotes (TDX DCAP Quoting Library API, appendix A; SGX ECDSA Quote Library Reference, appendix A). */
import { ok, type Result, refuse } from '../base/errors.ts';

/** The parts of a quote. */
export interface Quote {
  readonly isTdx: boolean;
  /** Header and body: what the attestation key signs. */
  readonly signed: Uint8Array;
  readonly body: Uint8Array;
  readonly signature: Uint8Array;
  /** Two coordinates of the attestation key. */
  readonly key: Uint8Array;
  /** Report of the quoting enclave, its signature by the processor's key, and data that it binds. */
  readonly enclave: Uint8Array;
  readonly enclaveSignature: Uint8Array;
  readonly enclaveData: Uint8Array;
  /** PEM. */
  readonly certificates: string;
}

const HEADER_BYTES = 48;
const SGX_BODY_BYTES = 384;
const TDX_BODY_BYTES = 584;
const TDX_15_BODY_BYTES = 648;
const ECDSA_P256 = 2;
const TDX_MACHINE = 0x81;
const [PEM_CHAIN, CERTIFIED_ENCLAVE] = [5, 6];
const MOST_QUOTE_BYTES = 16_384;

/** Reads bytes from the start on; every number is little-endian. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(count: number): Uint8Array {
    const end = this.#at + count;
    if (end > this.#bytes.length) throw new RangeError('a quote is cut off');
    const part = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return part;
  }

  number(bytes: 2 | 4): number {
    return this.take(bytes).reduceRight((sum, byte) => 256 * sum + byte, 0);
  }

  sized(bytes: 2 | 4): Uint8Array {
    return this.take(this.number(bytes));
  }
}

/** Reads a quote of version 3 to 5; refuses other layouts. */
export function readQuote(bytes: Uint8Array): Result<Quote> {
  if (bytes.length > MOST_QUOTE_BYTES) {
    return refuse('too-large', 'report', `a quote has at most ${MOST_QUOTE_BYTES} bytes`);
  }
  try {
    const quote = quoteOf(bytes);
    return quote ? ok(quote) : refuse('unknown-version', 'report', 'a quote of another version');
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return refuse('malformed', 'report', error.message);
  }
}

function quoteOf(bytes: Uint8Array): Quote | undefined {
  const reader = new Reader(bytes);
  const [version, algorithm, machine] = [reader.number(2), reader.number(2), reader.number(4)];
  reader.take(HEADER_BYTES - 8);
  const isTdx = machine === TDX_MACHINE;
  const isKnown = version === 3 ? machine === 0 : isTdx && (version === 4 || version === 5);
  if (!isKnown || algorithm !== ECDSA_P256) return undefined;
  const [type, size] = version === 5 ? [reader.number(2), reader.number(4)] : [];
  const bodyBytes = size ?? (isTdx ? TDX_BODY_BYTES : SGX_BODY_BYTES);
  if (type === 3 && size !== TDX_15_BODY_BYTES) return undefined;
  if (type === 2 && size !== TDX_BODY_BYTES) return undefined;
  if (type !== undefined && type !== 2 && type !== 3) return undefined;
  const body = reader.take(bodyBytes);
  const signed = bytes.subarray(0, body.byteOffset - bytes.byteOffset + bodyBytes);
  const authentication = new Reader(reader.sized(4));
  const [signature, key] = [authentication.take(64), authentication.take(64)];
  let enclaveReader = authentication;
  if (version > 3) {
    if (authentication.number(2) !== CERTIFIED_ENCLAVE) return undefined;
    enclaveReader = new Reader(authentication.sized(4));
  }
  const enclave = enclaveReader.take(SGX_BODY_BYTES);
  const enclaveSignature = enclaveReader.take(64);
  const enclaveData = enclaveReader.sized(2);
  if (enclaveReader.number(2) !== PEM_CHAIN) return undefined;
  const certificates = new TextDecoder().decode(enclaveReader.sized(4));
  const all = { isTdx, signed, body, signature, key, enclave, enclaveSignature, enclaveData };
  return { ...all, certificates };
}
