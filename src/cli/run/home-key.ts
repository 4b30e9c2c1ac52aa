/** A person's key for runs with a spec: founders are named before a run has a folder, so it is kept in the data folder. */
import { mkdir } from 'node:fs/promises';
import { createSigner, type Signer } from '../../network/event.ts';
import { dataHome } from '../../node/data-home.ts';
import { loadKey } from '../../node/keys.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';

/** The key named by a flag or the environment, else the one in the data folder, which is made when absent. */
export async function homeSigner(
  flags: { readonly keyFile?: string; readonly secKey?: string },
  onNotice: (words: string) => void,
): Promise<Signer> {
  const dir = dataHome();
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const { secretKey, notices } = await loadKey({ ...flags, dir });
  notices.forEach(onNotice);
  return createSigner(secretKey, nativeCrypto);
}
