/** Mutates valid documents as input for fuzzed parsers. The same seed gives the same mutations. */

/** Draws integers from 0 to below the number given (mulberry32). */
export type Draw = (below: number) => number;

export function createDraw(seed: number): Draw {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

export const pick = <T>(items: readonly T[], draw: Draw): T => items[draw(items.length)]!;

const EDGES: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    -0,
    -1,
    1,
    1.5,
    255,
    65_535,
    65_536,
    2 ** 31,
    2 ** 32,
    2 ** 53,
    -(2 ** 53),
  ],
  ...[
    1e300,
    5e-324,
    '',
    ' ',
    '0',
    '-1',
    '1e9',
    '00',
    'NaN',
    'null',
    '\u0000',
    '\ud800',
    '\u202e\u001b[2J',
    '﷽',
  ],
  ...[
    'f'.repeat(64),
    'F'.repeat(64),
    '0'.repeat(63),
    '0'.repeat(128),
    'x'.repeat(5000),
    '__proto__',
    'constructor',
  ],
  ...[
    'AAAA',
    'AAA=',
    '====',
    'wss://user:p@[::1]:0/?q#f',
    [],
    {},
    [[]],
    [''],
    [['']],
    [null],
    { '': '' },
  ],
  { __proto__: null, length: 2 ** 32 },
  Array.from({ length: 70 }, (_, i) => i),
  Array.from({ length: 300 }, (_, i) => [String.fromCharCode(97 + (i % 26)), `${i}`]),
];

/** As text: itself, or its JSON. */
export const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? '');

const deep = (levels: number): unknown => {
  let value: unknown = 0;
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
  return value;
};

/** A copy with one member somewhere changed, added, repeated or gone. */
export function mutateJson(value: unknown, draw: Draw): unknown {
  if (typeof value !== 'object' || value === null || draw(6) === 0) return mutateLeaf(value, draw);
  if (Array.isArray(value)) return mutateList(value, draw);
  const names = Object.keys(value);
  const name = names.length === 0 || draw(12) === 0 ? textOf(pick(EDGES, draw)) : pick(names, draw);
  const copy: Record<string, unknown> = { ...value };
  const kind = draw(8);
  if (kind === 0) delete copy[name];
  else if (kind === 1) copy[name] = pick(EDGES, draw);
  else if (kind === 2) copy[name] = copy[pick(names.length > 0 ? names : [name], draw)];
  else copy[name] = mutateJson(copy[name], draw);
  return copy;
}

function mutateList(list: readonly unknown[], draw: Draw): unknown {
  const copy = [...list];
  const at = draw(copy.length + 1);
  const kind = draw(10);
  if (kind === 0) copy.splice(at, 1);
  else if (kind === 1) copy.splice(at, 0, pick(EDGES, draw));
  else if (kind === 2) copy.splice(at, 0, copy[draw(copy.length)]);
  else if (kind === 3) copy.reverse();
  else if (kind === 4) return Array.from({ length: 1 + draw(40) }, () => copy[0]);
  else if (at < copy.length) copy[at] = mutateJson(copy[at], draw);
  return copy;
}

function mutateLeaf(value: unknown, draw: Draw): unknown {
  if (draw(200) === 0) return deep(10 + draw(3000));
  if (typeof value === 'number' && draw(2) === 0) {
    return pick([value + 1, value - 1, -value, value * 2 ** 32, value + 0.5], draw);
  }
  if (typeof value !== 'string' || draw(3) === 0) return pick(EDGES, draw);
  // a text that is JSON is changed inside
  if (/^[[{]/.test(value) && draw(4) > 0) {
    try {
      return JSON.stringify(mutateJson(JSON.parse(value), draw)) ?? '';
    } catch {
      return mutateText(value, draw);
    }
  }
  return mutateText(value, draw);
}

/** Cuts, repeats, or changes characters. */
export function mutateText(text: string, draw: Draw): string {
  const at = draw(text.length + 1);
  const upTo = Math.min(text.length, at + draw(9));
  switch (draw(6)) {
    case 0:
      return text.slice(0, at);
    case 1:
      return text.slice(0, at) + text.slice(upTo);
    case 2:
      return text.slice(0, at) + textOf(pick(EDGES, draw)) + text.slice(upTo);
    case 3:
      return text.slice(0, at) + text.slice(at, upTo).repeat(1 + draw(50)) + text.slice(upTo);
    case 4:
      return text.slice(0, at) + String.fromCharCode(draw(300)) + text.slice(at + 1);
    default:
      return text.toUpperCase();
  }
}

const BYTES = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff];

/** Flips, fills, cuts, grows or moves bytes, one to four times. */
export function mutateBytes(original: Uint8Array, draw: Draw): Uint8Array {
  let bytes = original.slice();
  for (let left = 1 + draw(4); left > 0 && bytes.length > 0; left--) {
    const at = draw(bytes.length);
    const kind = draw(8);
    if (kind < 3) bytes[at] = bytes[at]! ^ (1 << draw(8));
    else if (kind === 3) bytes[at] = pick(BYTES, draw);
    else if (kind === 4) bytes.fill(pick(BYTES, draw), at, at + 1 + draw(8));
    else if (kind === 5) bytes = bytes.slice(0, at);
    else if (kind === 6)
      bytes = Uint8Array.of(...bytes.subarray(0, at), ...bytes.subarray(at >> 1));
    else bytes.copyWithin(at, draw(bytes.length));
    if (bytes.length > 8192) bytes = bytes.slice(0, 8192);
  }
  return bytes;
}
