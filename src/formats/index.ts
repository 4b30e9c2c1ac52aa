/**
 * Files of models and states: Hugging Face folders, GGUF, NumPy, zip, JSON as Python spells it.
 *
 * @module nostrain/formats
 */

export {
  adapterFiles,
  jsonFile,
  type Learned,
  modelFiles,
  type OutFile,
  outFile,
} from '../pretrained/export/folders.ts';
export { openPretrained } from '../pretrained/pretrained.ts';
export { indentedJson, isJsonObject, parseJson } from './python-json.ts';
export { encodeZip } from './zip.ts';
