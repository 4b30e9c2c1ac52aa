/** The part of the package `qr` that is used here; it is loaded only to show a code. */
declare module 'qr' {
  export function encodeQR(
    text: string,
    output: 'ascii',
    options: { readonly ecc: 'low'; readonly border: number },
  ): string;
}
