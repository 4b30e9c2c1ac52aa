/** The methods of the API: one table. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { memberKind } from '../../../../kinds/member.ts';
import { run as runKind } from '../../../../kinds/run.ts';
import { utf8 } from '../../../base/bytes.ts';
import { canonicalJson, type JsonObject } from '../../../base/canonical-json.ts';
import { assertInviting, invitationTo } from '../../../certified/invitations.ts';
import { makeSpec } from '../../../certified/make-spec.ts';
import { receiptOf } from '../../../certified/records/receipt.ts';
import { toMember } from '../../../certified/wire/messages.ts';
import {
  encodeRunAddress,
  publishRun,
  listRuns as queryRuns,
  toRun,
} from '../../../certified/wire/runs.ts';
import type { SignedEvent } from '../../../network/event.ts';
import { unixSeconds } from '../../../node/checkpoint/directory.ts';
import { dataOfSpec } from '../../../node/data/spec-data.ts';
import { writeAtomically } from '../../../node/files/atomic-file.ts';
import { form, key } from '../../../run/field.ts';
import { featureSet } from '../../../run/spec/features.ts';
import { runIdOf } from '../../../run/spec/run-spec.ts';
import { canonicalManifest, manifestHash, readManifest } from '../../../sealed/manifest.ts';
import { signDocument } from '../../shared/signed-document.ts';
import { publishEvent } from '../../shared/with-relays.ts';
import { summary } from '../run/inspect.ts';
import {
  type Api,
  assertEvent,
  historyOptions,
  refusal,
  stateOf,
  throwRefusal,
} from './context.ts';
import {
  type ApiMethod,
  eventErrors,
  eventParam,
  method,
  objectParam,
  optional,
  param,
  runParam,
} from './method.ts';
import {
  challengeCommitment,
  decideRound,
  finalizeRound,
  submitOuterGradient,
} from './round-methods.ts';

/** Milliseconds that relays may take to list their runs. */
const LIST_MS = 10_000;

/** Throws a ConfigError (`settings/missing`) unless exactly one of two parameters is present. */
function assertOne(names: string, ...values: readonly unknown[]): void {
  if (values.filter((value) => value !== undefined).length === 1) return;
  const hint = 'an event is for keys that are not the key of the server';
  throw refusal('settings/missing', `exactly one of ${names} must be present`, hint);
}

const postTask = method({
  name: 'postTask',
  summary: 'create a run, signed by the server, or publish one that another key signed',
  params: {
    spec: optional(objectParam('run spec, whole or in part')),
    event: optional(eventParam(`run (kind ${runKind.kind}), signed by its author`)),
  },
  result: { run: 'string', naddr: 'string' },
  errors: ['spec/AggregationRuleTierMismatch', ...eventErrors],
  cost: 1000,
  async run(api, { spec: document, event }) {
    assertOne('spec, event', document, event);
    const { author, run } = event ? await publishSigned(event, api) : await create(document!, api);
    return { run, naddr: encodeRunAddress({ run, author, relays: api.reach.relays }) };
  },
});

async function publishSigned(event: SignedEvent, api: Api) {
  assertEvent(event, runKind.kind);
  const read = toRun(event);
  if (!read.ok) throwRefusal(read.rejection);
  await publishEvent(event, 'run', api);
  const { run, spec } = read.value;
  return { run, author: spec.author };
}

async function create(document: JsonObject, api: Api) {
  const me = api.signer.publicKey;
  const data = await dataOfSpec({}, api);
  const { spec, slice } = await makeSpec({ document, me, isGuarded: true, ...data });
  const { author } = spec;
  if (author !== me) {
    const hint = 'leave out the author, or send the run as an event that the author signed';
    throw refusal('run/author', 'the author of the spec is not the key of this server', hint);
  }
  await publishRun(spec, slice, { ...api, sign: (draft) => api.signer.sign(draft) });
  return { run: runIdOf(spec), author };
}

const listRuns = method({
  name: 'listRuns',
  summary: 'list the runs on the relays, newest first',
  params: {},
  result: { runs: 'array' },
  errors: [],
  cost: 500,
  async run(api) {
    const runs = await queryRuns({ ...api, timeoutMs: LIST_MS });
    return { runs: runs.map((each) => summary(each, api.reach.relays)) };
  },
});

const getRun = method({
  name: 'getRun',
  summary: 'return the state of a run: last decided round, open round, committee',
  params: { run: runParam },
  result: {
    run: 'string',
    decided: 'integer',
    complete: 'boolean',
    last: 'object',
    open: 'object',
  },
  errors: ['run/not-found', 'run/slow', 'run/dropped'],
  cost: 1,
  run: async (api, { run }) => stateOf((await api.runs.get(run)).open.picture),
});

const getReceipt = method({
  name: 'getReceipt',
  summary: 'list what each key contributed; signed by the server once the run is complete',
  params: { run: runParam },
  result: {
    complete: 'boolean',
    rounds: 'integer',
    runRoot: 'string',
    rows: 'array',
    event: 'object',
  },
  errors: ['receipt/empty'],
  cost: 1000,
  async run(api, { run }) {
    const { open } = await api.runs.get(run);
    const made = await receiptOf(await open.archive(), historyOptions(api, open));
    if (made === undefined) {
      const hint = 'getRun shows when the first round is decided';
      throw refusal('receipt/empty', 'no round of this run is decided yet', hint);
    }
    const { receipt } = made;
    if (!receipt.complete) return receipt;
    const event = signDocument(api.signer, `nostrain/receipt/${receipt.run}`, receipt);
    return { ...receipt, event };
  },
});

const enrollTrainer = method({
  name: 'enrollTrainer',
  summary: 'let a key take part: invite it as a founder, or publish the join that it signed',
  params: {
    run: runParam,
    trainer: optional(param('string', 'key that the server invites', key())),
    event: optional(eventParam(`join (kind ${memberKind.kind}), signed by the trainer`)),
  },
  result: { run: 'string', trainer: 'string', status: 'string', event: 'object' },
  errors: ['run/no-invitations', 'run/not-an-anchor', ...eventErrors],
  cost: 100,
  async run(api, { run: name, trainer, event }) {
    assertOne('trainer, event', trainer, event);
    if (event !== undefined) assertEvent(event, memberKind.kind);
    const { open } = await api.runs.get(name);
    const { run, spec } = open;
    const worker = trainer ?? event!.pubkey;
    const isMember = open.tip.ledger.members.some((member) => member.key === worker);
    if (isMember) return { run, trainer: worker, status: 'enrolled' };
    if (trainer !== undefined) {
      assertInviting(spec, api.signer.publicKey);
      const invitation = api.signer.sign(invitationTo(trainer, unixSeconds()));
      await publishEvent(invitation, 'invitation', api);
      return { run, trainer, status: 'invited', event: invitation };
    }
    const join = toMember(event!, featureSet(spec.features));
    if (!join.ok) throwRefusal(join.rejection);
    if (join.value.run !== run || join.value.type !== 'join') {
      throwRefusal({ reason: 'other-run', detail: 'it is not a join of this run' });
    }
    await publishEvent(event!, 'join', api);
    open.take(event!);
    return { run, trainer: worker, status: 'announced' };
  },
});

const referenceParam = param(
  'string',
  'reference of the sealed data, as in the spec',
  form('tee:// and 64 hex digits', /^tee:\/\/[0-9a-f]{64}$/),
);

const fileOf = (folder: string, reference: string): string =>
  join(folder, `${reference.slice('tee://'.length)}.json`);

const installSealedManifest = method({
  name: 'installSealedManifest',
  summary: 'store the manifest of sealed data on this server',
  params: { reference: referenceParam, manifest: objectParam('manifest that `shard seal` wrote') },
  result: { reference: 'string', shards: 'integer', envelopes: 'integer' },
  errors: ['sealed/SealedManifestHashMismatch', 'sealed/malformed'],
  cost: 100,
  async run({ sealedFolder }, { reference, manifest }) {
    const read = readManifest(canonicalJson(manifest));
    const hint = 'get the manifest from the owner of the data again';
    if (!read.ok) {
      const { at, message } = read.issue;
      throw refusal('sealed/malformed', `${at} ${message}`.trim(), hint);
    }
    const got = `tee://${manifestHash(read.value)}`;
    if (got !== reference) {
      const words = `the manifest is ${got}, not ${reference}`;
      const data = { expected: reference, got };
      throw refusal('sealed/SealedManifestHashMismatch', words, hint, data);
    }
    await mkdir(sealedFolder, { recursive: true, mode: 0o700 });
    await writeAtomically(fileOf(sealedFolder, reference), utf8(canonicalManifest(read.value)));
    const { shards, envelopes } = read.value;
    return { reference, shards: shards.length, envelopes: envelopes.length };
  },
});

const getSealedManifest = method({
  name: 'getSealedManifest',
  summary: 'return an installed manifest in its canonical form',
  params: { reference: referenceParam },
  result: { id: 'string', form: 'string', shards: 'array', envelopes: 'array', version: 'integer' },
  errors: ['sealed/unknown'],
  cost: 100,
  async run({ sealedFolder }, { reference }) {
    const text = await readFile(fileOf(sealedFolder, reference), 'utf8').catch(() => undefined);
    if (text === undefined) {
      const hint = 'install it with installSealedManifest';
      throw refusal('sealed/unknown', `${reference} is not installed`, hint);
    }
    return JSON.parse(text);
  },
});

export const methods: readonly ApiMethod[] = [
  postTask,
  listRuns,
  getRun,
  getReceipt,
  enrollTrainer,
  submitOuterGradient,
  decideRound,
  finalizeRound,
  challengeCommitment,
  installSealedManifest,
  getSealedManifest,
];
