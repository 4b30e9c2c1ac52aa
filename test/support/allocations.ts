/** Counts the bytes that a call allocates, in the constructors of buffers, so garbage collection does not matter. */

const NAMES = [
  'ArrayBuffer',
  'Int8Array',
  'Uint8Array',
  'Int16Array',
  'Uint16Array',
  'Int32Array',
  'Uint32Array',
  'Float32Array',
  'Float64Array',
] as const;

/** Returns the result of the call, and the bytes of the buffers and typed arrays it constructed, not counting views. */
export function countAllocations<T>(call: () => T): { readonly value: T; readonly bytes: number } {
  let bytes = 0;
  const originals = NAMES.map((name) => [name, Reflect.get(globalThis, name)] as const);
  for (const [name, original] of originals) {
    const counting: typeof original = new Proxy(original, {
      construct(target, given: readonly unknown[], as): object {
        const made = Reflect.construct(target, given, as === counting ? target : as);
        if (!(given[0] instanceof ArrayBuffer)) bytes += made.byteLength;
        return made;
      },
    });
    Reflect.set(globalThis, name, counting);
  }
  try {
    return { value: call(), bytes };
  } finally {
    for (const [name, original] of originals) Reflect.set(globalThis, name, original);
  }
}
