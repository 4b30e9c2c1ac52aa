/** The error function in f64, which onnxruntime has only in f32: its Taylor series, and for large arguments 1. */

export function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  // erf x = 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, whose terms never cancel
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
