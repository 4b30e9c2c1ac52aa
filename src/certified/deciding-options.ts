/** What it takes to decide a round. */
import type { RoundContext } from '../consensus/round/round-state.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { CertifiedSession } from './events.ts';
import type { Certified } from './history.ts';
import type { Entry } from './journal.ts';
import type { Member } from './member.ts';

export interface DecidingOptions {
  readonly state: Certified;
  readonly context: RoundContext;
  readonly member: Member;
  readonly session: CertifiedSession;
  /** What was signed in this round before; undefined where nothing was. */
  readonly entry: Entry | undefined;
  /** The first recovery attempt that it may vote in: it may have signed something before that is not on disk. */
  readonly voteFrom: number;
  /** A quorum of commits of the round before. */
  readonly votes: ListedVotes | null;
}
