/** Session keys: how a join shows that another key, its principal, lent it its name for one run, and who a member of the roster stands for. */
import { fromHex, isHex32 } from '../base/bytes.ts';
import { isJsonObject, type Json } from '../base/canonical-json.ts';
import type { WorkerId } from './ids.ts';
import type { FeatureField } from './spec/feature-fields.ts';

/** What makes the event of a delegation again, beside the run and the session key. */
export type Delegation = {
  /** The principal: whose name it is. */
  readonly key: WorkerId;
  /** The last round in which the session key may take part. */
  readonly until: number;
  readonly createdAt: number;
  /** BIP-340, 128 hex digits. */
  readonly sig: string;
};

const MOST_ROUND = 0xffff_ffff;
const isWhole = (json: Json | undefined, least: number, most: number): json is number =>
  typeof json === 'number' && Number.isSafeInteger(json) && json >= least && json <= most;

const MEMBERS = ['createdAt', 'key', 'sig', 'until'];

/** The delegation in a join; null where the key takes part in its own name. */
export const delegationField: FeatureField<Delegation | null> = {
  accepted: 'null, or an object of key, until, createdAt and sig',
  doc: 'who delegated this key, up to which round, when, and the signature of that; null for nobody',
  read: (json) => {
    if (json === null) return null;
    if (!isJsonObject(json) || Object.keys(json).sort().join() !== MEMBERS.join()) return undefined;
    const { key, until, createdAt, sig } = json;
    const isKey = typeof key === 'string' && isHex32(key);
    const isSig = typeof sig === 'string' && fromHex(sig)?.length === 64;
    if (!isKey || !isSig || !isWhole(until, 0, MOST_ROUND)) return undefined;
    if (!isWhole(createdAt, 1, Number.MAX_SAFE_INTEGER)) return undefined;
    return { key, until, createdAt, sig };
  },
};

interface Named {
  readonly key: WorkerId;
  readonly features?: { readonly sessions?: { readonly principal: WorkerId | '' } };
}

/** In whose name a member of the roster takes part: it has its stake, its place on lists, and answers for its faults. */
export const principalOf = ({ key, features }: Named): WorkerId =>
  features?.sessions?.principal || key;
