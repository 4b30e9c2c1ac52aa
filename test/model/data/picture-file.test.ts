/** PNG and JPEG files as pictures, and what is refused of them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import { encode } from 'fast-png';
import jpeg from 'jpeg-js';
import { ConfigError, concatBytes, utf8 } from 'nostrain/base';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodePicture, squareOf } from '../../../src/model/data/picture-file.ts';
import { packPictures, unpackPictures } from '../../../src/model/data/pictures.ts';
import { openPictures, readPictures } from '../../../src/node/data/sources.ts';

const { signal } = new AbortController();

const colours = (width: number, height: number) =>
  Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 37) % 256);

const png = (width: number, height: number, channels = 3) =>
  encode({
    ...{ width, height, channels },
    data: Uint8Array.from({ length: width * height * channels }, (_, i) => (i * 37) % 256),
  });

/** A chunk of a PNG file with its check sum. */
function chunk(type: string, data: Uint8Array): Uint8Array {
  const whole = new Uint8Array(12 + data.length);
  const view = new DataView(whole.buffer);
  view.setUint32(0, data.length);
  whole.set(
    [...type].map((letter) => letter.charCodeAt(0)),
    4,
  );
  whole.set(data, 8);
  view.setUint32(8 + data.length, crc32(whole.subarray(4, 8 + data.length)));
  return whole;
}

/** A PNG with this header and these pixels, whatever they say. */
function forged(
  width: number,
  height: number,
  { depth = 8, type = 0, pixels = new Uint8Array(4), interlaced = 0 } = {},
) {
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([depth, type, 0, 0, interlaced], 8);
  const parts = [
    Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(pixels)),
    chunk('IEND', new Uint8Array(0)),
  ];
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

describe('a picture', () => {
  it('is decoded from PNG as it was drawn', () => {
    expect(decodePicture(png(5, 3), 'a.png')).toEqual({
      width: 5,
      height: 3,
      colours: colours(5, 3),
    });
  });

  it('is grey, of 16 bits, or of one bit a sample too', () => {
    const grey = decodePicture(png(2, 2, 1), 'a.png').colours;
    expect([...grey]).toEqual([0, 0, 0, 37, 37, 37, 74, 74, 74, 111, 111, 111]);
    const wide = encode({
      width: 1,
      height: 1,
      channels: 1,
      depth: 16,
      data: Uint16Array.of(0xab12),
    });
    expect([...decodePicture(wide, 'a.png').colours]).toEqual([0xab, 0xab, 0xab]);
    const bits = forged(3, 2, { depth: 1, pixels: Uint8Array.of(0, 0b10100000, 0, 0b01000000) });
    const read = decodePicture(bits, 'a.png').colours;
    expect([...read].filter((_, i) => i % 3 === 0)).toEqual([255, 0, 255, 0, 255, 0]);
  });

  it('is laid over white where it is clear', () => {
    const clear = encode({ width: 1, height: 1, channels: 4, data: Uint8Array.of(10, 20, 30, 0) });
    expect([...decodePicture(clear, 'a.png').colours]).toEqual([255, 255, 255]);
  });

  it('is decoded from JPEG, in colours and close to what it was', () => {
    const data = new Uint8Array(16 * 16 * 4).fill(255).map((_, i) => [200, 100, 50, 255][i % 4]!);
    const file = new Uint8Array(jpeg.encode({ width: 16, height: 16, data }, 95).data);
    const { width, height, colours: read } = decodePicture(file, 'a.jpg');
    expect([width, height]).toEqual([16, 16]);
    expect(
      Math.abs(read[0]! - 200) + Math.abs(read[1]! - 100) + Math.abs(read[2]! - 50),
    ).toBeLessThan(9);
    expect(() => decodePicture(file.subarray(0, file.length >> 1), 'a.jpg')).toThrow(ConfigError);
  });

  it('becomes a square of means, in whole numbers', () => {
    const picture = { width: 4, height: 2, colours: Uint8Array.from({ length: 24 }, (_, i) => i) };
    // the middle 2 x 2
    expect([...squareOf(picture, 1)]).toEqual([11, 12, 13].map((value) => value + 0));
    expect([...squareOf(picture, 2)]).toEqual([3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20]);
    const [first] = squareOf({ width: 3, height: 3, colours: new Uint8Array(27).fill(90) }, 2);
    expect(first).toBe(90);
  });

  const broken = png(9, 9);
  it.each([
    ['a PNG that is cut off', broken.subarray(0, broken.length - 20), /truncated/],
    ['a PNG with a flipped bit', broken.with(50, broken[50]! ^ 1), /checksum/],
    ['100,000 pixels a side', forged(100_000, 100_000), /100000 x 100000 pixels; the limits/],
    ['no pixels', forged(0, 5), /0 x 5 pixels/],
    [
      'fewer pixels than it says',
      forged(9, 9),
      /its pixels take 4 bytes, but its header implies 90/,
    ],
    ['pixels without end', forged(2, 2, { pixels: new Uint8Array(1 << 20) }), /cannot be decoded/],
    ['interlaced bits', forged(2, 2, { depth: 1, interlaced: 1 }), /interlacing/],
    ['a palette that is not there', forged(1, 1, { type: 3, pixels: Uint8Array.of(0, 9) }), /./],
    ['something else', new Uint8Array(30).fill(65), /neither a PNG nor a JPEG/],
    ['nothing', new Uint8Array(0), /neither a PNG nor a JPEG/],
    ['a JPEG of a header', Uint8Array.of(0xff, 0xd8, 0xff), /truncated/],
  ])('is refused with a hint for %s', (_, bytes, words) => {
    const read = () => decodePicture(bytes, 'a.png');
    expect(read).toThrow(words);
    try {
      read();
    } catch (error) {
      expect((error as ConfigError).code).toBe('data/pictures');
      expect((error as ConfigError).hint).toBeTruthy();
    }
  });
});

describe('packed pictures', () => {
  const pictures = {
    ...{ classes: ['a', 'b'], pixels: 2, channels: 1 },
    ...{ bytes: Uint8Array.of(1, 2, 3, 10, 5, 6, 7, 8), labels: Int32Array.of(1, 0) },
  };
  const [head, pixels] = packPictures(pictures);

  it('are the same again', () => {
    expect(unpackPictures(concatBytes(head, pixels))).toEqual(pictures);
  });

  const packed = (said: object, bytes = pixels) =>
    concatBytes(utf8(`${JSON.stringify({ ...pictures, labels: [1, 0], ...said })}\n`), bytes);
  it.each([
    ['nothing', new Uint8Array(0)],
    ['no line', new Uint8Array(30).fill(65)],
    ['no JSON', utf8('{"classes":\n')],
    ['null', utf8('null\n')],
    ['one class', packed({ classes: ['a'] })],
    ['classes out of order', packed({ classes: ['b', 'a'] })],
    ['classes that are no names', packed({ classes: [1, 2] })],
    ['a side of 100,000 pixels', packed({ pixels: 100_000 })],
    ['two channels', packed({ channels: 2 })],
    ['no pictures', packed({ labels: [] }, new Uint8Array(0))],
    ['a label of no class', packed({ labels: [1, 2] })],
    ['too few pixels', packed({}, pixels.subarray(1))],
  ])('are refused with a hint where there is %s', (_, bytes) => {
    try {
      unpackPictures(bytes);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as ConfigError).code).toBe('data/pictures');
      expect((error as ConfigError).hint).toBeTruthy();
    }
  });
});

describe('a folder of pictures', () => {
  let dir = '';
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'pictures-'));
    for (const name of ['cat', 'dog']) {
      await mkdir(join(dir, 'two', name), { recursive: true });
      for (let i = 0; i < 3; i++) await writeFile(join(dir, 'two', name, `${i}.png`), png(8, 8, 1));
    }
    await mkdir(join(dir, 'one', 'cat'), { recursive: true });
    await writeFile(join(dir, 'one', 'cat', 'a.png'), png(8, 8));
    await mkdir(join(dir, 'empty', 'cat'), { recursive: true });
    await mkdir(join(dir, 'empty', 'dog'), { recursive: true });
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  it('has a class for each of its folders, and no colours where there are none', async () => {
    const pictures = await readPictures(join(dir, 'two'), 4, signal);
    expect(pictures).toMatchObject({ classes: ['cat', 'dog'], pixels: 4, channels: 1 });
    expect([...pictures.labels]).toEqual([0, 0, 0, 1, 1, 1]);
    expect(pictures.bytes).toHaveLength(6 * 16);
  });

  it('is known by its pixels and classes, however its files are packed', async () => {
    const open = (pixels: number, fixed = {}) =>
      openPictures({ seed: 1, pixels }, { corpus: join(dir, 'two'), fixed, signal });
    const { sha256 } = await open(4);
    const stored = await mkdtemp(join(tmpdir(), 'pictures-'));
    const plain = forged(8, 8, {
      pixels: Uint8Array.from({ length: 72 }, (_, i) =>
        i % 9 === 0 ? 0 : ((Math.floor(i / 9) * 8 + (i % 9) - 1) * 37) % 256,
      ),
    });
    for (const name of ['cat', 'dog']) {
      await mkdir(join(stored, name));
      for (let i = 0; i < 3; i++) await writeFile(join(stored, name, `${i}.png`), plain);
    }
    const again = await openPictures({ seed: 1, pixels: 4 }, { corpus: stored, fixed: {}, signal });
    await rm(stored, { recursive: true });
    expect(again.sha256).toBe(sha256);
    expect((await open(8)).sha256).not.toBe(sha256);
    await expect(open(8, { sha256 })).rejects.toThrow(/the run trains on those with/);
  });

  it('may lack classes that the pictures of a run have, and has no other', async () => {
    const like = { classes: ['cat', 'dog', 'fox'], channels: 3 };
    const one = await readPictures(join(dir, 'one'), 4, signal, like);
    expect(one).toMatchObject({ classes: like.classes, channels: 3 });
    expect([...one.labels]).toEqual([0]);
    const strange = readPictures(join(dir, 'two'), 4, signal, {
      classes: ['cat', 'ox'],
      channels: 1,
    });
    await expect(strange).rejects.toThrow('has the class "dog"; those of the run are "cat", "ox"');
  });

  it.each([
    ['one class only', 'one', /one class only, cat/],
    ['a class without pictures', 'empty', /cat has no pictures/],
    ['no folder', 'none', /cannot read the folder/],
  ])('is refused with a hint for %s', async (_, name, words) => {
    const refused = await readPictures(join(dir, name), 4, signal).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
    expect((refused as ConfigError).message).toMatch(words);
    expect((refused as ConfigError).hint).toBeTruthy();
  });
});
