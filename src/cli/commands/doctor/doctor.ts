/** `nostrain doctor`: checks whether this machine can train a model, and whether the given relays can carry a run. */

import { existsSync } from 'node:fs';
import { access, constants, rm, statfs, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { availableParallelism, freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { formatBytes } from '../../../base/numbers.ts';
import { whileSlow } from '../../../base/slow.ts';
import { MAX_WORK_BITS } from '../../../network/proof-of-work.ts';
import type { RelayInfo } from '../../../network/transport/limits.ts';
import { parseRelayUrls, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { type DeviceReport, probeDevices } from '../../../node/engine/device.ts';
import { ENGINE_HINT } from '../../../node/engine/onnxruntime.ts';
import { type OtherPlatforms, otherPlatforms } from '../../../node/engine/other-platforms.ts';
import { physicalCores } from '../../../node/engine/trainer.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { fetchClockSkew, fetchRelayInfo, kilobytes } from '../../../node/net/relays.ts';
import type { Settings } from '../../../run/settings.ts';
import { combineSettings, presets, requestedModel } from '../../../run/spec/presets.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { choice, settingFlags, severalOr, text, toggle } from '../../../terminal/flag-table.ts';
import { settingsFromFlags } from '../../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { timeToOpen } from '../relays.ts';
import { fixCuda } from './fix-cuda.ts';

/** Flags that choose the model on which devices are tested. */
const MODEL_FLAGS = [
  'model',
  'base',
  'rank',
  'alpha',
  'targets',
  'basePrecision',
  'width',
  'layers',
  'heads',
  'context',
  'ffn',
  'hidden',
  'tokens',
  'optimizer',
  'batchSize',
  'recompute',
  'precision',
] as const;

const isOfRelay = ({ name }: DoctorCheck): boolean => name.startsWith('relay ');
const isGoodRelay = (check: DoctorCheck): boolean => isOfRelay(check) && check.level !== 'broken';

export const doctor = defineCommand({
  name: 'doctor',
  help: 'check whether this machine and the given relays can train a model',
  flags: {
    relay: severalOr('none', '<url>', 'also check this relay, repeatable'),
    fix: choice(
      '<part>',
      'install the onnxruntime part for NVIDIA GPUs from its Python package; pip downloads it ' +
        'unless --from names a file',
      ['cuda'],
    ),
    from: text('<file>', 'package to install from: a .whl or .nupkg file'),
    sha256: text('<hash>', 'expected SHA-256 of a package that this version does not know'),
    json: toggle('print JSON'),
    ...settingFlags(MODEL_FLAGS),
  },
  async run({ relay, json, ...flags }, { command }) {
    const fixed = flags.fix === undefined ? [] : [await fixCuda(flags)];
    const given = settingsFromFlags(command);
    const model = requestedModel(given) ?? 'char-gpt';
    const settings = combineSettings(presets[model], { ...given, model, run: 'doctor', relay: [] });
    const [relays, machine] = await Promise.all([checkRelays(relay), checkMachine(settings)]);
    const checks = [...fixed, ...machine, ...relays];
    const broken = checks.filter(({ level }) => level === 'broken');
    writeOut(json ? asJson({ ok: broken.length === 0, checks }) : formatChecks(checks));
    if (broken.length === 0) return;
    const names = broken.map((check) => check.name).join(', ');
    const isHindered = broken.some((check) => !isOfRelay(check)) || !checks.some(isGoodRelay);
    throw new ConfigError(
      'doctor/broken',
      isHindered
        ? `training will not work here: ${names}`
        : `training will work only over the other relays: ${names}`,
    );
  },
});

export interface DoctorCheck {
  /** What was checked: `node`, `device cpu`, `relay ws://…`. */
  readonly name: string;
  /** `absent`: missing, but not needed. `note`: works, with a remark. */
  readonly level: 'ok' | 'note' | 'absent' | 'broken';
  readonly words: string;
  /** How to fix it. */
  readonly hint?: string;
}

const MARKS: Readonly<Record<DoctorCheck['level'], string>> = {
  ok: 'ok',
  note: 'note',
  absent: '-',
  broken: 'BROKEN',
};

/** Formats one line per check, in columns, and a second line if there is a hint. */
export function formatChecks(checks: readonly DoctorCheck[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const margin = ' '.repeat(8);
  return checks
    .map(({ level, name, words, hint }) => {
      const line = `${MARKS[level].padEnd(8)}${name.padEnd(width)}  ${words}\n`;
      return hint === undefined ? line : `${line}${margin}${' '.repeat(width)}  try: ${hint}\n`;
    })
    .join('');
}

const NEEDED_NODE = [20, 19] as const;
/** Below this much free memory, runs of larger models swap; below this much free disk, a run may fail to save. */
const LOW_MEMORY_BYTES = 1e9;
const LOW_DISK_BYTES = 2e8;

/** Devices are tested with the model of these settings. */
async function checkMachine(settings: Settings): Promise<readonly DoctorCheck[]> {
  const probing = () => probeDevices(settings);
  return [
    checkNode(process.versions.node),
    await checkEngine(),
    ...(await whileSlow('training briefly on each device', writeNote, probing)).map(wordDevice),
    ...checkCores(),
  ].concat(await checkFolder(dataHome()));
}

export function checkNode(version: string): DoctorCheck {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isEnough = major > NEEDED_NODE[0] || (major === NEEDED_NODE[0] && minor >= NEEDED_NODE[1]);
  const words = `${version} (needs ${NEEDED_NODE.join('.')} or newer)`;
  if (isEnough) return { name: 'node', level: 'ok', words };
  return { name: 'node', level: 'broken', words, hint: 'install a newer Node.js' };
}

async function checkEngine(): Promise<DoctorCheck> {
  const name = 'onnxruntime-node';
  try {
    const { version } = createRequire(import.meta.url)(`${name}/package.json`);
    return wordEngine(String(version), await otherPlatforms());
  } catch {
    return { name, level: 'broken', words: 'not installed', hint: ENGINE_HINT };
  }
}

/** Describes the installed engine, and how to remove its builds for other platforms. */
export function wordEngine(version: string, { bytes }: Pick<OtherPlatforms, 'bytes'>): DoctorCheck {
  const name = 'onnxruntime-node';
  if (bytes === 0) return { name, level: 'ok', words: version };
  const words = `${version}, with ${formatBytes(bytes)} of builds for other platforms`;
  return { name, level: 'note', words, hint: '`nostrain clean --engine --yes` removes them' };
}

/** Describes a device. Only the CPU is required, and only the CPU has been benchmarked. */
export function wordDevice({ device, works, message, halves }: DeviceReport): DoctorCheck {
  const name = `device ${device}`;
  const why = message.replace(`${device} does not work here: `, '').split(' was false. ').at(-1)!;
  const words = works ? `works: ${message}` : `not available: ${why.trim().replace(/\s+/g, ' ')}`;
  if (device !== 'cpu') {
    const half = `; half precision: ${halves.join(', ') || 'none'} (not benchmarked)`;
    return { name, level: works ? 'ok' : 'absent', words: works ? `${words}${half}` : words };
  }
  if (works) return { name, level: 'ok', words };
  return { name, level: 'broken', words, hint: 'reinstall onnxruntime-node' };
}

function checkCores(): readonly DoctorCheck[] {
  const physical = physicalCores();
  const threads = `${availableParallelism()} hardware threads`;
  const cores = `${threads}; training uses ${physical} unless --threads says otherwise`;
  const limit = process.constrainedMemory() || totalmem();
  const free = Math.min(freemem(), limit);
  return [
    { name: 'cores', level: 'ok', words: cores },
    {
      name: 'memory',
      level: free < LOW_MEMORY_BYTES ? 'note' : 'ok',
      words: `${gigabytes(free)} free of ${gigabytes(Math.min(limit, totalmem()))}`,
    },
  ];
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;

/** Checks that the data folder can be written, or created. */
export async function checkFolder(folder: string): Promise<DoctorCheck> {
  const name = 'data folder';
  const parent = existingPart(folder);
  try {
    if (parent === folder) {
      const file = join(folder, `.doctor-${process.pid}`);
      await writeFile(file, '');
      await rm(file);
    } else await access(parent, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = await statfs(parent);
    const free = bavail * bsize;
    const words = `${folder} is writable, ${gigabytes(free)} free`;
    return { name, level: free < LOW_DISK_BYTES ? 'note' : 'ok', words };
  } catch (error) {
    const words = `${folder} is not writable: ${(error as Error).message}`;
    const hint = 'set NOSTRAIN_HOME to a writable folder';
    return { name, level: 'broken', words, hint };
  }
}

function existingPart(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : existingPart(dirname(folder));
}

const TIMEOUT_MS = 5000;
/** HTTP dates are whole seconds, so smaller differences are ignored. */
const NOTED_SKEW_SECONDS = 5;
/** Heartbeats dated this far back look like those of a stopped worker. */
const BROKEN_SKEW_SECONDS = 60;

interface Probe {
  readonly url: string;
  /** Milliseconds until the connection was open, or why it is not. */
  readonly opened: number | string;
  readonly info: RelayInfo | undefined;
  /** This machine's clock minus the relay's; undefined if the relay sent no time. */
  readonly skewSeconds: number | undefined;
}

/** Checks all relays at once. Throws a ConfigError if an address is invalid. */
export async function checkRelays(urls: readonly string[]): Promise<readonly DoctorCheck[]> {
  if (urls.length === 0) return [];
  const probes = await Promise.all(parseRelayUrls(urls).map(probe));
  const problems = probes.map(problemOf);
  const canMiss = problems.includes(undefined);
  const relays = probes.map((each, i) =>
    wordRelay(each, problems[i], canMiss && isReached(each) ? 'note' : 'broken'),
  );
  return [...relays, checkClock(probes)];
}

async function probe(url: string): Promise<Probe> {
  const [opened, info, skewSeconds] = await Promise.all([
    timeToOpen(url, TIMEOUT_MS),
    fetchRelayInfo(url, { timeoutMs: TIMEOUT_MS }),
    fetchClockSkew(url),
  ]);
  return { url, opened, info: info.ok ? info.value : undefined, skewSeconds };
}

const isReached = ({ opened }: Probe): boolean => typeof opened === 'number';

/** Returns why a run cannot use the relay; undefined if it can. */
function problemOf({ opened, info }: Probe): string | undefined {
  if (typeof opened === 'string') return `cannot be reached: ${opened}`;
  const { paymentRequired, minPowDifficulty = 0 } = info?.limitation ?? {};
  if (paymentRequired) return 'requires payment';
  return minPowDifficulty > MAX_WORK_BITS
    ? `requires proof of work of ${minPowDifficulty} bits, more than nostrain does`
    : undefined;
}

function wordRelay(
  { url, opened, info }: Probe,
  problem: string | undefined,
  level: 'note' | 'broken',
): DoctorCheck {
  const name = `relay ${withoutSecrets(url)}`;
  const reached = typeof opened === 'number' ? [`reached in ${opened.toFixed(0)} ms`] : [];
  const description = reached.length === 0 ? [] : wordInfo(info);
  const words = [...reached, ...(problem === undefined ? [] : [problem]), ...description].join(
    '; ',
  );
  return { name, level: problem === undefined ? 'ok' : level, words };
}

function wordInfo(info: RelayInfo | undefined): readonly string[] {
  if (info === undefined) return ['serves no information document (NIP-11)'];
  const { name, software, version, limitation } = info;
  const { maxMessageLength, maxContentLength, restrictedWrites } = limitation;
  const made = [software, version].filter((word) => word !== undefined).join(' ');
  const parts = [
    name ?? 'unnamed',
    made,
    maxMessageLength === undefined ? '' : `messages up to ${kilobytes(maxMessageLength)}`,
    maxContentLength === undefined ? '' : `content up to ${kilobytes(maxContentLength)}`,
    restrictedWrites ? 'restricts who or what may be written' : '',
  ];
  const printable = parts.map((part) => safeLine(part).trim());
  return printable.filter((part) => part !== '');
}

/** Uses the median of the relays' clocks, so that one wrong relay does not count. */
function checkClock(probes: readonly Probe[]): DoctorCheck {
  const name = 'clock';
  const skews = probes.map(({ skewSeconds }) => skewSeconds).filter((skew) => skew !== undefined);
  skews.sort((a, b) => a - b);
  const skew = skews[Math.floor(skews.length / 2)];
  if (skew === undefined) return { name, level: 'absent', words: 'no relay sent the time' };
  const size = Math.abs(skew);
  const words = `${size.toFixed(0)} s ${skew < 0 ? 'behind' : 'ahead of'} the relays`;
  if (size < NOTED_SKEW_SECONDS) return { name, level: 'ok', words: 'agrees with the relays' };
  const level = size < BROKEN_SKEW_SECONDS ? 'note' : 'broken';
  return { name, level, words, hint: 'set the clock of this machine, preferably with NTP' };
}
