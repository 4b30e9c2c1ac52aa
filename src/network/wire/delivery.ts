/** From the outcomes at each relay to what a worker wants to know: did anybody take it, and what did the others say. */
import type { PublishOutcome } from '../transport/publishing.ts';
import type { Delivery, Sending } from './wire.ts';

export const isTaken = ({ status }: PublishOutcome): boolean => status === 'accepted';

/** One event on its way to all relays. */
export function watchOutcomes(outcomes: readonly Promise<PublishOutcome>[]): Sending {
  const taken = anyTrue(outcomes.map(async (outcome) => isTaken(await outcome)));
  return { taken, settled: Promise.all(outcomes).then(toDelivery) };
}

/** True as soon as one of them is, false when none is; one that fails is none. */
export async function anyTrue(answers: readonly Promise<boolean>[]): Promise<boolean> {
  const yes = answers.map(async (answer) => {
    if (!(await answer)) throw new Error('no');
  });
  return Promise.any(yes).then(
    () => true,
    () => false,
  );
}

const toDelivery = (outcomes: readonly PublishOutcome[]): Delivery => ({
  accepted: outcomes.filter(isTaken).map(({ relay }) => relay),
  failed: outcomes
    .filter((outcome) => !isTaken(outcome))
    .map(({ relay, status, message }) => ({ relay, message: message || status })),
});
