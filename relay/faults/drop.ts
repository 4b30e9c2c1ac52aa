/** Loses a share of deliveries. */
import type { CreateFault } from './fault.ts';

export const createDrop: CreateFault = ({ drop = 0 }, draws) =>
  drop > 0 ? (copies) => (draws() < drop ? [] : copies) : undefined;
