/** Holds proofs of rounds against a run root, in Node and as a page in a browser does. */
import { isRoundOf, type RoundProof } from 'nostrain/certified';

export interface Claimed {
  readonly root: string;
  readonly proofs: readonly RoundProof[];
}

/** Whether each proof leads to the root. */
export const run = ({ root, proofs }: Claimed): boolean[] =>
  proofs.map((proof) => isRoundOf(root, proof));
