/** What `nostrain challenge` needs of this machine: the base of the run, and private states from where the run says. */
import { ConfigError } from '../../../base/errors.ts';
import { mostPrivateBytes } from '../../../certified/checks/private-state.ts';
import type { CheckTools } from '../../../certified/checks/rerun.ts';
import type { BoardOptions } from '../../../certified/wire/run-registry.ts';
import { createPuller } from '../../../network/attachments/pull.ts';
import { heapChunks } from '../../../network/chunks/payload.ts';
import type { SignedEvent } from '../../../network/event.ts';
import { hintProblem } from '../../../network/transport/public-hosts.ts';
import type { RelaySet } from '../../../network/transport/relay-set.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import type { BaseModel } from '../../../node/pretrained/base-model.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { writeNote } from '../../../terminal/output.ts';
import type { SourceFlags } from '../../shared/archive-source.ts';
import type { SigningFlags } from '../../shared/signed-document.ts';
import { openBaseIn } from '../replay/evaluate.ts';

export interface ChallengeFlags extends SourceFlags, SigningFlags {
  readonly round?: number;
  readonly worker?: string;
  readonly base?: string;
  readonly corpus?: string;
  readonly threads?: number;
  readonly json?: boolean;
}

/** The base of a run that has one. */
export async function openBaseFor(
  spec: RunSpec,
  { base, corpus }: ChallengeFlags,
  signal: AbortSignal,
): Promise<BaseModel | undefined> {
  if (spec.start === null && base === undefined) return undefined;
  return openBaseIn(spec, { base: base ?? '', corpus, signal, onNotice: writeNote });
}

/** Relays that the run names for private state. Those of a private network are dialled only where this machine was told of them. */
export function placesOf(
  { rerun }: RunSpec,
  { allowPrivateRelays = false }: ChallengeFlags,
  known: readonly string[],
): readonly string[] {
  const dialled = rerun.relays.filter(
    (url) => allowPrivateRelays || known.includes(url) || hintProblem(url) === undefined,
  );
  if (dialled.length > 0) return dialled;
  throw new ConfigError(
    'challenge/private-relay',
    `the run shows private state on ${rerun.relays.join(', ')}, in a private network`,
    { hint: 'say --relay URL with it, or --allow-private-relays' },
  );
}

/** No chunk of a state for so long. */
const IDLE_MS = 20_000;

/** Private states by root: among the events that are here, else from these relays. */
export function fetching(
  events: readonly SignedEvent[],
  size: number,
  { relays, clock, signal }: BoardOptions & { readonly relays: RelaySet },
): CheckTools['fetch'] {
  const here = heapChunks(events, mostPrivateBytes(size));
  const puller = createPuller({ relays, clock, sha256: nativeSha256 });
  return async ({ root, bytes }) => {
    const found = here({ root, bytes });
    if (found) return found;
    const wanted = { root, bytes, worker: '', need: undefined, shards: undefined };
    const pulled = await puller.pull(wanted, { signal, idleMs: IDLE_MS }).done;
    return pulled?.payload;
  };
}
