/** Square pictures with a class each; their bytes become numbers from -1 to 1 in the graph. */
import type { ImageForm } from '../architectures/architecture.ts';
import { ANY } from '../graph/value.ts';
import { cast, gather, mul, sub } from '../graph/verbs.ts';
import { type Data, type FormRules, refuseMasked, unfit } from './form.ts';

/** Pictures one after the other, row by row, pixel by pixel; and the class of each. */
export interface ImagePart {
  readonly pixels: Uint8Array;
  readonly labels: Int32Array;
}

/** The pictures of a worker, and those it evaluates on. */
export interface ImageData {
  readonly kind: 'images';
  readonly shard: ImagePart;
  readonly validation: ImagePart;
}

/** Half of the largest byte: 0 becomes -1, 255 becomes 1. */
const HALF = 127.5;

export const images = ({ pixels, channels, classes }: ImageForm): FormRules<ImageData> => {
  const shape = [pixels, pixels, channels];
  const size = pixels * pixels * channels;
  return {
    data: 'images',
    says: `pictures of ${pixels} x ${pixels} pixels`,
    tokensPerRow: 1,
    inputs: () => ['pixels', 'labels'],
    open: (graph, reading) => {
      refuseMasked(reading);
      const { dtype } = reading;
      const bytes = graph.input('pixels', { dtype: 'u8', shape: [ANY, ...shape] });
      const labels = graph.input('labels', { dtype: 'i32', shape: [ANY] });
      return (rows) => ({
        inputs: sub(mul(cast(gather(bytes, rows), dtype), 1 / HALF), 1),
        targets: gather(labels, rows),
      });
    },
    single: (dtype) => ({ dtype, shape: [1, ...shape] }),
    hold: (data) => {
      const feeds = (part: ImagePart): Data => ({
        kind: 'feeds',
        feeds: {
          pixels: { elements: part.pixels, shape: [part.labels.length, ...shape] },
          labels: { elements: part.labels, shape: [part.labels.length] },
        },
        window: 1,
      });
      for (const name of ['shard', 'validation'] as const) {
        const { labels, pixels: bytes } = data[name];
        const isKnown = labels.every((label) => label >= 0 && label < classes);
        if (labels.length > 0 && bytes.length === labels.length * size && isKnown) continue;
        throw unfit(
          `the ${name} part has ${bytes.length} bytes and ${labels.length} classes of pictures; one picture is ${size} bytes, of a class below ${classes}`,
          'give more pictures of every class, or train with fewer workers',
        );
      }
      return {
        feeds: { shard: feeds(data.shard), validation: feeds(data.validation) },
        masked: false,
        bound: (on) => data[on].labels.length,
        stride: 1,
        place: (_, rows) => rows,
        spread: (_, rows) => rows,
      };
    },
    anything: () => {
      const labels = Int32Array.from({ length: 2 * classes }, (_, i) => i % classes);
      const bytes = Uint8Array.from({ length: labels.length * size }, (_, i) => (37 * i) % 256);
      const part = { pixels: bytes, labels };
      return { kind: 'images', shard: part, validation: part };
    },
  };
};

/** Bytes as the model reads them where no graph does it. */
export const asNumbers = (bytes: Uint8Array): Float32Array =>
  Float32Array.from(bytes, (value) => Math.fround(Math.fround(value * Math.fround(1 / HALF)) - 1));
