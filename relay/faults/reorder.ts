/** Holds back a share of deliveries for a while, so that those after them arrive first. */
import type { CreateFault } from './fault.ts';

export const createReorder: CreateFault = ({ reorder = 0, reorderMs = 200 }, draws) =>
  reorder > 0
    ? (copies) => copies.map((ms) => (draws() < reorder ? ms + draws() * reorderMs : ms))
    : undefined;
