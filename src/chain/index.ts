/**
 * Stake and randomness from blockchains: EVM calls, the stake registry, Psyche links, endpoints.
 *
 * @module nostrain/chain
 */
export { createEndpoint, createGet, createPost, type Endpoint } from './endpoints.ts';
export { callData, encodeRlp, encodeWords, type Rlp } from './evm/encoding.ts';
export { createRegistrySource } from './evm/stake-sources.ts';
export { createTokenSource, evmAddress } from './evm/token-source.ts';
export {
  type DeployedRegistry,
  requestExit,
  slashCall,
  withdraw,
} from './registry/registry-calls.ts';
