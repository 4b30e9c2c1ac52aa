import { zipSync } from 'fflate';
import { utf8 } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { decodeZip, encodeZip } from '../../src/formats/zip.ts';

const members = [
  { name: 'a', bytes: utf8('hello hello hello') },
  { name: 'é/\u{1f600}', bytes: new Uint8Array(0) },
];
const deflated = zipSync({ a: members[0]!.bytes, b: new Uint8Array(1000) }, { level: 9 });
const codeOf = (file: Uint8Array) => {
  const decoded = decodeZip(file);
  return decoded.ok ? 'ok' : decoded.issue.code;
};

/** The file with a field of its first directory entry changed. */
function withField(file: Uint8Array, at: number, value: number, width: 2 | 4): Uint8Array {
  const out = file.slice();
  const view = new DataView(out.buffer);
  const entry = view.getUint32(out.length - 6, true);
  if (width === 2) view.setUint16(entry + at, value, true);
  else view.setUint32(entry + at, value, true);
  return out;
}

describe('zip archives', () => {
  it('come back as they were written, and again the same', () => {
    expect(decodeZip(encodeZip(members))).toEqual({ ok: true, value: members });
    expect(encodeZip(members)).toEqual(encodeZip(members));
  });

  it('are read where they are deflated', () => {
    const decoded = decodeZip(deflated);
    expect(decoded.ok && decoded.value[0]!.bytes).toEqual(members[0]!.bytes);
    expect(decoded.ok && decoded.value[1]!.bytes).toEqual(new Uint8Array(1000));
  });

  it('are read behind other bytes of a buffer', () => {
    const file = encodeZip(members);
    const buffer = Buffer.concat([Buffer.alloc(3), file, Buffer.alloc(0)]);
    expect(codeOf(buffer.subarray(3))).toBe('ok');
  });

  it.each([
    ['zip/damaged', 16, 1, 4, 'another CRC'],
    ['zip/damaged', 24, 16, 4, 'a size too small'],
    ['zip/damaged', 24, 18, 4, 'a size too large'],
    ['zip/bomb', 24, 0x7fff_ffff, 4, 'a size beyond all reason'],
    ['zip/truncated', 20, 0xffff, 4, 'more bytes than there are'],
    ['zip/truncated', 42, 5, 4, 'no header there'],
    ['zip/truncated', 42, 0xffff_ffff, 4, 'an offset behind the file'],
    ['zip/truncated', 0, 0, 4, 'no entry'],
    ['zip/method', 10, 12, 2, 'another method'],
    ['zip/method', 8, 1, 2, 'encryption'],
    ['zip/name', 28, 0xffff, 2, 'a name longer than the directory'],
    ['zip/truncated', 32, 0xffff, 2, 'a comment longer than the file'],
  ] as const)('%s: byte %d is %d (%d bytes), %s', (code, at, value, width, _) => {
    expect(codeOf(withField(deflated, at, value, width))).toBe(code);
  });

  it('with two sizes, a repeated name, or cut short are refused', () => {
    expect(codeOf(withField(encodeZip(members), 24, 3, 4))).toBe('zip/size');
    const twice = encodeZip([members[0]!, { name: 'b', bytes: utf8('') }]);
    twice[twice.lastIndexOf('b'.charCodeAt(0))] = 'a'.charCodeAt(0);
    expect(codeOf(twice)).toBe('zip/name');
    const file = encodeZip(members);
    for (let size = 0; size < file.length; size++) {
      expect(codeOf(file.subarray(0, size))).toBe('zip/truncated');
    }
  });
});
