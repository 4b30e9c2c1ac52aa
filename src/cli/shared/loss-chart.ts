/** Draws losses as a PNG for notes: clients of Nostr show no SVG. */
import { crc32, deflateSync } from 'node:zlib';

export const CHART_SIZE = { width: 640, height: 320 } as const;
const MARGIN = 24;
const PAPER = 255;
const INK = 32;
/** Half the thickness of the line, in pixels. */
const PEN = 2;

/** Returns a grayscale PNG with one line over the rounds; the largest loss is at the top. */
export function drawLossChart(losses: readonly number[]): Uint8Array {
  const { width, height } = CHART_SIZE;
  const pixels = new Uint8Array(width * height).fill(PAPER);
  const least = losses.reduce((low, loss) => Math.min(low, loss), Number.POSITIVE_INFINITY);
  const range = losses.reduce((high, loss) => Math.max(high, loss), least) - least || 1;
  const xOf = (i: number) => MARGIN + (i / Math.max(1, losses.length - 1)) * (width - 2 * MARGIN);
  const yOf = (loss: number) => MARGIN + (1 - (loss - least) / range) * (height - 2 * MARGIN);
  for (let i = 1; i < losses.length; i++) {
    const [x, y] = [xOf(i - 1), yOf(losses[i - 1]!)];
    const [dx, dy] = [xOf(i) - x, yOf(losses[i]!) - y];
    const steps = Math.ceil(Math.max(Math.abs(dx), Math.abs(dy), 1));
    for (let at = 0; at <= steps; at++) {
      dot(pixels, Math.round(x + (dx * at) / steps), Math.round(y + (dy * at) / steps));
    }
  }
  return encodePng(pixels);
}

function dot(pixels: Uint8Array, x: number, y: number): void {
  for (let row = y - PEN; row <= y + PEN; row++) {
    pixels.fill(INK, row * CHART_SIZE.width + x - PEN, row * CHART_SIZE.width + x + PEN);
  }
}

function encodePng(pixels: Uint8Array): Uint8Array {
  const { width, height } = CHART_SIZE;
  const rows = Buffer.alloc((width + 1) * height);
  for (let row = 0; row < height; row++) {
    rows.set(pixels.subarray(row * width, (row + 1) * width), row * (width + 1) + 1);
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.writeUInt8(8, 8);
  const signature = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
  const parts = [part('IHDR', header), part('IDAT', deflateSync(rows)), part('IEND')];
  return Buffer.concat([signature, ...parts]);
}

function part(name: string, data: Uint8Array = new Uint8Array()): Buffer {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, checksum]);
}
