/**
 * The data of `nostrain demo onnx`: 1797 handwritten digits, and a small network for them that PyTorch has exported.
 * The digits are those of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, CC BY 4.0).
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { encode } from 'fast-png';
import { decodePicture } from '../../src/model/data/picture-file.ts';

const folder = dirname(fileURLToPath(import.meta.url));
const assets = ['../..', '../../..']
  .map((up) => join(folder, up, 'docs/assets'))
  .find((path) => existsSync(join(path, 'digits.onnx')));

/** The network, which `test/vectors/make_digits_cnn.py` exports. */
export const digitsModel = join(assets ?? '', 'digits.onnx');

/** Pixels of a side. */
export const PIXELS = 8;

/** Writes a folder of pictures for each digit into `dir`. */
export async function writeDigits(dir: string): Promise<void> {
  const file = join(assets ?? '', 'digits.png');
  const { width, colours } = decodePicture(await readFile(file), file);
  for (let digit = 0; digit < 10; digit++) {
    const inside = join(dir, `${digit}`);
    await mkdir(inside, { recursive: true });
    // a class is one row of digits, black where it ends
    for (let left = 0; left < width; left += PIXELS) {
      const data = Uint8Array.from({ length: PIXELS * PIXELS }, (_, i) => {
        const y = digit * PIXELS + Math.floor(i / PIXELS);
        return colours[3 * (y * width + left + (i % PIXELS))]!;
      });
      if (data.every((pixel) => pixel === 0)) break;
      const png = encode({ width: PIXELS, height: PIXELS, data, channels: 1 });
      await writeFile(join(inside, `${left / PIXELS}.png`), png);
    }
  }
}
