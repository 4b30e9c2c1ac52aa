/** Who may join a run beside its founders: the rules that a spec can name, and what each is told. */
import { whole } from './field.ts';
import { type Group, keys, stake } from './spec-fields.ts';

/** About half a minute of one core. */
const MOST_JOIN_WORK = 22;

/** By `admission.kind`. */
export const admissionFields = {
  open: {},
  list: { keys: keys('--invite <key>', 'key that may join beside the founders') },
  work: {
    bits: whole(
      '--join-work <bits>',
      'work that a key has to do once before it may join: so many leading zero bits',
      1,
      MOST_JOIN_WORK,
    ),
  },
  stake: { least: stake('--join-stake <n>', 'stake that a key must have to join') },
} as const satisfies Readonly<Record<string, Group>>;
