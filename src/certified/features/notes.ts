/**
 * Deleted notes, in a run whose text is a corpus of notes: members name in their commits the notes that the authors
 * deleted. The next outcome lists these votes, and workers leave the notes out from the round after it.
 */

import { deletedOf, type Ledger } from '../../run/ledger.ts';
import { MOST_INDICES } from '../../run/spec/feature-fields.ts';
import type { CertifiedFeature } from './feature.ts';

/** Milliseconds between two queries for deletions: each query opens connections. */
const QUERY_MS = 60_000;

/** Returns the deleted notes that the ledger does not have yet, as many as fit in a vote. */
function unlistedIn(ledger: Ledger, deleted: readonly number[]): readonly number[] {
  const listed = new Set(deletedOf(ledger));
  return deleted.filter((note) => !listed.has(note)).slice(0, MOST_INDICES);
}

/** Names deleted notes in commits. A member that cannot read the definition of the corpus names none. */
export const notes: CertifiedFeature = {
  isIn: (spec) => spec.notes !== '',
  create({ deletedNotes, clock }) {
    let deleted: readonly number[] = [];
    let queriedMs = Number.NEGATIVE_INFINITY;
    return {
      begin() {
        if (deletedNotes === undefined || clock.now() - queriedMs < QUERY_MS) return;
        queriedMs = clock.now();
        deletedNotes().then(
          (positions) => {
            deleted = positions;
          },
          // a later round asks again
          () => undefined,
        );
      },
      judge: ({ state: { ledger } }) => ({
        commitFields: () => ({ notes: { deleted: unlistedIn(ledger, deleted) } }),
      }),
    };
  },
  describe: ({ ledger }) => ({ deletedNotes: deletedOf(ledger).length }),
};
