/** What a run starts from where that is a published model: which files it is made of, for settings, heartbeats and specs alike. */

import { toHex } from '../base/bytes.ts';
import { canonicalJson } from '../base/canonical-json.ts';
import { hashFields } from '../base/hash.ts';
import type { Digest } from './ids.ts';

/** A file by what is in it. */
export interface BaseFile {
  readonly name: string;
  readonly bytes: number;
  readonly sha256: Digest;
}

/** Which published model it is: whoever has the same has the same weights and the same tokens. */
export interface BaseIdentity {
  /** In the order in which the model names them. */
  readonly files: readonly BaseFile[];
  /** Of everything by which text becomes tokens, wherever it is written. */
  readonly tokenizerSha256: Digest;
}

/** One hash over everything that makes it that model. */
export const hashBase = ({ files, tokenizerSha256 }: BaseIdentity): Digest => {
  const named = files.map(({ name, bytes, sha256 }) => ({ name, bytes, sha256 }));
  return toHex(hashFields('nostrain/base', canonicalJson(named), tokenizerSha256));
};
