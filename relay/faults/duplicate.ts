/** Delivers a share of deliveries twice. */
import type { CreateFault } from './fault.ts';

export const createDuplicate: CreateFault = ({ duplicate = 0 }, draws) =>
  duplicate > 0 ? (copies) => (draws() < duplicate ? [...copies, ...copies] : copies) : undefined;
