/** Text encodings of single tag values (integers, hex, names). A parser accepts exactly what its encoder writes. */

export interface Text<T> {
  /** What the generated page says of it. */
  readonly says: string;
  /** The value, or undefined when the spelling is any other than the canonical one. */
  read(text: string): T | undefined;
  write(value: T): string;
}

const LARGEST = 4_294_967_295;

/** No control character beyond those NIP-01 lists, no lone surrogate: programs hash the others differently. */
const isHashable = (text: string): boolean =>
  !/\p{Surrogate}/u.test(text) &&
  [...text].every((char) => char >= ' ' || '\b\t\n\f\r'.includes(char));

/** A canonical decimal integer: no sign, no space, no leading zero. */
export const integer = (least: number, most: number = LARGEST): Text<number> => ({
  says: most === LARGEST ? `integer >= ${least}` : `integer ${least}..${most}`,
  read: (text) => {
    if (!/^(?:0|[1-9]\d{0,15})$/.test(text)) return undefined;
    const value = Number(text);
    return value >= least && value <= most ? value : undefined;
  },
  write: (value) => String(value),
});

/** 0 and up, to 2^32 - 1. */
export const index = integer(0);
/** 1 and up, to 2^32 - 1. */
export const count = integer(1);

/** A moment, in unix seconds. */
export const seconds: Text<number> = {
  ...integer(1, Number.MAX_SAFE_INTEGER),
  says: 'unix seconds',
};

/** Text of some length that every JSON writer escapes the same way. */
const text = (longest: number): Text<string> => ({
  says: `text, 1..${longest} characters`,
  read: (value) =>
    value !== '' && value.length <= longest && isHashable(value) ? value : undefined,
  write: (value) => value,
});

/** Names of runs and workers, URLs, free words. */
export const name = text(256);

/** Free text without blanks around it; blanks on the wire are dropped. */
export const word: Text<string> = {
  says: 'text, trimmed',
  read: (value) => name.read(value.trim()),
  write: (value) => value.trim(),
};

/** Text of one form, given as a regular expression and in words. */
export const pattern = (form: RegExp, says: string): Text<string> => ({
  says,
  read: (value) => (form.test(value) ? value : undefined),
  write: (value) => value,
});

/** 32 bytes: a digest, a hash, a key. */
export const hex32 = pattern(/^[0-9a-f]{64}$/, '64 lowercase hex digits');

/** Standard base64 with padding. */
export const base64Text: Text<string> = {
  says: 'padded base64',
  read: (value) => (isBase64(value) ? value : undefined),
  write: (value) => value,
};

const SYMBOLS = new Set('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/');
const isSymbol = Uint8Array.from({ length: 65_536 }, (_, code) =>
  SYMBOLS.has(String.fromCharCode(code)) ? 1 : 0,
);

/** The same as a regular expression, ten times as fast on the long texts that payloads are. */
function isBase64(value: string): boolean {
  if (value.length === 0 || value.length % 4 !== 0) return false;
  const end = value.length - (value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0);
  for (let i = 0; i < end; i++) if (isSymbol[value.charCodeAt(i)] === 0) return false;
  return true;
}

/** How many bytes padded base64 stands for. */
export const base64Bytes = (value: string): number =>
  (value.length / 4) * 3 - (value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0);
