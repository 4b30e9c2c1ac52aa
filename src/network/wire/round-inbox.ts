/** The gradients of one round as they come in: verified, judged, one per worker, refusals kept with their reason. */
import { gradient } from '../../../kinds/gradient.ts';
import type { Bell } from '../../base/bell.ts';
import type { Contribution, Rejection } from '../../run/contribution.ts';
import type { SignedEvent } from '../event.ts';
import type { Filter } from '../transport/filter.ts';
import { toContribution } from './gradients.ts';
import { newer, slotOf } from './newest.ts';
import type { RoundInbox, RoundRequest, WireOptions } from './wire.ts';

/** Refusals remembered per round; a flood of bad events costs no more memory than this. */
const MAX_REJECTIONS = 1000;

export interface OpenInbox extends RoundInbox {
  /** Judges an event as if a relay had brought it. */
  take(event: SignedEvent): void;
}

/** Subscribes to the gradients of a round (under `async`: of the run). */
export function openRoundInbox(
  request: RoundRequest,
  {
    relays,
    run,
    bell,
    layout,
    clock,
    maxContainerBytes,
    onClose,
  }: WireOptions & { readonly bell: Bell; readonly onClose: () => void },
): OpenInbox {
  const contributions = new Map<string, Contribution>();
  const rejections: Rejection[] = [];

  const reject = (rejection: Rejection) => {
    if (rejections.length < MAX_REJECTIONS) rejections.push(rejection);
    bell.ring();
  };

  function take(event: SignedEvent): void {
    const round = roundFor(event, request);
    if (round === undefined) return;
    const judged = toContribution(event, {
      run,
      round,
      base: request.base,
      checkBase: request.anyBase === undefined,
      layout,
      maxContainerBytes,
      nowSeconds: clock.now() / 1000,
    });
    if (!judged.ok) {
      reject(judged.rejection);
      return;
    }
    const slot = slotOf(judged.value);
    const held = contributions.get(slot);
    if (held && !newer(judged.value, held)) return;
    contributions.set(slot, judged.value);
    bell.ring();
  }

  const scope = request.anyBase ? run : `${run}/${request.round}`;
  const filter: Filter = { kinds: [gradient.kind], '#s': [scope] };
  const subscription = relays.subscribe([filter], {
    onEvent: take,
    onRefused: (reason, detail) => reject({ reason, detail, worker: undefined }),
    onCaughtUp: () => bell.ring(),
  });
  return {
    contributions,
    rejections,
    get caughtUp() {
      return subscription.caughtUp;
    },
    take,
    close() {
      subscription.close();
      onClose();
    },
  };
}

/** The round an event is judged for; under `async` the one it names, unless that worker's work is already in. */
function roundFor(event: SignedEvent, { round, anyBase }: RoundRequest): number | undefined {
  if (!anyBase) return round;
  const named = Number(event.tags.find(([name]) => name === 'round')?.[1]);
  return named > (anyBase.folded[event.pubkey] ?? -1) ? named : undefined;
}
