/** Draws losses as a PNG for notes: clients of Nostr show no SVG. */
import { encode } from 'fast-png';

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
  return encode({ width, height, data: pixels, channels: 1, depth: 8 });
}

function dot(pixels: Uint8Array, x: number, y: number): void {
  for (let row = y - PEN; row <= y + PEN; row++) {
    pixels.fill(INK, row * CHART_SIZE.width + x - PEN, row * CHART_SIZE.width + x + PEN);
  }
}
