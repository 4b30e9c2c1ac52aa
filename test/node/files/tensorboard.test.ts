import { toHex, utf8 } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { crc32c, tensorboardFile } from '../../../src/node/files/tensorboard.ts';

describe('an event file for TensorBoard', () => {
  it('has the checksums of RFC 3720', () => {
    expect(crc32c(utf8('123456789')).toString(16)).toBe('e3069283');
    expect(crc32c(new Uint8Array(32)).toString(16)).toBe('8a9136aa');
    expect(crc32c(new Uint8Array(32).fill(255)).toString(16)).toBe('62a8ab43');
  });

  it('is records of a version and of numbers, to the byte as TensorBoard writes them', () => {
    const file = tensorboardFile([{ tag: 'loss', step: 300, value: 1.5, wallTime: 2 }]);
    const view = new DataView(file.buffer, file.byteOffset);
    const first = Number(view.getBigUint64(0, true));
    expect(first).toBe(24);
    const second = file.subarray(8 + 4 + first + 4);
    const length = Number(new DataView(second.buffer, second.byteOffset).getBigUint64(0, true));
    expect(toHex(second.subarray(12, 12 + length))).toBe(
      `09${'0000000000000040'}10ac02${'2a0d'}${'0a0b'}0a046c6f7373${'15'}0000c03f`,
    );
    expect(second.length).toBe(8 + 4 + length + 4);
  });
});
