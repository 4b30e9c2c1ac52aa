/** Closes everything that a test opened once the test ends, in reverse order. */
import { afterEach } from 'vitest';

interface Closable {
  close(): unknown;
}

/** Registers the cleanup; call it once in a file. The returned function registers a thing to close, and returns it. */
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
