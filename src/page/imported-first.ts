/** Fetches the model of an ONNX file that a run starts from, so that the page can replay the run with its model. */
import { packed } from '../../kinds/packed.ts';
import { sha256Hex } from '../base/hash.ts';
import { layoutOfRun } from '../model/from-settings.ts';
import { firstParameters, unpackImported } from '../model/imported/packed.ts';
import { Attachments } from '../network/attachments/attachments.ts';
import type { RelaySession } from '../network/attachments/relay-chunks.ts';
import { parseManifest } from '../network/chunks/manifest.ts';
import { findAddressed } from '../network/wire/addressed.ts';
import { importedDataOf, importedFiles } from '../run/spec/imported-shape.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';

/** Maximum bytes of a file that the page downloads. */
const MOST_BYTES = 2 ** 27;
/** Time without a new chunk after which a download ends. */
const IDLE_MS = 20_000;

/**
 * Returns the first parameters; undefined if the run starts from no ONNX file, or if the relays lack its chunks. Throws
 * a ConfigError (`onnx/graph`) if its files are invalid.
 */
export async function firstOfImported(
  spec: RunSpec,
  session: RelaySession,
): Promise<Float32Array | undefined> {
  if (importedDataOf(spec.start) === undefined) return undefined;
  const graph = await download(spec, importedFiles.graph, session);
  const weights = graph && (await download(spec, importedFiles.weights, session));
  return weights && firstParameters(unpackImported({ graph, weights }), layoutOfRun(spec));
}

async function download(
  { files }: RunSpec,
  name: string,
  session: RelaySession,
): Promise<Uint8Array | undefined> {
  const file = files?.each.find((each) => each.name === name);
  if (file === undefined || file.bytes > MOST_BYTES) return undefined;
  const text = await findAddressed(packed, file.manifest, session);
  const manifest = text.ok ? parseManifest(new TextDecoder().decode(text.value)) : text;
  if (!manifest.ok || manifest.value.root === null) return undefined;
  const { root, bytes } = manifest.value;
  const attachments = new Attachments(session);
  const limits = { signal: session.signal, idleMs: IDLE_MS };
  const pulled = await attachments.pull({ root, bytes, worker: '' }, limits).done;
  attachments.close();
  const payload = pulled?.payload;
  return payload && sha256Hex(payload) === file.sha256 ? payload : undefined;
}
