/** `nostrain attest`: shows and verifies evidence of a machine that proves what it runs. */

import {
  type Claims,
  type MachineEvidence,
  readEvidence,
  type TcbStatus,
  tcbStatuses,
  vendorNames,
} from '../../attest/evidence.ts';
import { judgeEvidence, verifyEvidence } from '../../attest/vendors.ts';
import { ConfigError, type Issue, type Result } from '../../base/errors.ts';
import { unixSeconds } from '../../node/checkpoint/directory.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import { choice, parsed, several, text, toggle, withDefault } from '../../terminal/flag-table.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import { alignColumns } from '../../terminal/render/text.ts';
import { readText } from '../shared/files.ts';

const inspectFlags = {
  at: parsed(
    '<time>',
    'judge as of this time, for example 2026-11-24T12:00Z (default: now)',
    timeOf,
  ),
  json: toggle('print one JSON document'),
};

const inspect = defineCommand({
  name: 'inspect',
  help: 'show what evidence says, and whether it is genuine',
  args: [['<file>', 'evidence document']],
  flags: inspectFlags,
  async run({ at, json }, { args: [file] }) {
    const evidence = await evidenceIn(file);
    show(await verifyEvidence(evidence, at ?? unixSeconds()), json);
  },
});

const verify = defineCommand({
  name: 'verify',
  help: 'check evidence against what a run would accept',
  args: [['<file>', 'evidence document']],
  flags: {
    ...inspectFlags,
    vendor: several('<name>', `accept only this vendor (${vendorNames.join(', ')})`),
    measurement: several('<hex>', 'accept only this measurement'),
    userData: text('<hex>', 'what the machine must have bound into its report'),
    leastStatus: withDefault(
      choice('<status>', 'worst accepted state of the firmware', tcbStatuses),
      'UpToDate' satisfies TcbStatus,
    ),
    allowSimulated: toggle('accept simulated machines, which prove nothing'),
  },
  async run(flags, { args: [file] }) {
    const evidence = await evidenceIn(file);
    const at = flags.at ?? unixSeconds();
    const verified = await verifyEvidence(evidence, at);
    if (!verified.ok) return show(verified, flags.json);
    const trusted = vendorNames.filter((name) => name !== 'simulated' || flags.allowSimulated);
    const policy = {
      vendors: trusted.filter((name) => flags.vendor?.includes(name) ?? true),
      measurements: flags.measurement ?? [],
      leastStatus: flags.leastStatus,
    };
    const userData = flags.userData ?? verified.value.userData;
    show(await judgeEvidence(evidence, { at, policy, userData }), flags.json);
  },
});

function timeOf(typed: string, flag: string): number {
  const time = Date.parse(typed);
  if (Number.isFinite(time)) return time / 1000;
  throw new ConfigError('flag/value', `${flag} is ${JSON.stringify(typed)}`, {
    hint: 'write a time as 2026-11-24T12:00Z',
  });
}

async function evidenceIn(file: string): Promise<MachineEvidence> {
  const hint = 'name a file with an evidence document';
  const read = readEvidence(await readText(file, 'attest/file', hint));
  if (read.ok) return read.value;
  const { at, message } = read.issue;
  throw new ConfigError('attest/evidence', `${file} holds no evidence: ${at} ${message}`, {
    hint: 'docs/attestation.md shows the format',
  });
}

interface Verdict {
  readonly ok: boolean;
  readonly claims?: Claims;
  readonly issue?: Issue;
}

/** Prints what genuine evidence says, or why it is refused; then the exit code is 1. */
function show(result: Result<Claims>, json: boolean | undefined): void {
  const verdict: Verdict = result.ok
    ? { ok: true, claims: result.value }
    : { ok: false, issue: result.issue };
  if (!result.ok) process.exitCode = exitCodes.failed.code;
  if (json) {
    writeOut(asJson(verdict));
    return;
  }
  if (!result.ok) {
    const { code, at, message } = result.issue;
    writeNote(`refused (${code}${at && `, ${at}`}): ${message}`);
    return;
  }
  const { vendor, measurement, measurements, userData, isDebug, status } = result.value;
  const rows = [
    ['vendor', vendor === 'simulated' ? 'simulated: it proves nothing' : vendor],
    ['measurement', measurement || 'none'],
    ['firmware', status],
    ['memory', isDebug ? 'open to its owner (debug mode)' : 'closed to its owner'],
    ['user data', userData || 'none'],
    ...Object.entries(measurements),
  ];
  writeOut(`${alignColumns(rows, Number.POSITIVE_INFINITY).join('\n')}\n`);
}

export const attest = defineGroup(
  'attest',
  'show and verify evidence of a machine that proves what it runs',
  [inspect, verify],
);
