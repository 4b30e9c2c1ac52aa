/** How large a payload of a layout may be. */
import type { Layout } from '../../tensor/params.ts';

/** Most bytes a payload can have: every value, its descriptors, and what deflate may add. */
export const mostPayloadBytes = ({ size, slots }: Layout): number =>
  1024 + 6 * size + 256 * slots.length;
