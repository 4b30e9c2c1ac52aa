/** EVENT frames around JSON that is already serialised. */

const END = Buffer.from(']');

/** Frames of one event, made once per subscription id: readers that chose the same id share the bytes. */
export function eventFrames(json: Buffer): (subscription: string) => Buffer {
  const made = new Map<string, Buffer>();
  return (subscription) => {
    const known = made.get(subscription);
    if (known) return known;
    const start = Buffer.from(`["EVENT",${JSON.stringify(subscription)},`);
    const frame = Buffer.concat([start, json, END]);
    made.set(subscription, frame);
    return frame;
  };
}
