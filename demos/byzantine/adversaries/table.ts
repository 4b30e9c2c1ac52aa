/** All adversaries of the attack lab. */
import type { Adversary } from './adversary.ts';
import { alie } from './alie.ts';
import { backdoor } from './backdoor.ts';
import { constantDirection } from './constant-direction.ts';
import { copy } from './copy.ts';
import { equivocation } from './equivocation.ts';
import { formatBomb } from './format-bomb.ts';
import { ipm } from './ipm.ts';
import { labelShift } from './label-shift.ts';
import { mimic } from './mimic.ts';
import { minMax } from './min-max.ts';
import { noise } from './noise.ts';
import { signFlip } from './sign-flip.ts';
import { stale } from './stale.ts';
import { zero } from './zero.ts';

/** In the order in which they are shown. */
export const adversaries: readonly Adversary[] = [
  signFlip,
  noise,
  constantDirection,
  ipm,
  alie,
  minMax,
  mimic,
  copy,
  stale,
  zero,
  labelShift,
  backdoor,
  equivocation,
  formatBomb,
];
