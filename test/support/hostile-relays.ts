/** Misbehaviors of a relay, by name, that must not harm a run that also has an honest relay. */
import type { RelayOptions } from 'nostrain/relay';

export const hostileModes: Readonly<Record<string, RelayOptions>> = {
  'wants work that its document does not name': { faults: { work: 40 } },
  'wants work that can be done': { faults: { work: 8 } },
  'says that it allows next to nothing': { faults: { falseLimits: true } },
  'never says that it is through': { faults: { noEose: 1 } },
  'never says a word': { faults: { silent: true } },
  'hangs up after each message': { faults: { disconnectAfter: 1 } },
  'forgets after a while': { faults: { forgetAfter: 1 } },
  'closes every request': { faults: { closeReqs: 1 } },
  'hands nothing out': { faults: { drop: 1 } },
};
