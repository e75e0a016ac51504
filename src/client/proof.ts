/**
 * The verifier of proofs, as `evm-data-client/proof`. It needs the packages that run contracts, which a program installs
 * beside the client; the client itself needs nothing.
 */
export { ProofRefused, type VerifiedProof, type VerifyOptions, verifyProof } from "../proof/verifier/verify.ts";
