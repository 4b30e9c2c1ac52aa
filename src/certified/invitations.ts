/**
 * Invitations: assertions (NIP-85) by which an anchor of the spec admits a key, and a worker's search for what its join
 * must carry.
 */
import { npubEncode } from 'nostr-tools/nip19';
import type { Clock } from '../base/async.ts';
import { ConfigError, wordsOf } from '../base/errors.ts';
import type { EventDraft } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Delegation } from '../run/spec/feature-fields.ts';
import { type RunSpec, runIdOf } from '../run/spec/run-spec.ts';
import {
  ASSERTION,
  credentialsFor,
  type FindCredentials,
  type JoinCredentials,
  type JoinPoint,
} from './decisions/admission.ts';
import { type MachineJoin, refuseMachine, userDataFor } from './decisions/machines.ts';

/** Highest rank of an assertion (NIP-85): enough for every spec. */
const MOST_RANK = 100;

/** Returns the unsigned invitation of a key. */
export const invitationTo = (key: WorkerId, createdAt: number): EventDraft => ({
  kind: ASSERTION,
  created_at: createdAt,
  tags: [
    ['d', key],
    ['rank', String(MOST_RANK)],
  ],
  content: '',
});

/** Returns who may join a run, and how to let others in. */
export function describeAdmission(spec: RunSpec): string {
  const { vendors } = spec.machines;
  if (vendors.length === 0) return describeKeys(spec);
  const proof = vendors.includes('simulated') ? '; SIMULATED machines prove nothing' : '';
  const names = vendors.join(', ');
  return `${describeKeys(spec)}, on machines that prove what they run (${names}${proof})`;
}

function describeKeys({ admission, founders }: RunSpec): string {
  if (admission.kind === 'open') return 'anyone may join';
  if (admission.kind === 'work') {
    return `anyone may join whose machine does ${admission.bits} bits of work`;
  }
  if (admission.kind === 'stake') {
    return `keys with a stake of at least ${admission.least} may join`;
  }
  if (admission.kind === 'list') {
    return (
      `only ${founders.length + admission.keys.length} named keys may join, and no other later; ` +
      'to be able to invite later, leave out --invite'
    );
  }
  const { by, anchors } = admission;
  if (by === 'follows') return `keys that ${anchors.length} keys of the spec follow may join`;
  const areFounders = anchors.every((key) => founders.includes(key));
  const who = areFounders ? 'a founder' : 'a key of the spec';
  return `keys that ${who} invites may join: nostrain run invite RUN NPUB`;
}

/** Throws a ConfigError (`run/no-invitations`, `run/not-an-anchor`) if an invitation by this key admits no key. */
export function assertInviting(spec: RunSpec, me: WorkerId): void {
  const { admission } = spec;
  if (admission.kind !== 'trust' || admission.by !== 'assertions') {
    throw new ConfigError(
      'run/no-invitations',
      `the run takes no invitations: ${describeAdmission(spec)}`,
      { hint: 'create a run with the default admission to invite keys: nostrain run create' },
    );
  }
  if (admission.anchors.includes(me)) return;
  throw new ConfigError('run/not-an-anchor', `the key ${npubEncode(me)} may not invite others`, {
    hint: `invite with the key of ${npubEncode(admission.anchors[0]!)}: --key-file FILE`,
  });
}

export interface CredentialSearch {
  readonly key: WorkerId;
  readonly delegation?: Delegation | null | undefined;
  /** Whether the run already lists a join of the key; the rows of founders are there before. */
  readonly isMember: boolean;
  readonly relays: Pick<RelaySet, 'query'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Digest of the outcome that a join would follow. */
  readonly after: Digest;
  /** Makes evidence of this machine; required in a run that accepts only some machines. */
  readonly machine?: MachineReport | undefined;
  onNotice(message: string): void;
}

/** The machine of a joiner. */
export interface MachineReport {
  /** X25519 key, hex. */
  readonly sealKey: string;
  /** Returns an evidence document that binds this user data, hex. */
  evidence(userData: string): Promise<string>;
}

/** Time for relays to answer a search for trust proofs. */
const TRUST_MS = 10_000;
/** Time between two searches for an invitation. */
const INVITATION_MS = 10_000;

/**
 * Returns a function that returns what this worker's join carries. In a run that admits by trust it returns undefined
 * until relays have a proof: the worker says how to get one and searches for it until the signal is aborted. In a run
 * that accepts only some machines it makes new evidence when the outcome that the old one names is not recent any more.
 */
export async function seekCredentials(
  spec: RunSpec,
  { key, delegation, isMember, after, machine, relays, clock, signal, onNotice }: CredentialSearch,
): Promise<FindCredentials> {
  const run = runIdOf(spec);
  const name = delegation?.key ?? key;
  const means: Parameters<typeof credentialsFor>[3] = {
    clock,
    signal,
    find: async (filters) => (await relays.query(filters, { waitMs: TRUST_MS, signal })).events,
  };
  const prove = (named: Digest) => attest(spec, { key, after: named }, machine, clock);
  let proof = isMember ? undefined : await prove(after);
  let isProving = false;
  const renew = async (named: Digest): Promise<void> => {
    if (isProving) return;
    isProving = true;
    proof = await prove(named).catch((error: unknown) => {
      onNotice(`cannot join again yet: ${wordsOf(error)}`);
      return undefined;
    });
    isProving = false;
  };
  const admit = (now?: JoinPoint): JoinCredentials | undefined => {
    if (spec.machines.vendors.length === 0 || now === undefined) return credentials;
    if (proof?.after === undefined || !now.recent.includes(proof.after)) {
      void renew(now.parent);
      return undefined;
    }
    return { ...credentials, ...proof, features: { ...credentials.features, ...proof.features } };
  };
  const search = () => credentialsFor(spec, run, key, means, delegation);
  let credentials = await search();
  const isAdmitted = () =>
    spec.admission.kind !== 'trust' ||
    spec.founders.includes(name) ||
    (credentials.features?.trust?.proof ?? []).length > 0;
  if (isAdmitted()) return admit;
  if (!isMember) onNotice(missingProof(spec, name));
  const poll = async (): Promise<void> => {
    while (!isAdmitted()) {
      await clock.sleep(INVITATION_MS, signal);
      credentials = await search().catch(() => credentials);
    }
  };
  // it rejects only when the worker ends
  poll().catch(() => undefined);
  return (now) => (isAdmitted() ? admit(now) : undefined);
}

/**
 * Returns what the join says about this machine; empty in a run that accepts any. Throws a ConfigError (`run/machine`)
 * with the field if the run does not accept it.
 */
async function attest(
  spec: RunSpec,
  join: MachineJoin,
  machine: MachineReport | undefined,
  clock: Clock,
): Promise<Pick<JoinCredentials, 'after' | 'features'>> {
  if (spec.machines.vendors.length === 0) return {};
  const run = runIdOf(spec);
  const sealKey = machine?.sealKey ?? '';
  const evidence = await machine?.evidence(userDataFor(run, join, sealKey));
  const features = { machines: { evidence: evidence ?? '', sealKey } };
  const refused = refuseMachine(spec, run, { ...join, features }, clock.now() / 1000);
  if (refused === undefined) return { after: join.after, features };
  throw new ConfigError('run/machine', `${refused.at}: ${refused.message}`, {
    hint: 'join on a machine that the run accepts (--machine PROGRAM); see docs/attestation.md',
    data: { code: refused.code, at: refused.at },
  });
}

/** Maximum keys named to ask for an invitation. */
const MOST_HOSTS = 3;

function missingProof(spec: RunSpec, name: WorkerId): string {
  const { admission } = spec;
  const isInviting = admission.kind === 'trust' && admission.by === 'assertions';
  const keys = admission.kind === 'trust' ? admission.anchors : spec.founders;
  const hosts = keys.slice(0, MOST_HOSTS).map(npubEncode).join(' or ');
  const how = isInviting
    ? `run: nostrain run invite ${runIdOf(spec)} ${npubEncode(name)}`
    : `follow ${npubEncode(name)}`;
  return (
    `this key is not invited, so its work does not count yet. Ask ${hosts} to ` +
    `${how}; the worker joins as soon as its relays have that`
  );
}
