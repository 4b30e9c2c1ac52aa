/** What a test file opens is closed after each of its tests, the last first. */
import { afterEach } from 'vitest';

interface Closable {
  close(): unknown;
}

/** To be called once in a file; the function it gives hands on what it is given. */
export function createKeeper(): <T extends Closable>(thing: T) => T {
  const opened: Closable[] = [];
  afterEach(async () => {
    for (const thing of opened.splice(0).reverse()) await thing.close();
  });
  return (thing) => {
    opened.push(thing);
    return thing;
  };
}
