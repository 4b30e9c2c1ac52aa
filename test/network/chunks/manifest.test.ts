/** Manifests of chunked files: one canonical text per file, and hostile manifests are refused cheaply. */

import { sha256Hex, utf8 } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../src/base/canonical-json.ts';
import {
  type FileManifest,
  layoutProblem,
  MOST_MANIFEST_BYTES,
  manifestDigest,
  manifestText,
  parseManifest,
  piecesOf,
} from '../../../src/network/chunks/manifest.ts';

const hashes = (name: string) => ({
  sha256: sha256Hex(utf8(name)),
  blake3: sha256Hex(utf8(`${name} in another way`)),
});
const manifest: FileManifest = {
  ...hashes('whole'),
  bytes: 3 * 2 ** 14 + 5,
  root: sha256Hex(utf8('root')),
  chunkBytes: 2 ** 14,
  erasure: { data: 3, parity: 2 },
  chunks: ['a', 'b', 'c', 'd'].map(hashes),
  parity: ['p', 'q', 'r', 's'].map(hashes),
};
type Fields = Record<string, unknown>;
const textWith = (change: (fields: Fields) => void): string => {
  const fields = JSON.parse(manifestText(manifest)) as Fields;
  change(fields);
  return canonicalJson(fields as never);
};
const issueOf = (text: string) => {
  const parsed = parseManifest(text);
  return parsed.ok ? undefined : `${parsed.issue.at}: ${parsed.issue.message}`;
};

describe('the manifest', () => {
  it('is read back from its text, whose SHA-256 is its digest', () => {
    expect(parseManifest(manifestText(manifest))).toEqual({ ok: true, value: manifest });
    expect(manifestDigest(manifest)).toBe(sha256Hex(utf8(manifestText(manifest))));
    const plain = { ...manifest, erasure: null, parity: [], root: null };
    expect(parseManifest(manifestText(plain))).toEqual({ ok: true, value: plain });
  });

  it('says of every chunk where it belongs and how long it is', () => {
    const told = piecesOf(manifest).map(({ name, bytes, group, row, offset }) =>
      [name, bytes, group, row, offset].join(' '),
    );
    expect(told).toEqual([
      'chunk 0 16384 0 0 0',
      'chunk 1 16384 0 1 16384',
      'chunk 2 16384 0 2 32768',
      'parity 0 of group 0 16384 0 3 ',
      'parity 1 of group 0 16384 0 4 ',
      'chunk 3 5 1 0 49152',
      'parity 0 of group 1 5 1 3 ',
      'parity 1 of group 1 5 1 4 ',
    ]);
  });

  it.each<[string, string, (fields: Fields) => void]>([
    ['2^40 bytes', 'at', (m) => Object.assign(m, { bytes: 2 ** 40 })],
    ['no bytes', '0 bytes', (m) => Object.assign(m, { bytes: 0, chunks: [], parity: [] })],
    ['a fraction of a byte', 'bytes', (m) => Object.assign(m, { bytes: 1.5 })],
    ['tiny chunks', 'chunks of 1', (m) => Object.assign(m, { chunkBytes: 1 })],
    ['huge chunks', 'chunkBytes', (m) => Object.assign(m, { chunkBytes: 2 ** 30 })],
    ['a chunk too many', '5 chunks, but', (m) => (m.chunks as unknown[]).push(['a', 'b'].map((n) => hashes(n).sha256))], // biome-ignore format: one case
    ['a chunk too few', '3 chunks, but', (m) => (m.chunks as unknown[]).pop()],
    ['parity missing', '3 parity chunks', (m) => (m.parity as unknown[]).pop()],
    ['a group of nothing', 'a group needs', (m) => Object.assign(m, { stripe: { data: 0, parity: 1 } })], // biome-ignore format: one case
    ['a group too large', 'a group needs', (m) => Object.assign(m, { stripe: { data: 200, parity: 100 } })], // biome-ignore format: one case
    ['offsets, which could overlap', 'chunks', (m) => (m.chunks as unknown[]).splice(0, 1, { offset: 0, bytes: 9 })], // biome-ignore format: one case
    ['names of files', 'chunks', (m) => (m.chunks as unknown[]).splice(0, 1, ['../../etc/passwd', '/etc/shadow'])], // biome-ignore format: one case
    ['another member', 'unknown members', (m) => Object.assign(m, { path: '../x' })],
    ['another format', 'format', (m) => Object.assign(m, { format: 'nostrain/chunks/2' })],
    ['a root in capitals', 'root', (m) => Object.assign(m, { root: 'A'.repeat(64) })],
    ['a root that is a number', 'root', (m) => Object.assign(m, { root: 5 })],
    ['a group of 300', 'stripe', (m) => Object.assign(m, { stripe: { data: 300, parity: 1 } })],
    ['three hashes of a chunk', 'chunks', (m) => (m.chunks as unknown[][])[0]!.push('ab'.repeat(32))], // biome-ignore format: one case
    ['hashes in capitals', 'sha256', (m) => Object.assign(m, { sha256: 'A'.repeat(64) })],
  ])('is refused with %s', (_, words, change) => {
    const issue = issueOf(textWith(change));
    expect(issue).toContain(words === 'at' ? '1099511627776 bytes' : words);
  });

  it('has at most 2^18 chunks with parity, and 40 MiB of text', () => {
    const problem = (bytes: number, erasure: FileManifest['erasure'] = null) =>
      layoutProblem(bytes, { chunkBytes: 2 ** 14, erasure });
    expect([problem(2 ** 32), problem(2 ** 31, { data: 2, parity: 2 })]).toEqual([undefined, undefined]); // biome-ignore format: one line
    expect(problem(2 ** 32 + 1)).toBe('262145 chunks: at most 262144');
    expect(problem(2 ** 31 + 1, { data: 2, parity: 2 })).toBe('262147 chunks: at most 262144');
    expect(problem(2 ** 36)).toContain('4194304 chunks');
    for (const [data, parity] of [[255, 1], [1, 255]] as const) expect(problem(1, { data, parity })).toBeUndefined(); // biome-ignore format: one line
    for (const [data, parity] of [[256, 1], [1, 256], [128, 129], [1, 0], [1.5, 1]] as const) expect(problem(1, { data, parity })).toContain('a group needs'); // biome-ignore format: one line
    expect(issueOf(' '.repeat(MOST_MANIFEST_BYTES))).toContain('not JSON');
    expect(issueOf(' '.repeat(MOST_MANIFEST_BYTES + 1))).toContain('characters');
  });

  it('is refused where one SHA-256 names two chunks that differ', () => {
    const [a] = manifest.chunks;
    const twice = { ...manifest, chunks: [a!, { ...hashes('b'), sha256: a!.sha256 }, ...manifest.chunks.slice(2)] }; // biome-ignore format: one line
    expect(issueOf(manifestText(twice))).toContain('chunk 0 and chunk 1 have the same SHA-256');
    const longAndShort = { ...manifest, chunks: [...manifest.chunks.slice(0, 3), a!] };
    expect(issueOf(manifestText(longAndShort))).toContain('chunk 0 and chunk 3');
  });

  it('has one spelling', () => {
    expect(issueOf(`${manifestText(manifest)}\n`)).toContain('canonical');
    expect(issueOf(JSON.stringify(JSON.parse(manifestText(manifest)), null, 1))).toContain('canonical'); // biome-ignore format: one line
    expect(issueOf('')).toContain('not JSON');
    expect(issueOf('[]')).toContain('body');
  });
});
