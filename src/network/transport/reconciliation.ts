/** One side of a set reconciliation (NIP-77): which events a relay has that we lack. Speaks Negentropy by `nostr-tools`. */
export interface Reconciliation {
  /** What NEG-OPEN says first. */
  readonly opening: string;
  /** Ids the relay has and we lack, as far as it has told. */
  readonly need: ReadonlySet<string>;
  /** What to say next, or null at the end; throws when the message makes no sense or the relay claims too much. */
  answer(message: string): string | null;
}

/** A relay that names more ids than this is asked in the ordinary way instead. */
const MAX_NEED = 8192;
const MAX_ROUNDS = 100;
/** The codec counts seconds in 32 bits. */
const LATEST = 2 ** 31 - 1;

/** Starts one over the events we know, by id and the time they name. */
export async function createReconciliation(
  known: Iterable<readonly [id: string, createdAt: number]>,
): Promise<Reconciliation> {
  // this codec has no entry of its own, and the whole package is much to load for something rarely needed
  const { Negentropy, NegentropyStorageVector } = (await import('nostr-tools')).nip77;
  const storage = new NegentropyStorageVector();
  for (const [id, createdAt] of known) {
    if (createdAt <= LATEST) storage.insert(createdAt, id);
  }
  storage.seal();
  const side = new Negentropy(storage);
  const need = new Set<string>();
  let rounds = 0;
  return {
    opening: side.initiate(),
    need,
    answer(message) {
      if (++rounds > MAX_ROUNDS) throw new RangeError('no end after so many rounds');
      return side.reconcile(message, undefined, (id) => {
        need.add(id);
        if (need.size > MAX_NEED) throw new RangeError(`more than ${MAX_NEED} ids`);
      });
    },
  };
}
