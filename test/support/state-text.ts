/** JSON text of a vector's state: `JSON.stringify` would lose the sign of -0. */

export const stateText = (state: object): string =>
  JSON.stringify(state, (_, value: unknown) => (Object.is(value, -0) ? '-0.0' : value)).replaceAll(
    '"-0.0"',
    '-0.0',
  );
