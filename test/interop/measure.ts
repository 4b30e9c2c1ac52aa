/** Prints what the installed third-party relays do, observed anew; `npm run measure:relays -- NAME` asks one. */
import { observe } from '../contract/behavior.ts';
import { thirdParties } from './third-parties.ts';

const [only] = process.argv.slice(2);
for (const relay of thirdParties) {
  if (!relay.isInstalled() || (only !== undefined && relay.name !== only)) continue;
  const { url, close } = await relay.start();
  try {
    console.log(relay.name, await observe(url));
  } finally {
    await close();
  }
}
