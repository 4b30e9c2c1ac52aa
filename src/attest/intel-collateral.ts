/** Collateral of Intel's provisioning service: TCB info, identity of the quoting enclave, and revocation lists. */
import { fromHex, toHex, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import {
  isEcdsaSigned,
  pemBlocks,
  readRevocations,
  trustedChain,
  type X509,
  type X509Chain,
} from './certificate.ts';
import { childrenOf, derOf, objectId, readDer, smallInteger, TAGS, tagged } from './der.ts';
import { type TcbStatus, tcbStatuses } from './evidence.ts';
import type { Quote } from './intel-quote.ts';

/** SHA-256 of the certificate of Intel SGX Root CA. */
export const INTEL_ROOTS = ['44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3'];
const SGX_EXTENSION = '1.2.840.113741.1.13.1';
/** Common name of the certificate that signs TCB documents (Intel SGX PCK certificate profile). */
const TCB_SIGNER = toHex(utf8('Intel SGX TCB Signing'));

/** Versions of a processor, from its certificate. */
interface Processor {
  /** Hex, upper case, as TCB info names it. */
  readonly family: string;
  readonly pceId: string;
  readonly components: readonly number[];
  readonly pceVersion: number;
}

interface Judged {
  readonly quote: Quote;
  /** Chain of the processor, leaf first. */
  readonly chain: X509Chain;
  readonly collateral: Readonly<Record<string, string>>;
  readonly at: number;
}

/** A signed JSON document of Intel; its fields are read where they are used. */
type Document = Readonly<Record<string, unknown>>;

/** Returns the worst status of processor, TDX module and quoting enclave; refuses collateral that does not verify. */
export function judgeCollateral(judged: Judged): Result<TcbStatus> {
  const revoked = checkRevocations(judged);
  if (!revoked.ok) return revoked;
  const processor = processorOf(judged.chain[0]);
  if (!processor.ok) return processor;
  const info = signedDocument('tcb_info', judged, revoked.value);
  if (!info.ok) return info;
  const identity = signedDocument('qe_identity', judged, revoked.value);
  if (!identity.ok) return identity;
  const { quote } = judged;
  const statuses = [
    processorStatus(processor.value, info.value, quote),
    moduleStatus(info.value, quote),
    enclaveStatus(identity.value, quote),
  ];
  for (const status of statuses) if (!status.ok) return status;
  return ok(worst(statuses.map((status) => (status.ok ? status.value : 'Revoked'))));
}

/** Returns one status for all: hardening and configuration add up, otherwise the worst counts. */
function worst(statuses: readonly TcbStatus[]): TcbStatus {
  const bad = statuses.map((status) => tcbStatuses.indexOf(status));
  const most = Math.max(...bad);
  const both = ['SWHardeningNeeded', 'ConfigurationNeeded'] as const;
  if (both.every((each) => statuses.includes(each)) && most <= 2) {
    return 'ConfigurationAndSWHardeningNeeded';
  }
  const outOfDate = statuses.includes('OutOfDate');
  if (outOfDate && statuses.some((each) => each.startsWith('Configuration')) && most === 4) {
    return 'OutOfDateConfigurationNeeded';
  }
  return tcbStatuses[most]!;
}

/** Returns the serial numbers that the root has revoked; refuses revoked certificates of the processor. */
function checkRevocations({ chain, collateral, at }: Judged): Result<ReadonlySet<string>> {
  const where = 'collateral.pck_crl';
  const [leaf, authority, root] = chain;
  if (leaf === undefined || authority === undefined || root === undefined || chain.length !== 3) {
    return refuse('bad-chain', 'report.certificates', 'a processor has three certificates');
  }
  const lists = [
    [collateral.pck_crl, authority, leaf],
    [collateral.root_ca_crl, root, authority],
  ] as const;
  let byRoot: ReadonlySet<string> = new Set();
  for (const [hex, signer, subject] of lists) {
    const der = fromHex(hex ?? '-');
    if (der === undefined) return refuse('malformed', where, 'a revocation list is missing');
    const read = readRevocations(der, { signer, at, where });
    if (!read.ok) return read;
    if (read.value.has(subject.serial)) return refuse('revoked', where, 'a certificate is revoked');
    byRoot = read.value;
  }
  return ok(byRoot);
}

/**
 * Reads a document that Intel's TCB signing key has signed and that is current at the time. Intel's root certifies that
 * key directly; other keys under the same root, for example those of processors, do not count.
 */
function signedDocument(
  name: 'tcb_info' | 'qe_identity',
  { collateral, at }: Judged,
  revoked: ReadonlySet<string>,
): Result<Document> {
  const where = `collateral.${name}`;
  const [text, hex] = [collateral[name] ?? '', collateral[`${name}_signature`] ?? '-'];
  const signature = fromHex(hex);
  const ders = pemBlocks(collateral[`${name}_issuer_chain`] ?? '');
  if (signature === undefined || ders === undefined)
    return refuse('malformed', where, 'not signed');
  const trust = { at, roots: INTEL_ROOTS, where: `${where}_issuer_chain` };
  const chain = trustedChain(ders, trust);
  if (!chain.ok) return chain;
  const [{ subject, serial }, ...authorities] = chain.value;
  if (authorities.length !== 1 || !subject.includes(TCB_SIGNER)) {
    return refuse('bad-chain', trust.where, 'the chain is not that of the TCB signing key');
  }
  if (revoked.has(serial)) return refuse('revoked', trust.where, 'the signing key is revoked');
  const signer = { key: chain.value[0].publicKey, hash: 256 } as const;
  if (!isEcdsaSigned(utf8(text), signature, signer)) {
    return refuse('bad-signature', where, 'the signature does not verify');
  }
  const document = JSON.parse(text) as Document;
  const [from, until] = [document.issueDate, document.nextUpdate].map(
    (date) => Date.parse(String(date)) / 1000,
  );
  return at >= from! && at <= until! ? ok(document) : refuse('expired', where, 'not current');
}

function processorOf({ extensions }: X509): Result<Processor> {
  const where = 'report.certificates.0';
  const bytes = extensions.get(SGX_EXTENSION);
  if (bytes === undefined) return refuse('malformed', where, 'names no processor');
  return readDer(where, () => {
    const entries = new Map(
      childrenOf(tagged(derOf(bytes), TAGS.sequence)).map((entry) => {
        const [id, value] = childrenOf(entry);
        return [objectId(id).slice(SGX_EXTENSION.length + 1), value] as const;
      }),
    );
    const hexOf = (id: string) =>
      toHex(tagged(entries.get(id), TAGS.octetString).content).toUpperCase();
    const versions = new Map(
      childrenOf(tagged(entries.get('2'), TAGS.sequence)).map((entry) => {
        const [id, value] = childrenOf(entry);
        return [objectId(id).slice(SGX_EXTENSION.length + 3), value] as const;
      }),
    );
    const components = Array.from({ length: 16 }, (_, i) => smallInteger(versions.get(`${i + 1}`)));
    const pceVersion = smallInteger(versions.get('17'));
    return { family: hexOf('4'), pceId: hexOf('3'), components, pceVersion };
  });
}

/** One level of TCB info. The signature of the document stands for its shape. */
interface Level {
  readonly tcb: {
    readonly sgxtcbcomponents?: readonly { readonly svn: number }[];
    readonly tdxtcbcomponents?: readonly { readonly svn: number }[];
    readonly pcesvn?: number;
    readonly isvsvn?: number;
  };
  readonly tcbStatus: TcbStatus;
}

const levelsOf = (value: unknown): readonly Level[] => (Array.isArray(value) ? value : []);

const reaches = (
  versions: ArrayLike<number>,
  needed: readonly { readonly svn: number }[] | undefined,
): boolean => (needed ?? []).every(({ svn }, i) => (versions[i] ?? 0) >= svn);

function statusOf(level: Level | undefined, where: string): Result<TcbStatus> {
  const status = tcbStatuses.find((each) => each === level?.tcbStatus);
  return status ? ok(status) : refuse('unknown-level', where, 'no level of the document fits');
}

function processorStatus(
  { family, pceId, components, pceVersion }: Processor,
  info: Document,
  { isTdx, body }: Quote,
): Result<TcbStatus> {
  const where = 'collateral.tcb_info';
  const isOfKind = info.id === (isTdx ? 'TDX' : 'SGX') && info.version === 3;
  if (!isOfKind || info.fmspc !== family || info.pceId !== pceId) {
    return refuse('other-processor', where, 'the document is about other processors');
  }
  const level = levelsOf(info.tcbLevels).find(
    ({ tcb }) =>
      reaches(components, tcb.sgxtcbcomponents) &&
      pceVersion >= (tcb.pcesvn ?? 0) &&
      (!isTdx || reaches(body.subarray(0, 16), tcb.tdxtcbcomponents)),
  );
  return statusOf(level, where);
}

/** An identity that a module or an enclave must have: who signed it, and its attributes under a mask. */
interface Identity {
  readonly mrsigner: string;
  readonly attributes: string;
  readonly attributesMask: string;
  readonly tcbLevels?: readonly Level[];
}

/** Reports whether bytes under the mask are these, all in hex of any case. */
function isMasked(bytes: Uint8Array, wanted: string, mask: string): boolean {
  const [values, masks] = [wanted, mask].map((hex) => fromHex(hex.toLowerCase()));
  if (!values || !masks || values.length !== bytes.length || masks.length !== bytes.length) {
    return false;
  }
  return values.every((value, i) => (bytes[i]! & masks[i]!) === value);
}

function moduleStatus(info: Document, { isTdx, body }: Quote): Result<TcbStatus> {
  const where = 'collateral.tcb_info.tdxModule';
  if (!isTdx) return ok('UpToDate');
  const [version, major] = [body[0]!, body[1]!];
  const id = `TDX_${toHex(Uint8Array.of(major)).toUpperCase()}`;
  const identities = (info.tdxModuleIdentities ?? []) as readonly (Identity & { id: string })[];
  const identity =
    major === 0 ? (info.tdxModule as Identity) : identities.find((one) => one.id === id);
  const signer = toHex(body.subarray(64, 112));
  const attributes = body.subarray(112, 120);
  if (
    identity?.mrsigner.toLowerCase() !== signer ||
    !isMasked(attributes, identity.attributes, identity.attributesMask)
  ) {
    return refuse('other-module', where, 'the TDX module is none that Intel names');
  }
  if (major === 0) return ok('UpToDate');
  return statusOf(
    levelsOf(identity.tcbLevels).find(({ tcb }) => version >= (tcb.isvsvn ?? 0)),
    where,
  );
}

function enclaveStatus(identity: Document, { isTdx, enclave }: Quote): Result<TcbStatus> {
  const where = 'collateral.qe_identity';
  const view = new DataView(enclave.buffer, enclave.byteOffset, enclave.length);
  const expected = identity as unknown as Identity & {
    readonly miscselect: string;
    readonly miscselectMask: string;
    readonly isvprodid: number;
  };
  if (
    identity.id !== (isTdx ? 'TD_QE' : 'QE') ||
    expected.mrsigner.toLowerCase() !== toHex(enclave.subarray(128, 160)) ||
    expected.isvprodid !== view.getUint16(256, true) ||
    !isMasked(enclave.subarray(16, 20), expected.miscselect, expected.miscselectMask) ||
    !isMasked(enclave.subarray(48, 64), expected.attributes, expected.attributesMask)
  ) {
    return refuse('other-enclave', where, 'the quoting enclave is not the one that Intel names');
  }
  const version = view.getUint16(258, true);
  const level = levelsOf(expected.tcbLevels).find(({ tcb }) => version >= (tcb.isvsvn ?? 0));
  return statusOf(level, where);
}
